// A load balancer in front of an instance that loses or refuses chosen answers, as real ones do.
//
// relay.next('refuse'): 503 without passing the request on. 'lose': the instance works, its answer is
// replaced by 503. 'cut': the instance works, the client's connection breaks instead of an answer.
import http from 'node:http';

export async function startRelay(target) {
    const relay = new Relay(new URL(target));
    await new Promise((resolve, reject) => {
        relay.server.once('error', reject);
        relay.server.listen(0, '127.0.0.1', resolve);
    });
    relay.url = `http://127.0.0.1:${relay.server.address().port}`;
    return relay;
}

class Relay {
    constructor(target) {
        this.target = target;
        this.faults = [];
        this.seen = []; // [{method, path, body, headers}] in order of arrival
        this.agent = new http.Agent({ keepAlive: true });
        this.server = http.createServer((request, response) => {
            this.handle(request, response).catch(() => response.destroy());
        });
    }

    next(...faults) {
        this.faults.push(...faults);
    }

    async handle(request, response) {
        const body = await readAll(request);
        this.seen.push({ method: request.method, path: request.url, body: body.toString('utf8'), headers: request.headers });
        const fault = this.faults.shift();
        if (fault === 'refuse') return unavailable(response);
        const answer = await this.forward(request, body);
        if (fault === 'lose') return unavailable(response);
        if (fault === 'cut') return response.destroy();
        response.writeHead(answer.status, answer.headers);
        response.end(answer.body);
    }

    forward(request, body) {
        return new Promise((resolve, reject) => {
            const onward = http.request(
                { host: this.target.hostname, port: this.target.port, method: request.method, path: request.url, headers: request.headers, agent: this.agent },
                async (answer) => {
                    try {
                        resolve({ status: answer.statusCode, headers: answer.headers, body: await readAll(answer) });
                    } catch (error) {
                        reject(error);
                    }
                },
            );
            onward.on('error', reject);
            onward.end(body);
        });
    }

    close() {
        this.agent.destroy();
        this.server.closeAllConnections();
        return new Promise((resolve) => this.server.close(resolve));
    }
}

async function readAll(stream) {
    const parts = [];
    for await (const part of stream) parts.push(part);
    return Buffer.concat(parts);
}

function unavailable(response) {
    response.writeHead(503, { 'Content-Type': 'application/json' });
    response.end('{"error":"unavailable"}');
}
