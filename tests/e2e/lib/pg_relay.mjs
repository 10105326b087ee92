// A relay in front of PostgreSQL that cuts a connection at a chosen moment of a chosen statement.
//
// relay.cut(statement, 'before', n): the next n executions of the prepared statement never reach the server;
// 'after': the server has committed them, its answer is lost. Resolves .hits as they happen.
import net from 'node:net';

const READY = Buffer.from([0x5a, 0, 0, 0, 5, 0x49]); // ReadyForQuery, idle: the transaction is over

export async function startPgRelay(socketPath) {
    const relay = new PgRelay(socketPath);
    await new Promise((resolve, reject) => {
        relay.server.once('error', reject);
        relay.server.listen(0, '127.0.0.1', resolve);
    });
    relay.port = relay.server.address().port;
    return relay;
}

class PgRelay {
    constructor(socketPath) {
        this.socketPath = socketPath;
        this.fault = null;
        this.hits = 0;
        this.server = net.createServer((client) => this.serve(client));
        this.sockets = new Set();
    }

    cut(statement, when, times = 1) {
        this.fault = { name: Buffer.from(`\0${statement}\0`), when, times };
        this.hits = 0;
    }

    serve(client) {
        const upstream = net.connect(this.socketPath);
        let dying = null; // what the server has answered since the fault struck
        const end = () => {
            client.destroy();
            upstream.destroy();
        };
        for (const socket of [client, upstream]) {
            this.sockets.add(socket);
            socket.on('close', () => {
                this.sockets.delete(socket);
                end();
            });
            socket.on('error', end);
        }
        client.on('data', (data) => {
            if (this.fault && this.fault.times > 0 && data.includes(this.fault.name)) {
                this.fault.times--;
                this.hits++;
                if (this.fault.when === 'before') return end();
                dying = Buffer.alloc(0);
            }
            upstream.write(data);
        });
        upstream.on('data', (data) => {
            if (dying === null) {
                client.write(data);
                return;
            }
            dying = Buffer.concat([dying, data]);
            if (dying.includes(READY)) end();
        });
    }

    close() {
        for (const socket of this.sockets) socket.destroy();
        return new Promise((resolve) => this.server.close(resolve));
    }
}
