// A small keep-alive JSON client with raw access: status, headers, body bytes. Never retries.
import http from 'node:http';

export class Client {
    /* timeoutMs: longest wait for an answer; past it the connection is destroyed. */
    constructor(url, { maxSockets = Infinity, timeoutMs = 60000 } = {}) {
        this.url = new URL(url);
        this.timeoutMs = timeoutMs;
        this.agent = new http.Agent({ keepAlive: true, maxSockets });
    }

    close() {
        this.agent.destroy();
    }

    /* body: string, Buffer, or a value that becomes JSON. Resolves to {status, headers, body: Buffer,
     * json(): parsed body}; rejects when no complete answer came. */
    request(method, target, body, headers = {}) {
        const bytes = body === undefined || typeof body === 'string' || Buffer.isBuffer(body) ? body : JSON.stringify(body);
        return new Promise((resolve, reject) => {
            const request = http.request({
                host: this.url.hostname,
                port: this.url.port,
                method,
                path: target,
                agent: this.agent,
                headers: bytes === undefined ? headers : { 'Content-Type': 'application/json', 'Content-Length': Buffer.byteLength(bytes), ...headers },
            }, (response) => {
                const parts = [];
                response.on('data', (part) => parts.push(part));
                response.on('error', reject);
                response.on('end', () => {
                    clearTimeout(timer);
                    const all = Buffer.concat(parts);
                    resolve({ status: response.statusCode, headers: response.headers, body: all, json: () => JSON.parse(all.toString('utf8')) });
                });
            });
            const timer = setTimeout(() => request.destroy(new Error(`no answer in ${this.timeoutMs} ms: ${method} ${target}`)), this.timeoutMs);
            request.on('error', (error) => {
                clearTimeout(timer);
                reject(error);
            });
            request.end(bytes);
        });
    }

    push(items) {
        return this.request('POST', '/api/v1/push', { items });
    }

    /* parameters: query parameters of the pop. */
    pop(queue, parameters = {}) {
        return this.request('GET', `/api/v1/pop/queue/${encodeURIComponent(queue)}?${new URLSearchParams(parameters)}`);
    }

    ack(acknowledgments, consumerGroup) {
        return this.request('POST', '/api/v1/ack/batch', { consumerGroup, acknowledgments });
    }
}
