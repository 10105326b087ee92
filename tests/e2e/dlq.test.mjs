// GET /api/v1/dlq: shape, filters, paging, order.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, Batch, unique, useQueen, UUID } from './lib/queen.mjs';

const KEYS = ['id', 'transactionId', 'partitionId', 'queue', 'partition', 'consumerGroup', 'errorMessage', 'retryCount', 'data', 'producerSub', 'createdAt', 'failedAt'];

describe('dlq listing', { concurrency: 4 }, () => {
    const c = useQueen();
    /* Dead-letters one message per entry [transactionId, partition, group], one after the other. */
    const letters = async (entries) => {
        const queue = unique();
        for (const [t, partition, consumerGroup] of entries) {
            await c.queen.push(queue, [t], partition);
            const answer = await c.queen.popPartition(queue, partition, { consumerGroup });
            const [r] = await new Batch(c.queen, answer.json).ack([[t, 'dlq', `why ${t}`]]);
            assert.equal(r.dlq, true);
        }
        return queue;
    };
    const ids = async (parameters) => {
        const answer = await c.queen.dlq(parameters);
        assert.equal(answer.status, 200, answer.text);
        return answer.json.messages.map((m) => m.transactionId);
    };

    it('has the keys of the contract', async () => {
        const queue = await letters([['a', 'p', 'g']]);
        const answer = await c.queen.dlq({ queue });
        assert.equal(answer.status, 200);
        assert.match(answer.headers['content-type'], /^application\/json/);
        assert.deepEqual(Object.keys(answer.json), ['messages', 'pagination', 'total']);
        assert.deepEqual(answer.json.pagination, { limit: 100, offset: 0 });
        assert.equal(answer.json.total, 1);
        const [m] = answer.json.messages;
        assert.deepEqual(Object.keys(m), KEYS);
        assert.match(m.id, UUID);
        assert.match(m.partitionId, UUID);
        assert.deepEqual([m.transactionId, m.queue, m.partition, m.consumerGroup, m.errorMessage, m.retryCount, m.data, m.producerSub],
            ['a', queue, 'p', 'g', 'why a', 0, { t: 'a' }, null]);
        for (const time of [m.createdAt, m.failedAt]) {
            assert.match(time, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3,6}Z$/);
            assert.ok(Math.abs(Date.parse(time) - Date.now()) < 60000);
        }
    });

    it('is empty for a queue without dead letters and for an unknown one', async () => {
        for (const queue of [unique(), await letters([])]) {
            const answer = await c.queen.dlq({ queue });
            assert.deepEqual(answer.json, { messages: [], pagination: { limit: 100, offset: 0 }, total: 0 });
        }
    });

    it('filters by queue, group and partition', async () => {
        const queue = await letters([['a', 'p', 'g1'], ['b', 'p', 'g2'], ['c', 'q', 'g1'], ['d', 'q', 'g2']].map(([t, p, g]) => [t, p + t, g]));
        const other = await letters([['x', 'pa', 'g1']]);
        assert.deepEqual(await ids({ queue }), ['d', 'c', 'b', 'a']);
        assert.deepEqual(await ids({ queue, consumerGroup: 'g1' }), ['c', 'a']);
        assert.deepEqual(await ids({ queue, partition: 'pa' }), ['a']);
        assert.deepEqual(await ids({ queue, partition: 'qd', consumerGroup: 'g1' }), []);
        assert.deepEqual(await ids({ queue: other }), ['x']);
        const everything = await ids({ limit: 10000 });
        for (const t of ['a', 'b', 'c', 'd', 'x']) assert.ok(everything.includes(t));
    });

    it('pages, newest first', async () => {
        const queue = await letters(['a', 'b', 'c', 'd', 'e'].map((t) => [t, `p${t}`]));
        assert.deepEqual(await ids({ queue, limit: 2 }), ['e', 'd']);
        assert.deepEqual(await ids({ queue, limit: 2, offset: 2 }), ['c', 'b']);
        const last = await c.queen.dlq({ queue, limit: 2, offset: 4 });
        assert.deepEqual(last.json.messages.map((m) => m.transactionId), ['a']);
        assert.deepEqual(last.json.pagination, { limit: 2, offset: 4 });
        assert.equal(last.json.total, 1, 'total is the length of the page');
        assert.deepEqual(await ids({ queue, offset: 5 }), []);
    });

    it('a parameter that does not parse is a 400 that names it', async () => {
        for (const name of ['limit', 'offset', 'from', 'to']) assertError(await c.queen.dlq({ [name]: 'abc' }), 400, new RegExp(name));
    });

    it('filters by time', async () => {
        const queue = await letters([['a', 'p']]);
        const { json } = await c.queen.dlq({ queue });
        const at = Date.parse(json.messages[0].failedAt);
        const iso = (ms) => new Date(at + ms).toISOString();
        assert.deepEqual(await ids({ queue, from: iso(-60000), to: iso(60000) }), ['a']);
        assert.deepEqual(await ids({ queue, from: iso(60000) }), []);
        assert.deepEqual(await ids({ queue, to: iso(-60000) }), []);
    });

    it('keeps letters after their message is gone from the log', async () => {
        const queue = await letters([['a', 'p']]);
        await c.instance.psql(`delete from queen.log_segments s using queen.log_partitions p join queen.queues q on q.id = p.queue_id
            where s.partition_id = p.id and q.name = '${queue}'`);
        assert.deepEqual(await ids({ queue }), ['a']);
    });
});
