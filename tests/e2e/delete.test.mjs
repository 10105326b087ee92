// DELETE /api/v1/resources/queues/:queue.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Batch, unique, useQueen } from './lib/queen.mjs';

describe('delete queue', { concurrency: 4 }, () => {
    const c = useQueen();

    it('says that it existed', async () => {
        const queue = unique();
        await c.queen.configure(queue);
        const answer = await c.queen.delete(queue);
        assert.equal(answer.status, 200);
        assert.match(answer.headers['content-type'], /^application\/json/);
        assert.deepEqual(answer.json, { deleted: true, queue, existed: true });
    });

    it('says that it did not, still 200', async () => {
        const queue = unique();
        const answer = await c.queen.delete(queue);
        assert.equal(answer.status, 200);
        const { message, ...rest } = answer.json;
        assert.deepEqual(rest, { deleted: false, queue, existed: false });
        assert.equal(typeof message, 'string');
    });

    it('takes partitions, messages, hash rows, cursors and dead letters with it', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b'], 'p');
        await c.queen.push(queue, ['c'], 'q');
        const popped = await c.queen.popPartition(queue, 'p', { consumerGroup: 'g' });
        const batch = new Batch(c.queen, popped.json);
        await batch.ack([['a', 'dlq']]);
        assert.equal((await c.queen.dlq({ queue })).json.messages.length, 1);
        const partition = batch.partitionId;
        await c.queen.delete(queue);
        assert.deepEqual((await c.queen.dlq({ queue })).json.messages, []);
        for (const table of ['log_segments', 'log_txns', 'log_consumers', 'log_dlq']) {
            assert.equal(String(await c.instance.psql(`select count(*) from queen.${table} where partition_id = '${partition}'`)).trim(), '0', table);
        }
        assert.equal(String(await c.instance.psql(`select count(*) from queen.queues where name = '${queue}'`)).trim(), '0');
        await c.queen.nothing(queue, { consumerGroup: 'g', partitions: 10 });
    });

    it('a queue of the same name starts anew: offsets, dedup, groups, options', async () => {
        const queue = unique();
        await c.queen.configure(queue, { leaseTime: 5 });
        const [old] = await c.queen.push(queue, ['a']);
        const before = await c.queen.take(queue, ['a'], { consumerGroup: 'g' });
        await c.queen.delete(queue);
        const [fresh] = await c.queen.push(queue, ['a']);
        assert.notEqual(fresh.message_id, old.message_id);
        for (const r of await before.ack([['a', 'completed']])) assert.equal(r.success, false, 'the old partition is gone');
        const after = await c.queen.take(queue, ['a'], { consumerGroup: 'g' });
        assert.notEqual(after.partitionId, before.partitionId);
        assert.equal(after.messages[0].deliveryAttempt, 1);
        const left = (Date.parse((await c.queen.extend(after.leaseId, '{"seconds":1}')).json.newExpiresAt) - Date.now()) / 1000;
        assert.ok(left > 40 && left <= 61, `${left} s: the lease of an implicit queue again`);
        assert.equal((await c.queen.extend(before.leaseId)).json.success, false);
    });

    it('a "new" subscription is forgotten with the queue', async () => {
        const queue = unique();
        await c.queen.nothing(queue, { consumerGroup: 'g', subscriptionMode: 'new' });
        await c.queen.delete(queue);
        await c.queen.push(queue, ['a']);
        await c.queen.take(queue, ['a'], { consumerGroup: 'g' });
    });

    it('is safe under pushes and pops of the same queue', async () => {
        const queue = unique();
        let stop = false;
        const errors = [];
        const load = Array.from({ length: 6 }, async (_, n) => {
            for (let i = 0; !stop; i++) {
                const pushed = await c.queen.pushItems([{ queue, partition: `p${i % 3}`, transactionId: `${n}-${i}`, payload: 1 }]);
                if (pushed.status !== 201 || pushed.json[0].status !== 'queued') errors.push(`${pushed.status} ${pushed.text}`);
                const popped = await c.queen.pop(queue, { partitions: 3 });
                if (popped.status !== 200 && popped.status !== 204) errors.push(`${popped.status} ${popped.text}`);
            }
        });
        for (let i = 0; i < 10; i++) {
            await c.queen.push(queue, [`keep-${i}`]);
            const answer = await c.queen.delete(queue);
            assert.equal(answer.status, 200, answer.text);
        }
        stop = true;
        await Promise.all(load);
        assert.deepEqual(errors, []);
        await c.queen.delete(queue);
        await c.queen.push(queue, ['last']);
        await c.queen.take(queue, ['last']);
    });
});
