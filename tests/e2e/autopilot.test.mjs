// autopilot=true: the server chooses the knobs that a pop leaves out, never the others.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, sleep, unique, useQueen } from './lib/queen.mjs';

describe('autopilot', { concurrency: 4 }, () => {
    const c = useQueen();
    /* `partitions` partitions of `each` messages, ready for longer than other consumers need. */
    const backlog = async (queue, partitions, each) => {
        const items = [];
        for (let p = 0; p < partitions; p++)
            for (let i = 0; i < each; i++) items.push({ queue, partition: `p${p}`, transactionId: `p${p}-${i}`, payload: i });
        assert.equal((await c.queen.pushItems(items)).status, 201);
        await sleep(100);
    };
    const auto = { autopilot: true, consumerGroup: 'g' };

    it('chooses both, and says so', async () => {
        const queue = unique();
        await backlog(queue, 5, 60);
        const { status, json } = await c.queen.pop(queue, auto);
        assert.equal(status, 200);
        assert.deepEqual(json.autopilot, { partitions: 5, batch: 300, waitMs: 100 });
        assert.deepEqual(Object.keys(json.autopilot), ['partitions', 'batch', 'waitMs']);
        assert.equal(Object.keys(json).at(-1), 'autopilot');
        assert.deepEqual([json.partitionsClaimed, json.messages.length], [5, 300]);
    });

    it('never overrides what is sent', async () => {
        const queue = unique();
        await backlog(queue, 5, 60);
        const batch = await c.queen.pop(queue, { ...auto, batch: 70 });
        assert.deepEqual([batch.json.autopilot, batch.json.partitionsClaimed, batch.json.messages.length], [{ partitions: 5, batch: 70, waitMs: 100 }, 2, 70]);
        const partitions = await c.queen.pop(queue, { ...auto, consumerGroup: 'h', partitions: 2 });
        assert.deepEqual([partitions.json.autopilot, partitions.json.messages.length], [{ partitions: 2, batch: 120, waitMs: 100 }, 120]);
        const both = await c.queen.pop(queue, { ...auto, consumerGroup: 'i', partitions: 1, batch: 3 });
        assert.deepEqual([both.json.autopilot, both.json.messages.length], [undefined, 3]);
    });

    it('works on a parked poll, with small choices when little is ready', async () => {
        const queue = unique();
        const poll = c.queen.pop(queue, { ...auto, wait: true, timeout: 30000 });
        await sleep(200);
        await c.queen.push(queue, ['a', 'b']);
        const { json } = await poll;
        assert.deepEqual([json.messages.length, json.autopilot.batch, json.autopilot.waitMs], [2, 100, 100]);
    });

    it('is bounded: 64 partitions, 1000 messages', async () => {
        const wide = unique();
        await backlog(wide, 80, 1);
        const many = await c.queen.pop(wide, auto);
        assert.deepEqual([many.json.autopilot, many.json.partitionsClaimed], [{ partitions: 64, batch: 100, waitMs: 100 }, 64]);
        const deep = unique();
        await backlog(deep, 1, 1200);
        const long = await c.queen.pop(deep, auto);
        assert.deepEqual([long.json.autopilot, long.json.messages.length], [{ partitions: 1, batch: 1000, waitMs: 100 }, 1000]);
    });

    it('an empty queue is 204', async () => {
        assert.equal((await c.queen.pop(unique(), auto)).status, 204);
    });

    it('is accepted and ignored without a group, on the other routes, and by a conflating group', async () => {
        const queue = unique();
        await c.queen.configure(queue, {}, { namespace: queue });
        await backlog(queue, 3, 2);
        const answers = [await c.queen.pop(queue, { autopilot: true }), await c.queen.popPartition(queue, 'p0', { ...auto, consumerGroup: 'a' }),
            await c.queen.popDiscover({ namespace: queue, ...auto, consumerGroup: 'b' }), await c.queen.pop(queue, { consumerGroup: 'c', autopilot: false })];
        for (const { status, json } of answers) assert.deepEqual([status, json.autopilot, json.messages.length], [200, undefined, 2]);
        const conflating = await c.queen.pop(queue, { ...auto, consumerGroup: 'd', conflation: true });
        assert.deepEqual([conflating.json.autopilot, conflating.json.conflation, conflating.json.messages.length], [undefined, true, 3]);
        assertError(await c.queen.pop(queue, { consumerGroup: 'g', autopilot: 'x' }), 400, /autopilot/);
    });
});
