// POST /api/v1/push: shape, defaults, what is refused (and then stored nowhere), limits, order.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, unique, useQueen, UUID_V7 } from './lib/queen.mjs';

describe('push', { concurrency: 4 }, () => {
    const c = useQueen();
    const body = (items) => JSON.stringify({ items });

    it('answers 201 with one element per item, keys in the order of the contract', async () => {
        const orders = unique('orders');
        const answer = await c.queen.post('/api/v1/push',
            `{"items": [{"queue": "${orders}", "partition": "customer-42",
             "transactionId": "order-1001", "payload": {"total": 30}}]}`);
        assert.equal(answer.status, 201);
        assert.match(answer.headers['content-type'], /^application\/json/);
        assert.match(answer.text, new RegExp('^\\[\\{"index":0,"message_id":"[0-9a-f-]{36}","transaction_id":"order-1001",'
            + `"queueName":"${orders}","status":"queued"(,"offset":0)?\\}\\]$`));
        assert.match(answer.json[0].message_id, UUID_V7);
        const batch = await c.queen.take(orders, ['order-1001']);
        assert.equal(batch.json.partition, 'customer-42');
        assert.equal(batch.messages[0].id, answer.json[0].message_id);
        assert.deepEqual(batch.messages[0].data, { total: 30 });
    });

    it('takes Default as partition and the message id as transactionId when they are absent or null', async () => {
        const queue = unique();
        const answer = await c.queen.pushItems([
            { queue, payload: 1 }, { queue, partition: null, transactionId: null, payload: 2 },
        ]);
        assert.equal(answer.status, 201, answer.text);
        for (const r of answer.json) assert.equal(r.transaction_id, r.message_id);
        assert.notEqual(answer.json[0].message_id, answer.json[1].message_id);
        const batch = await c.queen.take(queue, answer.json.map((r) => r.transaction_id));
        assert.equal(batch.json.partition, 'Default');
        assert.deepEqual(batch.messages.map((m) => m.id), answer.json.map((r) => r.message_id));
    });

    it('ignores unknown keys, at the top and in items; data and traceId are unknown here', async () => {
        const queue = unique();
        const answer = await c.queen.post('/api/v1/push', { other: { items: 1 },
            items: [{ queue, payload: 'p', data: 'd', traceId: '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90', transactionId: 't', nested: [{}] }] });
        assert.equal(answer.status, 201, answer.text);
        const batch = await c.queen.take(queue, ['t']);
        assert.equal(batch.messages[0].data, 'p');
        assert.equal(batch.messages[0].traceId, null);
        assert.equal(batch.messages[0].producerSub, null);
    });

    it('takes a null payload as a value', async () => {
        const queue = unique();
        await c.queen.pushItems([{ queue, transactionId: 'n', payload: null }]);
        const batch = await c.queen.take(queue, ['n']);
        assert.equal(batch.messages[0].data, null);
    });

    it('answers 201 [] to no items', async () => {
        const answer = await c.queen.post('/api/v1/push', '{"items":[]}');
        assert.equal(answer.status, 201);
        assert.equal(answer.text, '[]');
    });

    it('serves many queues and partitions in one request, results in request order', async () => {
        const [a, b] = [unique(), unique()];
        const items = [[a, 'x', 1], [b, 'y', 2], [a, 'x', 3], [a, 'z', 4], [b, 'y', 5], [a, 'x', 6]]
            .map(([queue, partition, n]) => ({ queue, partition, transactionId: `t${n}`, payload: n }));
        const answer = await c.queen.pushItems(items);
        assert.equal(answer.status, 201, answer.text);
        assert.deepEqual(answer.json.map((r) => [r.index, r.transaction_id, r.queueName, r.status]),
            items.map((item, i) => [i, item.transactionId, item.queue, 'queued']));
        const ids = async (queue, partition) =>
            (await c.queen.popPartition(queue, partition)).json.messages.map((m) => m.transactionId);
        assert.deepEqual(await ids(a, 'x'), ['t1', 't3', 't6']);
        assert.deepEqual(await ids(a, 'z'), ['t4']);
        assert.deepEqual(await ids(b, 'y'), ['t2', 't5']);
    });

    it('gives gapless offsets in commit order and created_at that never goes back, under concurrent pushes', async () => {
        const queue = unique();
        const producers = Array.from({ length: 16 }, async (_, p) => {
            for (let i = 0; i < 10; i++) await c.queen.push(queue, [`${p}-${i}-a`, `${p}-${i}-b`]);
        });
        await Promise.all(producers);
        const answer = await c.queen.pop(queue, { batch: 1000 });
        const messages = answer.json.messages;
        assert.equal(messages.length, 320);
        assert.equal(new Set(messages.map((m) => m.transactionId)).size, 320);
        for (let p = 0; p < 16; p++) {
            const own = messages.map((m) => m.transactionId).filter((t) => t.startsWith(`${p}-`));
            assert.deepEqual(own, Array.from({ length: 10 }, (_, i) => [`${p}-${i}-a`, `${p}-${i}-b`]).flat());
        }
        const times = messages.map((m) => m.createdAt);
        assert.deepEqual(times, [...times].sort());
    });

    it('takes namespace and task of an implicitly created queue from its dotted name', async () => {
        const [ns, task] = [unique('ns'), unique('task')];
        await c.queen.push(`${ns}.${task}.rest.of.it`, ['dotted']);
        await c.queen.push(`${ns}.other`, ['two']);
        const both = await c.queen.popDiscover({ namespace: ns, task });
        assert.deepEqual(both.json.messages.map((m) => m.transactionId), ['dotted']);
        const other = await c.queen.popDiscover({ task: 'other', namespace: ns });
        assert.deepEqual(other.json.messages.map((m) => m.transactionId), ['two']);
    });

    describe('refuses with 400 and stores nothing', { concurrency: 4 }, () => {
        const good = (queue) => `{"queue":"${queue}","transactionId":"good","payload":1}`;
        const cases = {
            'an empty body': () => '',
            'a body that is white space': () => ' \n ',
            'a body that is not JSON': () => 'nope',
            'a truncated body': (q) => `{"items":[${good(q)}`,
            'something behind the value': (q) => `{"items":[${good(q)}]} {}`,
            'a top-level array': (q) => `[${good(q)}]`,
            'a top-level string': () => '"items"',
            'a top-level number': () => '5',
            'a top-level null': () => 'null',
            'no items': () => '{}',
            'items null': () => '{"items":null}',
            'items an object': (q) => `{"items":${good(q)}}`,
            'items a string': () => '{"items":"x"}',
            'an item that is a number': (q) => `{"items":[${good(q)},1]}`,
            'an item that is null': (q) => `{"items":[${good(q)},null]}`,
            'an item that is an array': (q) => `{"items":[${good(q)},[]]}`,
            'an item that is a string': (q) => `{"items":[${good(q)},"x"]}`,
            'no queue': (q) => `{"items":[${good(q)},{"payload":1}]}`,
            'queue null': (q) => `{"items":[${good(q)},{"queue":null,"payload":1}]}`,
            'queue a number': (q) => `{"items":[${good(q)},{"queue":1,"payload":1}]}`,
            'no payload': (q) => `{"items":[${good(q)},{"queue":"${q}"}]}`,
            'data instead of payload': (q) => `{"items":[${good(q)},{"queue":"${q}","data":1}]}`,
            'partition a number': (q) => `{"items":[${good(q)},{"queue":"${q}","partition":1,"payload":1}]}`,
            'transactionId a number': (q) => `{"items":[${good(q)},{"queue":"${q}","transactionId":1,"payload":1}]}`,
            'transactionId an object': (q) => `{"items":[${good(q)},{"queue":"${q}","transactionId":{},"payload":1}]}`,
            'a transactionId that is half a surrogate pair': (q) => `{"items":[${good(q)},{"queue":"${q}","transactionId":"\\ud800","payload":1}]}`,
            'a key twice': (q) => `{"items":[{"queue":"${q}","queue":"${q}","payload":1}]}`,
            'items twice': (q) => `{"items":[${good(q)}],"items":[${good(q)}]}`,
        };
        for (const [name, make] of Object.entries(cases)) {
            it(name, async () => {
                const queue = unique();
                assertError(await c.queen.post('/api/v1/push', make(queue)), 400, /^bad body: ./);
                await c.queen.nothing(queue);
            });
        }

        const broken = ['01', '-', '1.', '.5', '+1', '1e', '0x10', 'NaN', 'Infinity', '-Infinity', 'tru', 'nulll', 'True', '{"a":1,}',
            '[1,]', '[1 2]', '{a:1}', "'x'", '"\\x"', '"\\u12"', '"\\u00zz"', '"open', '{"a"}', '{"a":}', '{1:2}', '[', '{', '[1}', '', '//c\n1'];
        for (const payload of broken) {
            it(`the payload ${JSON.stringify(payload)}`, async () => {
                const queue = unique();
                const text = `{"items":[${good(queue)},{"queue":"${queue}","transactionId":"bad","payload":${payload}}]}`;
                assertError(await c.queen.post('/api/v1/push', text), 400, /^bad body: ./);
                await c.queen.nothing(queue);
            });
        }

        const raw = {
            'a raw newline in a string': [0x0a], 'a raw tab': [0x09], 'a raw NUL': [0x00], 'a lone continuation byte': [0x80],
            'an overlong form': [0xc0, 0xaf], 'an encoded surrogate': [0xed, 0xa0, 0x80], 'a code point above U+10FFFF': [0xf4, 0x90, 0x80, 0x80],
            'a cut sequence': [0xe2, 0x82], 'the byte FF': [0xff],
        };
        for (const [name, sequence] of Object.entries(raw)) {
            it(`${name}, in a payload and in a transactionId`, async () => {
                const queue = unique();
                for (const key of ['payload', 'transactionId']) {
                    const rest = key === 'payload' ? '' : ',"payload":1';
                    const text = Buffer.concat([Buffer.from(`{"items":[${good(queue)},{"queue":"${queue}"${rest},"${key}":"a`),
                        Buffer.from(sequence), Buffer.from('b"}]}')]);
                    assertError(await c.queen.post('/api/v1/push', text), 400, /^bad body: ./);
                }
                await c.queen.nothing(queue);
            });
        }
    });

    describe('limits', { concurrency: 4 }, () => {
        const sized = (n) => {
            const tail = unique('');
            return 'x'.repeat(n - tail.length) + tail;
        };

        it('takes names of 512 bytes and transaction ids of 1,024', async () => {
            const queue = sized(512), partition = 'p'.repeat(512), transactionId = 't'.repeat(1024);
            assert.equal(Buffer.byteLength(queue), 512);
            const answer = await c.queen.pushItems([{ queue, partition, transactionId, payload: 1 }]);
            assert.equal(answer.status, 201, answer.text);
            const popped = await c.queen.popPartition(queue, partition, { consumerGroup: 'g'.repeat(512) });
            assert.equal(popped.status, 200, popped.text);
            assert.equal(popped.json.messages[0].transactionId, transactionId);
            assert.equal(popped.json.partition, partition);
        });

        it('answers 413 to a longer name, naming the field and the limit', async () => {
            for (const field of ['queue', 'partition']) {
                for (const long of ['x'.repeat(513), 'é'.repeat(257)]) {
                    const queue = unique();
                    const item = { queue, payload: 1, [field]: long };
                    const answer = await c.queen.pushItems([{ queue, payload: 1 }, item]);
                    assertError(answer, 413, new RegExp(field));
                    assert.match(answer.json.error, /512/);
                    await c.queen.nothing(queue);
                }
            }
        });

        it('answers 400 to an empty or NUL-bearing name, naming the field and the limit', async () => {
            for (const field of ['queue', 'partition']) {
                for (const bad of ['', 'a\u0000b', '\u0000']) {
                    const queue = unique();
                    const answer = await c.queen.pushItems([{ queue, payload: 1 }, { queue, payload: 1, [field]: bad }]);
                    assertError(answer, 400, new RegExp(field));
                    await c.queen.nothing(queue);
                }
            }
        });

        it('answers 400 to a transactionId over 1,024 bytes, naming it and the limit', async () => {
            for (const transactionId of ['t'.repeat(1025), 'é'.repeat(513)]) {
                const queue = unique();
                const answer = await c.queen.pushItems([{ queue, payload: 1 }, { queue, transactionId, payload: 1 }]);
                assertError(answer, 400, /transactionId/);
                assert.match(answer.json.error, /1,?024/);
                await c.queen.nothing(queue);
            }
        });

        it('counts bytes after decoding escapes', async () => {
            const queue = unique();
            const text = `{"items":[{"queue":"${queue}","transactionId":"${'\\u0041'.repeat(1024)}","payload":1}]}`;
            const answer = await c.queen.post('/api/v1/push', text);
            assert.equal(answer.status, 201, answer.text);
            assert.equal(answer.json[0].transaction_id, 'A'.repeat(1024));
        });
    });

    it('takes 10,000 small items in one request and keeps their order', async () => {
        const queue = unique();
        const ids = Array.from({ length: 10000 }, (_, i) => `m${i}`);
        const answer = await c.queen.post('/api/v1/push', body(ids.map((t) => ({ queue, transactionId: t, payload: t }))));
        assert.equal(answer.status, 201, answer.text.slice(0, 300));
        assert.equal(answer.json.length, 10000);
        assert.ok(answer.json.every((r, i) => r.status === 'queued' && r.index === i && r.transaction_id === ids[i]));
        const popped = await c.queen.pop(queue, { batch: 10000 });
        assert.deepEqual(popped.json.messages.map((m) => m.transactionId), ids);
    });

    it('refuses more than 100,000 items with 413 and stores none of them', { timeout: 60000 }, async () => {
        const queue = unique();
        const item = `{"queue":"${queue}","payload":1}`;
        assertError(await c.queen.post('/api/v1/push', `{"items":[${`${item},`.repeat(100000)}${item}]}`), 413, /100,?000/);
        await c.queen.nothing(queue);
    });

    it('keeps an empty transactionId as it is', async () => {
        const queue = unique();
        const answer = await c.queen.pushItems([{ queue, transactionId: '', payload: 1 }]);
        assert.equal(answer.status, 201, answer.text);
        assert.equal(answer.json[0].transaction_id, '');
        const batch = await c.queen.take(queue, ['']);
        await batch.complete();
        await c.queen.nothing(queue);
    });
});
