// HTTP itself, through nginx: routes, methods, body framing, kept connections, and JSON for every error.
import assert from 'node:assert/strict';
import http from 'node:http';
import { describe, it } from 'node:test';
import { assertError, unique, useQueen } from './lib/queen.mjs';
import { rawConnect } from './lib/raw_socket.mjs';

const LEASE = '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90';
const ROUTES = {
    '/api/v1/push': 'POST', '/api/v1/pop': 'GET', '/api/v1/pop/queue/x': 'GET', '/api/v1/pop/queue/x/partition/y': 'GET', '/api/v1/ack': 'POST',
    '/api/v1/ack/batch': 'POST', [`/api/v1/lease/${LEASE}/extend`]: 'POST', '/api/v1/configure': 'POST', '/api/v1/resources/queues/x': 'GET, DELETE', '/api/v1/dlq': 'GET, DELETE',
};
const MAX_BODY = 64 * 1024 * 1024;

describe('http and errors', { concurrency: 4 }, () => {
    const c = useQueen();
    const raw = () => rawConnect(c.instance.url);
    const host = () => new URL(c.instance.url).host;
    const json = (answer) => JSON.parse(answer.body.toString('utf8'));
    const isJsonError = (answer, statuses) => {
        assert.ok(statuses.includes(answer.status), `${answer.status} ${answer.body.toString('latin1').slice(0, 200)}`);
        assert.match(answer.headers['content-type'] ?? '', /^application\/json/);
        assert.equal(typeof json(answer).error, 'string');
    };

    it('unknown path under /api/: 404 no_such_route, for every method', async () => {
        for (const target of ['/api/', '/api/v1', '/api/v1/', '/api/v1/nothing', '/api/v2/push', '/api/v1/push/', '/api/v1/push/x', '/api/v1/ack/x', '/api/v1/pop/queue', '/api/v1/pop/x',
            '/api/v1/pop/queue/x/partition', '/api/v1/pop/queue/x/y', '/api/v1/pop/queue/x/partition/y/z', '/api/v1/lease/x', '/api/v1/lease/x/renew', '/api/v1/PUSH', '/api/v1/resources/nothing', '/api/v1/dlq/x/y']) {

            for (const method of ['GET', 'POST', 'DELETE', 'PUT']) {
                const answer = await c.queen.request(method, target, { body: method === 'GET' ? undefined : '{}' });
                assert.equal(answer.status, 404, `${method} ${target}: ${answer.status} ${answer.text}`);
                assert.equal(answer.text, '{"error":"Not Found","code":"no_such_route"}', `${method} ${target}`);
                assert.match(answer.headers['content-type'], /^application\/json/);
            }
        }
    });

    it('known path, wrong method: 405 with Allow, same shape', async () => {
        for (const [target, allowed] of Object.entries(ROUTES)) {
            for (const method of ['GET', 'POST', 'PUT', 'DELETE', 'PATCH', 'OPTIONS']) {
                if (allowed.split(', ').includes(method)) continue;
                const answer = await c.queen.request(method, target, { body: method === 'GET' ? undefined : '{"items":[]}' });
                assertError(answer, 405);
                assert.equal(typeof answer.json.code, 'string', answer.text);
                assert.deepEqual((answer.headers.allow ?? '').split(/\s*,\s*/).sort(), allowed.split(', ').sort(), `${method} ${target}`);
            }
        }
    });

    it('a wrong method does nothing', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.queen.request('POST', `/api/v1/pop/queue/${queue}`, { body: '{}' });
        await c.queen.request('PUT', '/api/v1/push', { body: JSON.stringify({ items: [{ queue, payload: 1 }] }) });
        const batch = await c.queen.take(queue, ['a']);
        assert.equal(batch.messages[0].deliveryAttempt, 1);
    });

    it('no HTML anywhere, also not from nginx itself', async () => {
        const long = 'x'.repeat(40000);
        const requests = {
            'not a request': 'nonsense\r\n\r\n',
            'a bad version': 'GET /health HTTP/9.9\r\nHost: x\r\n\r\n',
            'no Host': 'GET /health HTTP/1.1\r\n\r\n',
            'a bad header': `GET /health HTTP/1.1\r\nHost: ${host()}\r\nbroken header line\r\nContent-Length: -1\r\n\r\n`,
            'a bad length': `POST /api/v1/push HTTP/1.1\r\nHost: ${host()}\r\nContent-Length: abc\r\n\r\n`,
            'two lengths': `POST /api/v1/push HTTP/1.1\r\nHost: ${host()}\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}`,
            'a bad chunk': `POST /api/v1/push HTTP/1.1\r\nHost: ${host()}\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n{}\r\n0\r\n\r\n`,
            'a bad escape in the path': `GET /api/v1/pop/queue/%zz HTTP/1.1\r\nHost: ${host()}\r\n\r\n`,
            'above the root': `GET /../../x HTTP/1.1\r\nHost: ${host()}\r\n\r\n`,
            'a long target': `GET /api/v1/pop/queue/${long} HTTP/1.1\r\nHost: ${host()}\r\n\r\n`,
            'long headers': `GET /health HTTP/1.1\r\nHost: ${host()}\r\nX-Long: ${long}\r\nX-More: ${long}\r\n\r\n`,
            TRACE: `TRACE /api/v1/push HTTP/1.1\r\nHost: ${host()}\r\n\r\n`,
        };
        for (const [name, text] of Object.entries(requests)) {
            const connection = await raw();
            connection.write(text);
            const answer = await connection.response().catch((error) => ({ error }));
            connection.close();
            if (answer.error) assert.match(answer.error.message, /closed/, name);
            else {
                const body = answer.body.toString('latin1');
                assert.ok(answer.status >= 200 && answer.status < 600, name);
                assert.ok(!/<html|<!doctype/i.test(body), `${name}: ${body}`);
                if (answer.status >= 400) isJsonError(answer, [400, 404, 405, 411, 413, 414, 431, 494, 501, 505]);
            }
        }
        for (const target of ['/', '/nothing', '/index.htm', '/.git/config', '/api', '/health/x', '/status/x', '/%2e%2e/etc/passwd']) {
            const answer = await c.queen.get(target);
            if (answer.status >= 400) assertError(answer, answer.status);
        }
    });

    it('a body over the limit: JSON 413, from its announced length, before it is sent', async () => {
        const connection = await raw();
        connection.write(`POST /api/v1/push HTTP/1.1\r\nHost: ${host()}\r\nContent-Type: application/json\r\nContent-Length: ${MAX_BODY + 1}\r\n\r\n{"items":[`);
        const answer = await connection.response();
        connection.close();
        isJsonError(answer, [413]);
    });

    it('a chunked body over the limit: JSON 413', { timeout: 60000 }, async () => {
        const piece = Buffer.alloc(1024 * 1024, 0x20);
        const queue = unique();
        function* chunks() {
            yield `{"items":[{"queue":"${queue}","payload":1}`;
            for (let i = 0; i < 65; i++) yield piece;
            yield ']}';
        }
        const answer = await c.queen.request('POST', '/api/v1/push', { body: chunks(), agent: new http.Agent() }).catch((error) => ({ error }));
        if (answer.error) assert.match(answer.error.code, /EPIPE|ECONNRESET/, 'the server closed while the body was being sent');
        else assertError(answer, 413);
        await c.queen.nothing(queue);
    });

    it('reads bodies whatever the Content-Type says, also without one', async () => {
        for (const headers of [{}, { 'Content-Type': 'text/plain' }, { 'Content-Type': 'application/x-www-form-urlencoded' }, { 'Content-Type': 'application/json; charset=utf-8' }, { 'content-type': 'multipart/form-data; boundary=x' }]) {
            const queue = unique();
            const answer = await c.queen.request('POST', '/api/v1/push', { headers, body: JSON.stringify({ items: [{ queue, transactionId: 'a', payload: 1 }] }) });
            assert.equal(answer.status, 201, JSON.stringify(headers));
            await c.queen.take(queue, ['a']);
        }
    });

    it('a GET may carry Content-Type and Content-Length: 0', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        const answer = await c.queen.get(`/api/v1/pop/queue/${queue}`, { headers: { 'Content-Type': 'application/json', 'Content-Length': '0' } });
        assert.equal(answer.status, 200);
    });

    it('a POST without a body is 400 where a body is needed', async () => {
        for (const target of ['/api/v1/push', '/api/v1/ack', '/api/v1/ack/batch', '/api/v1/configure']) assertError(await c.queen.request('POST', target, { headers: { 'Content-Length': '0' } }), 400);
        const connection = await raw();
        connection.write(`POST /api/v1/push HTTP/1.1\r\nHost: ${host()}\r\n\r\n`);
        isJsonError(await connection.response(), [400, 411]);
        connection.close();
    });

    it('takes chunked bodies', async () => {
        const queue = unique();
        const text = JSON.stringify({ items: [{ queue, transactionId: 'a', payload: '\u00e9'.repeat(50000) }] });
        const bytes = Buffer.from(text);
        const chunks = [];
        for (let at = 0; at < bytes.length; at += 777) chunks.push(bytes.subarray(at, at + 777)); // cuts characters
        const answer = await c.queen.request('POST', '/api/v1/push', { body: chunks });
        assert.equal(answer.status, 201, answer.text);
        const batch = await c.queen.take(queue, ['a']);
        assert.equal(batch.messages[0].data.length, 50000);
    });

    it('answers Expect: 100-continue', async () => {
        const queue = unique();
        const body = JSON.stringify({ items: [{ queue, transactionId: 'a', payload: 1 }] });
        const connection = await raw();
        connection.write(`POST /api/v1/push HTTP/1.1\r\nHost: ${host()}\r\nExpect: 100-continue\r\nContent-Length: ${body.length}\r\n\r\n`);
        const interim = await connection.response();
        assert.equal(interim.status, 100);
        connection.write(body);
        assert.equal((await connection.response()).status, 201);
        connection.close();
        await c.queen.take(queue, ['a']);
    });

    it('keeps connections: many different requests on one socket, 204 included', async () => {
        const queue = unique();
        const connection = await raw();
        const send = async (method, target, body) => {
            const length = body === undefined ? '' : `Content-Length: ${Buffer.byteLength(body)}\r\n`;
            connection.write(`${method} ${target} HTTP/1.1\r\nHost: ${host()}\r\n${length}\r\n${body ?? ''}`);
            return connection.response();
        };
        for (let i = 0; i < 20; i++) {
            assert.equal((await send('POST', '/api/v1/push', JSON.stringify({ items: [{ queue, transactionId: `m${i}`, payload: i }] }))).status, 201);
            const popped = await send('GET', `/api/v1/pop/queue/${queue}`);
            assert.equal(popped.status, 200);
            const { partitionId, leaseId } = json(popped);
            const empty = await send('GET', `/api/v1/pop/queue/${queue}`);
            assert.deepEqual([empty.status, empty.headers['content-length'], empty.headers['transfer-encoding']], [204, undefined, undefined]);
            const acked = await send('POST', '/api/v1/ack', JSON.stringify({ transactionId: `m${i}`, partitionId, leaseId, status: 'completed' }));
            assert.equal(json(acked)[0].leaseReleased, true);
            assert.equal((await send('POST', '/api/v1/push', 'broken')).status, 400);
            assert.equal((await send('GET', '/api/v1/nothing')).status, 404);
        }
        connection.close();
    });

    it('serves pipelined requests in order', async () => {
        const queue = unique();
        const body = JSON.stringify({ items: [{ queue, transactionId: 'a', payload: 1 }] });
        const connection = await raw();
        connection.write(`POST /api/v1/push HTTP/1.1\r\nHost: ${host()}\r\nContent-Length: ${body.length}\r\n\r\n${body}`
            + `GET /api/v1/pop/queue/${queue} HTTP/1.1\r\nHost: ${host()}\r\n\r\nGET /status HTTP/1.1\r\nHost: ${host()}\r\n\r\n`);
        assert.equal((await connection.response()).status, 201);
        const popped = await connection.response();
        assert.equal(popped.status, 200);
        assert.equal(json(popped).messages[0].transactionId, 'a');
        assert.equal(json(await connection.response()).status, 'ok');
        connection.close();
    });

    it('HEAD has no body, and a HEAD of a pop leases nothing', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        const connection = await raw();
        for (const target of ['/health', '/status', `/api/v1/pop/queue/${queue}`, '/api/v1/nothing']) {
            connection.write(`HEAD ${target} HTTP/1.1\r\nHost: ${host()}\r\n\r\n`);
            const answer = await connection.response({ noBody: true });
            assert.ok([200, 204, 404, 405].includes(answer.status), `${target}: ${answer.status}`);
        }
        connection.write(`GET /status HTTP/1.1\r\nHost: ${host()}\r\n\r\n`);
        assert.equal(json(await connection.response()).status, 'ok', 'the connection is still in step');
        connection.close();
        const batch = await c.queen.take(queue, ['a']);
        assert.equal(batch.messages[0].deliveryAttempt, 1);
    });

    it('HTTP/1.0 without keep-alive', async () => {
        const connection = await raw();
        connection.write('GET /status HTTP/1.0\r\n\r\n');
        const answer = await connection.response();
        assert.equal(answer.status, 200);
        assert.equal(json(answer).status, 'ok');
        connection.close();
    });

    it('a client that leaves in the middle of a body stores nothing and harms nobody', async () => {
        const queue = unique();
        for (let i = 0; i < 10; i++) {
            const connection = await raw();
            connection.write(`POST /api/v1/push HTTP/1.1\r\nHost: ${host()}\r\nContent-Length: 1000\r\n\r\n{"items":[{"queue":"${queue}","payload":1}]}`);
            connection.close();
        }
        await c.queen.push(queue, ['a']);
        await c.queen.take(queue, ['a']);
    });

    it('deep nesting is refused or taken, never fatal', async () => {
        const queue = unique();
        for (const depth of [100, 1000, 100000]) {
            const answer = await c.queen.post('/api/v1/push', `{"items":[{"queue":"${queue}","transactionId":"d${depth}","payload":${'['.repeat(depth)}${']'.repeat(depth)}}]}`);
            assert.ok(answer.status === 201 || answer.status === 400, String(answer.status));
        }
        assert.equal((await c.queen.get('/health')).status, 200);
    });
});
