// The transport of the JavaScript client: undici's view of 204, kept connections, repeats after 5xx.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { after, before, describe, it } from 'node:test';
import { rawConnect } from '../lib/raw_socket.mjs';
import { sleep, unique, useQueen } from '../lib/queen.mjs';
import { JsClient } from './javascript.mjs';
import { startRelay } from './relay.mjs';

describe('transport of the JavaScript client', () => {
    const c = useQueen();
    let js, relay, relayed;
    before(async () => {
        js = new JsClient(c.instance.url);
        relay = await startRelay(c.instance.url);
        relayed = new JsClient(relay.url, { retryDelayMs: 10 });
    });
    after(() => relay?.close());
    const seenSince = (n) => relay.seen.slice(n).map((r) => r.body);

    it('204 is a status line and headers: no body, no length, no type; the connection goes on', async () => {
        const connection = await rawConnect(c.instance.url);
        const request = (target) => `GET ${target} HTTP/1.1\r\nHost: queen\r\nContent-Type: application/json\r\n\r\n`;
        // Two at once: a stray body byte of the first answer would be read as the start of the second.
        connection.write(request(`/api/v1/pop/queue/${unique()}?batch=1&wait=false&timeout=30000`) + request('/health'));
        const empty = await connection.response();
        assert.equal(empty.status, 204);
        for (const name of ['content-length', 'transfer-encoding', 'content-type']) assert.equal(empty.headers[name], undefined, name);
        const health = await connection.response();
        assert.equal(health.status, 200);
        assert.equal(JSON.parse(health.body).status, 'healthy');
        connection.close();
    });

    it('a waiting pop that ends empty is 204 at its deadline, well inside the 5 s the client adds', async () => {
        const started = Date.now();
        assert.equal(await js.popAnswer(unique(), { wait: true, timeoutMs: 300 }), null);
        assert.ok(Date.now() - started < 5300);
    });

    it('a connection that was idle for 6 s still serves, requests with a body too', async () => {
        const connection = await rawConnect(c.instance.url);
        const body = JSON.stringify({ items: [{ queue: unique(), payload: 1, transactionId: 't' }] });
        const push = `POST /api/v1/push HTTP/1.1\r\nHost: queen\r\nContent-Type: application/json\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
        connection.write(push);
        assert.equal(JSON.parse((await connection.response()).body)[0].status, 'queued');
        await sleep(6000);
        connection.write(push);
        assert.equal(JSON.parse((await connection.response()).body)[0].status, 'duplicate');
        connection.close();
    });

    it('a GET or DELETE with a Content-Type and no body is as any other', async () => {
        assert.equal((await js.admin.health()).status, 'healthy');
        assert.equal((await js.deleteQueue(unique())).deleted, false);
    });

    it('headers that belong to balancers, other clusters and other products change nothing', async () => {
        const odd = new JsClient(c.instance.url, {
            headers: {
                'x-queen-affinity': 'a', 'x-affinity-key': 'q:p:g', 'x-queen-act-cluster': 'other', 'x-queen-tenant': randomUUID(), 'x-queen-eph-fwd': '1',
                Authorization: 'Bearer not-checked', 'x-forwarded-for': '10.0.0.1', Cookie: 'route=server2',
            },
        });
        const queue = unique();
        await odd.push(queue, [{ data: 1, transactionId: 't' }]);
        const [message] = await js.pop(queue);
        assert.equal(message.transactionId, 't');
        assert.equal(message.producerSub, null);
        assert.equal((await odd.ack(message)).success, true);
    });

    for (const fault of ['lose', 'cut', 'refuse']) {
        it(`a push and an ack sent again after an answer was lost (${fault}) take effect once`, async () => {
            const queue = unique();
            let at = relay.seen.length;
            relay.next(fault, fault);
            const pushed = await relayed.push(queue, [1, 2, 3]);
            let bodies = seenSince(at);
            assert.equal(bodies.length, 3);
            assert.ok(bodies.every((b) => b === bodies[0]));
            assert.deepEqual([pushed.queued, pushed.duplicates], fault === 'refuse' ? [3, 0] : [0, 3]);

            const messages = await js.pop(queue, { batch: 10 });
            assert.deepEqual(messages.map((m) => m.data), [1, 2, 3]);
            assert.deepEqual(pushed.results.map((r) => r.message_id), messages.map((m) => m.id));
            at = relay.seen.length;
            relay.next(fault, fault);
            const acked = await relayed.ackBatch(messages);
            bodies = seenSince(at);
            assert.equal(bodies.length, 3);
            assert.deepEqual(acked.map((r) => [r.success, r.error, r.leaseReleased, r.dlq]), messages.map(() => [true, null, true, false]));
            assert.deepEqual(await js.pop(queue, { batch: 10 }), []);
        });
    }

    it('an error is JSON with a text, 4xx is not tried again, and a pop reads it as nothing', async () => {
        const at = relay.seen.length;
        await assert.rejects(relayed.post('/api/v1/push', { items: [{ queue: 'q' }] }), (e) => e.status === 400 && /payload/.test(e.message));
        await assert.rejects(relayed.get('/api/v1/no-such-route'), { status: 404, message: 'Not Found', code: 'no_such_route' });
        await assert.rejects(relayed.post('/api/v1/ephemeral/push', { queue: 'q' }), { status: 404 });
        assert.equal(relay.seen.length, at + 3);
        assert.deepEqual(await relayed.pop(null, {}), []);
    });
});
