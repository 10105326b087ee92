// Payloads come back byte for byte as they were sent, whole and cut out of the middle of segments.
import assert from 'node:assert/strict';
import { createHash } from 'node:crypto';
import { describe, it } from 'node:test';
import { unique, useQueen } from './lib/queen.mjs';
import { bytes, rawMembers, rawMessages } from './lib/raw_json.mjs';

const DEEP = 200;
const PAYLOADS = [
    'null', 'true', 'false', '0', '-0', '0.0', '1.0', '1.50', '-0.0e+00', '1e400', '-1E-400', '1E+2', '1e0',
    '12345678901234567890123', '9007199254740993', '-9223372036854775809', '18446744073709551616', '0.1000000000000000055511151231257827',
    `1${'0'.repeat(500)}`, '""', '"plain"', '"\\u0041"', '"\\u00e9 \\u00E9 é"', '"\\/ / \\" \\\\ \\b\\f\\n\\r\\t"', '"\\u0000"', '"a\\u0000b\\u0000"',
    '"\\u001f\\u007f\u007f"', '"\\ud83d\\ude00"', '"\ud83d\ude00 \ud83d\udc68\u200d\ud83d\udc69\u200d\ud83d\udc67"', '"\\ud800"', '"\\udc00\\ud800"', '"\u2028\u2029\ufeff\uffff\u{10ffff}"',
    '"<script>&amp;</script>"', '[]', '{}', '[ ]', '{ }', '[1 , 2,\t3 ,\r\n 4]', '{"b":1,"a":2,"c":{"z":0,"a":0}}', '{"a":1,"a":2,"a":{"a":3,"a":4}}',
    '{"":0,"\\u0000":1," ":2}', '{ "spaced" : [ 1 , { } , [ ] ] , "x" : "y" }', '{"\\u0061":1,"a":2}', '[[],[[]],{"x":[{}]}]',
    '"{\\"items\\":[]}"', '"],\\"leaseId\\":\\"x\\"}"', '{"messages":[{"data":1}],"leaseId":"fake"}', '{"__proto__":{"x":1},"constructor":null}',
    `${'['.repeat(DEEP)}${']'.repeat(DEEP)}`, `${'{"k":'.repeat(DEEP)}1${'}'.repeat(DEEP)}`, '"\u00e9\u00df\u4f60\u597d \u0645\u0631\u062d\u0628\u0627"', `"${'x'.repeat(70000)}"`,
];

