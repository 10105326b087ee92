// Deduplication by transactionId: inside one request, inside the window, across partitions, off.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { unique, until, useQueen, ZERO_UUID } from './lib/queen.mjs';

describe('push dedup', { concurrency: 4 }, () => {
    const c = useQueen();
    const item = (queue, transactionId, partition = 'Default', payload = 1) => ({ queue, partition, transactionId, payload });

    it('reports a repeated id as duplicate with the id of the original and stores nothing', async () => {
        const queue = unique();
        const first = (await c.queen.pushItems([item(queue, 'a', 'p', 'original')])).json;
        const answer = await c.queen.pushItems([item(queue, 'a', 'p', 'repeat')]);
        assert.equal(answer.status, 201);
        assert.match(answer.text, new RegExp(`^\\[\\{"index":0,"message_id":"${first[0].message_id}","transaction_id":"a",`
            + `"queueName":"${queue}","status":"duplicate"(,"offset":0)?\\}\\]$`));
        const batch = await c.queen.take(queue, ['a']);
        assert.equal(batch.messages[0].data, 'original');
        assert.equal(batch.messages[0].id, first[0].message_id);
        await batch.complete();
        await c.queen.nothing(queue);
        assert.equal((await c.queen.pushItems([item(queue, 'a', 'p')])).json[0].status, 'duplicate', 'also after it was consumed');
    });

    it('keeps partitions and queues apart', async () => {
        const [q1, q2] = [unique(), unique()];
        const answer = await c.queen.pushItems([item(q1, 'a', 'x'), item(q1, 'a', 'y'), item(q2, 'a', 'x')]);
        assert.deepEqual(answer.json.map((r) => r.status), ['queued', 'queued', 'queued']);
        assert.equal(new Set(answer.json.map((r) => r.message_id)).size, 3);
    });

    it('lets the first of one request win; followers carry its id', async () => {
        const queue = unique();
        const { json } = await c.queen.pushItems([item(queue, 'a', 'p', 1), item(queue, 'b', 'p', 2), item(queue, 'a', 'p', 3), item(queue, 'a', 'p', 4)]);
        assert.deepEqual(json.map((r) => r.status), ['queued', 'queued', 'duplicate', 'duplicate']);
        assert.equal(json[2].message_id, json[0].message_id);
        assert.equal(json[3].message_id, json[0].message_id);
        const batch = await c.queen.take(queue, ['a', 'b']);
        assert.deepEqual(batch.messages.map((m) => m.data), [1, 2]);
    });

    it('gives followers the oldest id when the first of the request is itself a duplicate', async () => {
        const queue = unique();
        const [original] = await c.queen.push(queue, ['a']);
        const { json } = await c.queen.pushItems([item(queue, 'a'), item(queue, 'a')]);
        assert.deepEqual(json.map((r) => [r.status, r.message_id]),
            [['duplicate', original.message_id], ['duplicate', original.message_id]]);
    });

    it('stores the new items of a request that also holds duplicates, gapless and in order', async () => {
        const queue = unique();
        const old = await c.queen.push(queue, ['a', 'c']);
        const { json } = await c.queen.pushItems(['z', 'a', 'b', 'c', 'd'].map((t) => item(queue, t)));
        assert.deepEqual(json.map((r) => r.status), ['queued', 'duplicate', 'queued', 'duplicate', 'queued']);
        assert.equal(json[1].message_id, old[0].message_id);
        assert.equal(json[3].message_id, old[1].message_id);
        const batch = await c.queen.take(queue, ['a', 'c', 'z', 'b', 'd']);
        assert.deepEqual(batch.messages.slice(2).map((m) => m.id), [json[0], json[2], json[4]].map((r) => r.message_id));
        const [last] = await batch.ack([['d', 'completed']]);
        assert.deepEqual([last.success, last.leaseReleased], [true, true], 'd is the end of the batch: its offset is known');
    });

    it('is off with dedupWindowSeconds 0, and acks still resolve', async () => {
        const queue = unique();
        await c.queen.configure(queue, { dedupWindowSeconds: 0 });
        await c.queen.push(queue, ['a']);
        await c.queen.push(queue, ['a', 'b']);
        const batch = await c.queen.take(queue, ['a', 'a', 'b']);
        assert.equal(new Set(batch.messages.map((m) => m.id)).size, 3);
        assert.equal((await batch.ack([['b', 'completed']]))[0].success, true);
        await c.queen.nothing(queue);
    });

    it('even with the window off, one request stores an id once', async () => {
        const queue = unique();
        await c.queen.configure(queue, { dedupWindowSeconds: 0 });
        const { json } = await c.queen.pushItems([item(queue, 'a'), item(queue, 'a')]);
        assert.deepEqual(json.map((r) => r.status), ['queued', 'duplicate']);
        assert.equal(json[1].message_id, json[0].message_id);
    });

    it('forgets ids that are older than the window', async () => {
        const queue = unique();
        await c.queen.configure(queue, { dedupWindowSeconds: 2 });
        const first = await c.queen.push(queue, ['a']);
        const second = await until(async () => {
            const { json } = await c.queen.pushItems([item(queue, 'a')]);
            if (json[0].status === 'queued') return json;
            assert.deepEqual([json[0].status, json[0].message_id], ['duplicate', first[0].message_id]);
            return undefined;
        }, 'the id is accepted again');
        const batch = await c.queen.take(queue, ['a', 'a']);
        assert.deepEqual(batch.messages.map((m) => m.id), [first[0].message_id, second[0].message_id]);
        const age = Date.parse(batch.messages[1].createdAt) - Date.parse(batch.messages[0].createdAt);
        assert.ok(age >= 2000, `accepted again after ${age} ms`);
    });

    it('sees a changed window at the next push', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.queen.configure(queue, { dedupWindowSeconds: 0 });
        await c.queen.push(queue, ['a']);
        await c.queen.configure(queue, { dedupWindowSeconds: 3600 });
        assert.equal((await c.queen.pushItems([item(queue, 'a')])).json[0].status, 'duplicate');
    });

    it('reports the zero id when the segment of the original is gone', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.instance.psql(`delete from queen.log_segments s using queen.log_partitions p join queen.queues q on q.id = p.queue_id
            where s.partition_id = p.id and q.name = '${queue}'`);
        const { json } = await c.queen.pushItems([item(queue, 'a')]);
        assert.deepEqual([json[0].status, json[0].message_id], ['duplicate', ZERO_UUID]);
    });

    it('queues exactly one of many concurrent pushes of an id', async () => {
        const queue = unique();
        const answers = await Promise.all(Array.from({ length: 40 }, () => c.queen.pushItems([item(queue, 'same')])));
        const results = answers.map((a) => a.json[0]);
        assert.equal(results.filter((r) => r.status === 'queued').length, 1, JSON.stringify(results));
        assert.equal(results.filter((r) => r.status === 'duplicate').length, 39);
        assert.equal(new Set(results.map((r) => r.message_id)).size, 1);
        await c.queen.take(queue, ['same']);
    });

    it('hashes the decoded text: escapes are the same id, other spellings are not', async () => {
        const queue = unique();
        const push = async (raw) => (await c.queen.post('/api/v1/push',
            `{"items":[{"queue":"${queue}","transactionId":"${raw}","payload":1}]}`)).json[0];
        assert.equal((await push('caf\u00e9/')).status, 'queued');
        assert.equal((await push('\\u0063af\\u00E9\\/')).status, 'duplicate');
        assert.equal((await push('cafe\u0301/')).status, 'queued', 'another normal form is another id');
        assert.equal((await push('Caf\u00e9/')).status, 'queued');
    });

    it('keeps NUL in transaction ids: told apart, delivered, acknowledged', async () => {
        const queue = unique();
        const ids = ['a\u0000b', 'a\u0000c', 'a', '\u0000', 'a\u0000'];
        const { json } = await c.queen.pushItems(ids.map((t) => item(queue, t)));
        assert.deepEqual(json.map((r) => [r.status, r.transaction_id]), ids.map((t) => ['queued', t]));
        assert.equal((await c.queen.pushItems([item(queue, 'a\u0000c')])).json[0].status, 'duplicate');
        const batch = await c.queen.take(queue, ids);
        const part = await batch.ack([['a\u0000b', 'completed'], ['a\u0000c', 'completed']]);
        assert.deepEqual(part.map((r) => [r.success, r.leaseReleased]), [[true, false], [true, false]]);
        const rest = await batch.ack([['a\u0000', 'completed']]);
        assert.deepEqual([rest[0].success, rest[0].leaseReleased], [true, true]);
        await c.queen.nothing(queue);
    });
});
