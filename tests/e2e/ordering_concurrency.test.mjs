// Many producers and consumers at once: every message exactly once, in order per partition.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Batch, sleep, unique, useQueen } from './lib/queen.mjs';

describe('ordering and concurrency', () => {
    const c = useQueen();

    /* Runs consumers until `total` messages were completed; gives partition -> ids in the order of
     * delivery. keep(batch) is how many of a batch are completed; the rest is nacked with retry. */
    const consume = async (queue, total, consumers, parameters, keep = (batch) => batch.messages.length) => {
        const seen = new Map();
        const held = new Set();
        let done = 0;
        await Promise.all(Array.from({ length: consumers }, async () => {
            while (done < total) {
                const answer = await c.queen.pop(queue, { wait: true, timeout: 2000, ...parameters });
                if (answer.status === 204) continue;
                assert.equal(answer.status, 200, answer.text);
                const batch = new Batch(c.queen, answer.json);
                const partitions = new Set(batch.messages.map((m) => m.partition));
                for (const p of partitions) {
                    assert.ok(!held.has(p), `partition ${p} is delivered to two consumers at a time`);
                    held.add(p);
                }
                await sleep(2);
                const count = keep(batch);
                for (const m of batch.messages.slice(0, count)) {
                    if (!seen.has(m.partition)) seen.set(m.partition, []);
                    seen.get(m.partition).push(m.transactionId);
                }
                for (const p of partitions) held.delete(p); // from here on the ack may release it
                const results = await batch.ack(batch.messages.map((m, i) => [m.transactionId, i < count ? 'completed' : 'retry']));
                for (const r of results) assert.deepEqual([r.success, r.error, r.leaseReleased, r.noop], [true, null, true, false]);
                done += count;
            }
        }));
        return seen;
    };

    it('50 consumers, 20 partitions, 8 producers: every message exactly once, in order', { timeout: 120000 }, async (t) => {
        const queue = unique();
        const perPartition = 200, partitions = 20;
        const expected = new Map(Array.from({ length: partitions }, (_, p) => [`p${p}`, Array.from({ length: perPartition }, (_, i) => `p${p}-${i}`)]));
        const started = Date.now();
        const producers = Array.from({ length: 8 }, async (_, producer) => {
            for (let at = 0; at < perPartition; at += 10) {
                for (let p = producer; p < partitions; p += 8) await c.queen.push(queue, expected.get(`p${p}`).slice(at, at + 10), `p${p}`);
            }
        });
        const consumers = consume(queue, perPartition * partitions, 50, { batch: 15, partitions: 2 });
        await Promise.all(producers);
        const seen = await consumers;
        t.diagnostic(`4,000 messages in ${Date.now() - started} ms`);
        for (const [p, ids] of expected) assert.deepEqual(seen.get(p), ids, p);
        await c.queen.nothing(queue, { partitions: 100 });
        const state = String(await c.instance.psql(`select count(*), bool_and(c.committed = p.last_offset), bool_and(c.batch_end is null), sum(c.total_consumed)
            from queen.log_consumers c join queen.log_partitions p on p.id = c.partition_id join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`)).trim();
        assert.equal(state, '20|t|t|4000');
    });

    it('two groups of consumers each get everything', { timeout: 60000 }, async () => {
        const queue = unique();
        const ids = Array.from({ length: 300 }, (_, i) => `m${i}`);
        for (let p = 0; p < 3; p++) await c.queen.push(queue, ids.filter((_, i) => i % 3 === p), `p${p}`);
        const groups = await Promise.all(['one', 'two'].map((consumerGroup) => consume(queue, 300, 10, { batch: 7, consumerGroup })));
        for (const seen of groups) {
            for (let p = 0; p < 3; p++) assert.deepEqual(seen.get(`p${p}`), ids.filter((_, i) => i % 3 === p));
        }
    });

    it('consumers that nack now and then: nothing is lost, order holds for what is completed', { timeout: 60000 }, async () => {
        const queue = unique();
        const partitions = 6, each = 60;
        for (let p = 0; p < partitions; p++) await c.queen.push(queue, Array.from({ length: each }, (_, i) => `p${p}-${i}`), `p${p}`);
        let turn = 0;
        const seen = await consume(queue, partitions * each, 12, { batch: 9 }, (batch) => {
            turn++;
            return turn % 3 === 0 ? Math.floor(batch.messages.length / 2) : batch.messages.length;
        });
        for (let p = 0; p < partitions; p++) assert.deepEqual(seen.get(`p${p}`), Array.from({ length: each }, (_, i) => `p${p}-${i}`));
        await c.queen.nothing(queue, { partitions: 100 });
    });

    it('autoAck consumers: every message exactly once, in order', { timeout: 60000 }, async () => {
        const queue = unique();
        for (let p = 0; p < 5; p++) await c.queen.push(queue, Array.from({ length: 40 }, (_, i) => `p${p}-${i}`), `p${p}`);
        const all = [];
        await Promise.all(Array.from({ length: 10 }, async () => {
            for (let empty = 0; empty < 3;) {
                const answer = await c.queen.pop(queue, { autoAck: true, batch: 3 });
                if (answer.status === 204) empty++;
                else all.push(...answer.json.messages.map((m) => m.transactionId));
            }
        }));
        for (let round = 0; all.length < 200 && round < 200; round++) {
            const answer = await c.queen.pop(queue, { autoAck: true });
            if (answer.status === 200) all.push(...answer.json.messages.map((m) => m.transactionId));
        }
        assert.equal(all.length, 200);
        assert.equal(new Set(all).size, 200);
    });
});
