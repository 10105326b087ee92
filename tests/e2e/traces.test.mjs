// Traces: storing, the traces of a message, by name, names.
import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { describe, it } from 'node:test';
import { assertError, query, TIME, unique, useQueen, UUID } from './lib/queen.mjs';

const KEYS = ['id', 'event_type', 'data', 'consumer_group', 'worker_id', 'created_at', 'trace_names'];

describe('traces', { concurrency: 4 }, () => {
    const c = useQueen();
    const add = (body) => c.queen.post('/api/v1/traces', body);
    const added = async (body) => {
        const answer = await add({ data: {}, ...body });
        assert.equal(answer.status, 201, answer.text);
        assert.deepEqual(Object.keys(answer.json), ['success', 'traceId']);
        assert.equal(answer.json.success, true);
        assert.match(answer.json.traceId, UUID);
        return answer.json.traceId;
    };
    const get = async (target) => {
        const answer = await c.queen.get(`/api/v1/traces/${target}`);
        assert.equal(answer.status, 200, answer.text);
        return answer.json;
    };
    const byName = (name, parameters = {}) => get(`by-name/${encodeURIComponent(name)}${query(parameters)}`);
    /* A message that exists: {partitionId, queue}. */
    const message = async (t = 'a') => {
        const queue = unique();
        await c.queen.push(queue, [t], 'p');
        return { queue, partitionId: (await c.queen.get(`/api/v1/messages?queue=${queue}`)).json.messages[0].partitionId };
    };

    it('the traces of a message, oldest first, data as sent', async () => {
        const partitionId = randomUUID(), transactionId = 'a/b ü';
        const first = await added({ partitionId, transactionId });
        const data = '{"b":1.0,"a":1e400,"a":"\\u0000"}';
        const answer = await add(`{"transactionId":"${transactionId}","partitionId":"${partitionId}","data":${data},"consumerGroup":"g","eventType":"step","traceNames":["y","x","y"],"workerId":"w"}`);
        assert.equal(answer.status, 201, answer.text);
        const found = await c.queen.get(`/api/v1/traces/${partitionId}/${encodeURIComponent(transactionId)}`);
        assert.ok(found.text.includes(`"data":${data},`), found.text);
        assert.deepEqual(Object.keys(found.json), ['traces']);
        const [a, b] = found.json.traces;
        assert.deepEqual(Object.keys(a), KEYS);
        assert.match(a.created_at, TIME);
        assert.deepEqual([a.id, a.event_type, a.data, a.consumer_group, a.worker_id, a.trace_names], [first, 'info', {}, '__QUEUE_MODE__', null, []]);
        assert.deepEqual([b.id, b.event_type, b.consumer_group, b.worker_id, b.trace_names], [answer.json.traceId, 'step', 'g', 'w', ['x', 'y']]);
        assert.equal((await get(`${partitionId}/${encodeURIComponent(transactionId)}?limit=1&offset=1`)).traces[0].id, b.id);
        assert.deepEqual(await get(`${partitionId}/none`), { traces: [] });
        assert.deepEqual(await get(`${randomUUID()}/${encodeURIComponent(transactionId)}`), { traces: [] });
    });

    it('nulls are absent fields, as clients send them; data null is data', async () => {
        const partitionId = randomUUID();
        await added({ partitionId, transactionId: 't', data: null, consumerGroup: null, traceNames: null, eventType: null, workerId: null });
        const [m] = (await get(`${partitionId}/t`)).traces;
        assert.deepEqual([m.data, m.event_type, m.consumer_group, m.worker_id, m.trace_names], [null, 'info', '__QUEUE_MODE__', null, []]);
        await added({ partitionId, transactionId: 'u', traceNames: 7 });
        await added({ partitionId, transactionId: 'u', traceNames: ['n', 7, null] });
        assert.deepEqual((await get(`${partitionId}/u`)).traces.map((t) => t.trace_names), [[], ['n']]);
    });

    it('refuses what lacks its parts', async () => {
        const good = { transactionId: 't', partitionId: randomUUID(), data: {} };
        for (const broken of [{ transactionId: undefined }, { partitionId: undefined }, { transactionId: '' }, { partitionId: '' }, { transactionId: null }, { transactionId: 7 }])
            assertError(await add({ ...good, ...broken }), 400, /^transactionId and partitionId are required$/);
        assertError(await add({ ...good, data: undefined }), 400, /^data is required$/);
        assertError(await add({ ...good, partitionId: 'x' }), 400, /partitionId is not a UUID/);
        assertError(await add({ ...good, transactionId: 'x'.repeat(1025) }), 413, /transactionId/);
        assertError(await add({ ...good, data: 'x'.repeat(1 << 20) }), 413, /data/);
        for (const [field, value, status] of [['consumerGroup', 'x'.repeat(513), 413], ['eventType', 7, 400], ['workerId', '', 400], ['traceNames', [''], 400],
            ['traceNames', ['a\u0000b'], 400], ['traceNames', 'x'.repeat(513), 413], ['traceNames', Array.from({ length: 101 }, (_, i) => `n${i}`), 413]])
            assertError(await add({ ...good, [field]: value }), status, new RegExp(field));
        for (const body of ['', '[', '[]', '"x"']) assertError(await add(body), 400, /^bad body: /);
        assertError(await c.queen.get('/api/v1/traces/x/t'), 400, /partitionId/);
        assertError(await c.queen.get('/api/v1/traces/names?limit=abc'), 400, /limit/);
    });

    it('by name, oldest first, with total and page', async () => {
        const { queue, partitionId } = await message(), name = unique('name/ü ');
        const ids = [];
        for (let i = 0; i < 5; i++) ids.push(await added({ partitionId, transactionId: `t${i}`, traceNames: i % 2 ? name : [name, `${name}x`] }));
        await added({ partitionId: randomUUID(), transactionId: 't', traceNames: name });
        const page = await byName(name, { limit: 2, offset: 1 });
        assert.deepEqual(Object.keys(page), ['traces', 'total', 'pagination']);
        assert.deepEqual([page.total, page.pagination, page.traces.map((t) => t.id)], [5, { limit: 2, offset: 1 }, ids.slice(1, 3)]);
        const [, t] = page.traces;
        assert.deepEqual(Object.keys(t), [...KEYS, 'transaction_id', 'partition_id', 'queue_name', 'partition_name', 'message_payload']);
        assert.deepEqual([t.transaction_id, t.partition_id, t.queue_name, t.partition_name, t.message_payload, t.trace_names],
            ['t2', partitionId, queue, 'p', null, [name, `${name}x`]]);
        assert.deepEqual((await byName(name)).traces.map((x) => x.id), ids, 'without those of partitions that are not there');
        const past = await byName(name, { offset: 9 });
        assert.deepEqual(past, { traces: [], total: 5, pagination: { limit: 100, offset: 9 } });
        assert.deepEqual(await byName(unique()), { traces: [], total: 0, pagination: { limit: 100, offset: 0 } });
        await c.queen.delete(queue);
        assert.equal((await byName(name)).total, 0);
    });

    it('lists names, the last used first', async () => {
        const partitionId = randomUUID(), [a, b, z] = [unique('a'), unique('b'), unique('z')];
        for (const [t, names] of [['1', [a, z]], ['2', a], ['2', a], ['3', b], ['4', z]]) await added({ partitionId, transactionId: t, traceNames: names });
        const all = await get('names?limit=1000');
        assert.deepEqual(Object.keys(all), ['trace_names', 'total', 'pagination']);
        assert.ok(all.total >= 3);
        assert.deepEqual(all.pagination, { limit: 1000, offset: 0 });
        const mine = all.trace_names.filter((n) => [a, b, z].includes(n.trace_name));
        assert.deepEqual(mine.map((n) => [n.trace_name, n.trace_count, n.message_count]), [[z, 2, 2], [b, 1, 1], [a, 3, 2]]);
        assert.match(mine[0].last_seen, TIME);
        assert.deepEqual((await get('names')).pagination, { limit: 50, offset: 0 });
        const past = await get('names?offset=100000');
        assert.deepEqual([past.trace_names, past.total >= 3], [[], true]);
    });
});
