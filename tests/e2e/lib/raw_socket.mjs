// One TCP connection to nginx on which a test writes exact bytes and reads HTTP answers one by one.
import net from 'node:net';

export async function rawConnect(url) {
    const { hostname, port } = new URL(url);
    const socket = net.connect({ host: hostname, port: Number(port) });
    await new Promise((resolve, reject) => {
        socket.once('connect', resolve);
        socket.once('error', reject);
    });
    return new RawConnection(socket);
}

export class RawConnection {
    constructor(socket) {
        this.socket = socket;
        this.buffer = Buffer.alloc(0);
        this.ended = false;
        this.wake = () => {};
        socket.on('data', (chunk) => {
            this.buffer = Buffer.concat([this.buffer, chunk]);
            this.wake();
        });
        const end = () => {
            this.ended = true;
            this.wake();
        };
        socket.on('end', end);
        socket.on('close', end);
        socket.on('error', end);
    }

    write(data) {
        this.socket.write(data);
    }

    async more(deadline) {
        if (this.ended) throw new Error(`connection closed; unread: ${this.buffer.toString('latin1').slice(0, 200)}`);
        const left = deadline - Date.now();
        if (left <= 0) throw new Error(`no answer in time; unread: ${this.buffer.toString('latin1').slice(0, 200)}`);
        await new Promise((resolve) => {
            const timer = setTimeout(resolve, left);
            this.wake = () => {
                clearTimeout(timer);
                resolve();
            };
        });
    }

    async line(deadline) {
        for (;;) {
            const end = this.buffer.indexOf('\r\n');
            if (end >= 0) {
                const line = this.buffer.subarray(0, end).toString('latin1');
                this.buffer = this.buffer.subarray(end + 2);
                return line;
            }
            await this.more(deadline);
        }
    }

    async take(n, deadline) {
        while (this.buffer.length < n) await this.more(deadline);
        const out = this.buffer.subarray(0, n);
        this.buffer = this.buffer.subarray(n);
        return out;
    }

    /* Next answer: {status, headers (lower-case keys), body: Buffer}. noBody for HEAD. An interim
     * 100 is an answer of its own. */
    async response({ noBody = false, timeoutMs = 30000 } = {}) {
        const deadline = Date.now() + timeoutMs;
        const status = Number((await this.line(deadline)).split(' ')[1]);
        const headers = {};
        for (;;) {
            const line = await this.line(deadline);
            if (line === '') break;
            const colon = line.indexOf(':');
            headers[line.slice(0, colon).toLowerCase()] = line.slice(colon + 1).trim();
        }
        let body = Buffer.alloc(0);
        if (noBody || status === 204 || status === 304 || status < 200) return { status, headers, body };
        if (headers['transfer-encoding'] === 'chunked') {
            const parts = [];
            for (;;) {
                const size = parseInt(await this.line(deadline), 16);
                parts.push(await this.take(size, deadline));
                await this.take(2, deadline);
                if (size === 0) break;
            }
            body = Buffer.concat(parts);
        } else if (headers['content-length'] !== undefined) {
            body = await this.take(Number(headers['content-length']), deadline);
        } else {
            while (!this.ended) {
                try {
                    await this.more(deadline);
                } catch {
                    break;
                }
            }
            body = this.buffer;
            this.buffer = Buffer.alloc(0);
        }
        return { status, headers, body };
    }

    close() {
        this.socket.destroy();
    }
}