describe('payload fidelity', { concurrency: 4 }, () => {
    const c = useQueen();

    const pushRaw = async (queue, payloads, space = '') => {
        const items = payloads.map((p, i) => `{"queue":"${queue}","transactionId":"t${i}","payload":${space}${p}${space}}`);
        const answer = await c.queen.post('/api/v1/push', `{"items":[${items.join(',')}]}`);
        assert.equal(answer.status, 201, answer.text.slice(0, 300));
        assert.ok(answer.json.every((r) => r.status === 'queued'));
    };
    const same = (body, payloads) => {
        const got = rawMessages(body);
        assert.equal(got.length, payloads.length);
        got.forEach((raw, i) => assert.equal(raw, bytes(payloads[i])));
    };

    it('of every kind of value, in one segment', async () => {
        const queue = unique();
        await pushRaw(queue, PAYLOADS);
        same((await c.queen.pop(queue, { batch: 1000 })).body, PAYLOADS);
    });

    it('with white space around the value, which is not part of it', async () => {
        const queue = unique();
        await pushRaw(queue, PAYLOADS, ' \n\t\r ');
        same((await c.queen.pop(queue, { batch: 1000 })).body, PAYLOADS);
    });

    it('each in a request of its own, delivered as one batch', async () => {
        const queue = unique();
        for (const [i, payload] of PAYLOADS.entries()) {
            const answer = await c.queen.post('/api/v1/push', `{"items":[{"payload":${payload},"transactionId":"s${i}","queue":"${queue}"}]}`);
            assert.equal(answer.status, 201, answer.text);
        }
        same((await c.queen.pop(queue, { batch: 1000 })).body, PAYLOADS);
    });

    it('in parts of segments: batches that begin and end inside them', async () => {
        const queue = unique();
        await pushRaw(queue, PAYLOADS);
        for (let at = 0; at < PAYLOADS.length; at += 3) {
            const expected = PAYLOADS.slice(at, at + 3);
            const answer = await c.queen.pop(queue, { batch: 3 });
            same(answer.body, expected);
            const ids = answer.json.messages.map((m) => m.transactionId);
            assert.deepEqual(ids, expected.map((_, i) => `t${at + i}`));
            const acked = await c.queen.ackBatch(answer.json.messages.map((m) => (
                { transactionId: m.transactionId, partitionId: m.partitionId, leaseId: m.leaseId, status: 'completed' })));
            assert.ok(acked.json.every((r) => r.success && r.leaseReleased), acked.text);
        }
        await c.queen.nothing(queue);
    });

    it('in batches across segment borders', async () => {
        const queue = unique();
        const payloads = [];
        for (let i = 0; i < 5; i++) {
            const part = [`{"n":${i}.0,"k":1e400}`, `"${i}\\u0000"`, `[${i},${i}]`];
            payloads.push(...part);
            const items = part.map((p, k) => `{"queue":"${queue}","transactionId":"b${i}-${k}","payload":${p}}`);
            assert.equal((await c.queen.post('/api/v1/push', `{"items":[${items}]}`)).status, 201);
        }
        for (let at = 0; at < payloads.length; at += 4) {
            const answer = await c.queen.pop(queue, { batch: 4, autoAck: true });
            same(answer.body, payloads.slice(at, at + 4));
        }
        await c.queen.nothing(queue);
    });

    it('on the pinned and the discovery route too', async () => {
        const namespace = unique('ns');
        const queue = `${namespace}.t`;
        await pushRaw(queue, PAYLOADS);
        same((await c.queen.popPartition(queue, 'Default', { batch: 1000, consumerGroup: 'a' })).body, PAYLOADS);
        same((await c.queen.popDiscover({ namespace, batch: 1000, consumerGroup: 'b' })).body, PAYLOADS);
    });

    it('of a transactionId with every escape: decoded on the way in, valid JSON on the way out', async () => {
        const queue = unique();
        const id = 'q"b\\s/ \b\f\n\r\t\u0001\u001f\u007f\u0000\u00e9\ud83d\ude00\u2028';
        await c.queen.push(queue, [id]);
        const batch = await c.queen.take(queue, [id]);
        await batch.complete();
    });

    it('of 10 MiB in one payload', { timeout: 60000 }, async () => {
        const queue = unique();
        const unit = '{"n":12345678901234567890123,"e":1e400,"s":"\\u0041\\/\u00e9\ud83d\ude00\\u0000","n":1.0},';
        const count = Math.ceil((10 * 1024 * 1024) / Buffer.byteLength(unit));
        const payload = `[${unit.repeat(count)}null]`;
        await pushRaw(queue, [payload]);
        const answer = await c.queen.pop(queue);
        assert.equal(answer.status, 200);
        const got = rawMessages(answer.body)[0];
        const digest = (text) => createHash('sha256').update(text, 'latin1').digest('hex');
        assert.equal(got.length, Buffer.byteLength(payload));
        assert.equal(digest(got), digest(bytes(payload)));
        assert.equal(Number(answer.headers['content-length'] ?? answer.body.length), answer.body.length);
        await c.queen.take(queue, ['t0'], { consumerGroup: 'again' });
    });

    it('of 12 MiB in 3,000 payloads that do not compress', { timeout: 60000 }, async () => {
        const queue = unique();
        const payloads = Array.from({ length: 3000 }, (_, i) => {
            let text = '';
            for (let k = 0; text.length < 4096; k++) text += createHash('sha512').update(`${i}-${k}`).digest('base64');
            return `"${text}"`;
        });
        await pushRaw(queue, payloads);
        const answer = await c.queen.pop(queue, { batch: 10000 });
        same(answer.body, payloads);
    });

    it('the answer is one JSON object whose other members survive what payloads contain', async () => {
        const queue = unique();
        await pushRaw(queue, ['{"messages":[{"data":1}],"leaseId":"fake","success":false}']);
        const answer = await c.queen.pop(queue);
        assert.deepEqual(rawMembers(answer.body.toString('latin1')).map(([k]) => k),
            ['success', 'queue', 'partition', 'partitionId', 'leaseId', 'consumerGroup', 'messages', 'partitionsClaimed']);
    });
});
