// Retention by the keeper: each rule end to end (contract 2, section 10).
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { unique, until, useQueen } from './lib/queen.mjs';

describe('retention', { concurrency: true }, () => {
    const c = useQueen();
    const partition = async (queue) => (await c.instance.psql(
        `select p.log_start, p.last_offset, p.oldest_live_at is null, (select count(*) from queen.log_segments s where s.partition_id = p.id)
         from queen.log_partitions p join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`)).trim();
    const filled = async (options) => {
        const queue = unique();
        await c.queen.configure(queue, options);
        for (const t of ['a', 'b', 'c']) await c.queen.push(queue, [t]);
        return queue;
    };

    it('retentionSeconds deletes consumed or not; the cursor steps over the gap and new messages come', async () => {
        const queue = await filled({ retentionEnabled: true, retentionSeconds: 1 });
        await until(async () => (await partition(queue)) === '3|2|t|0', 'all segments deleted');
        await c.queen.nothing(queue);
        await c.queen.push(queue, ['d']);
        await c.queen.take(queue, ['d']);
    });

    it('without retentionEnabled its seconds delete nothing', async () => {
        const queue = await filled({ retentionSeconds: 1, completedRetentionSeconds: 1 });
        const other = await filled({ retentionEnabled: true, retentionSeconds: 1 });
        await until(async () => (await partition(other)) === '3|2|t|0', 'the keeper was at it');
        assert.equal(await partition(queue), '0|2|f|3');
    });

    it('completedRetentionSeconds deletes what every group has consumed, and no more', async () => {
        const queue = await filled({ retentionEnabled: true, completedRetentionSeconds: 1 });
        await c.queen.pop(queue, { consumerGroup: 'fast', autoAck: true, batch: 3 });
        await c.queen.pop(queue, { consumerGroup: 'slow', autoAck: true, batch: 2 });
        await until(async () => (await partition(queue)) === '2|2|f|1', 'the two consumed segments deleted');
        await c.queen.take(queue, ['c'], { consumerGroup: 'slow' });
    });

    it('maxWaitTimeSeconds deletes always, leased messages too; a late ack moves the cursor', async () => {
        const queue = await filled({ maxWaitTimeSeconds: 1 });
        const batch = await c.queen.take(queue, ['a', 'b', 'c']);
        await until(async () => (await partition(queue)) === '3|2|t|0', 'all segments deleted');
        const results = await batch.ack([['a'], ['b'], ['c']]);
        assert.ok(results.every((r) => r.success), JSON.stringify(results));
    });
});
