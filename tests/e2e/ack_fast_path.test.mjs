// Which acks take the fast path (counters), through any worker, and that it never changes an answer.
// The settings of the instance decide what is expected: QUEEN_ACK_REGISTRY, QUEEN_ACK_FUSION.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERROR_LEASE, Queen, unique, useQueen } from './lib/queen.mjs';

const off = (value) => ['0', 'false', 'no', 'off'].includes(String(value ?? '').trim().toLowerCase());

describe('ack fast path', () => {
    const c = useQueen();
    const registry = () => !off(c.instance.env?.QUEEN_ACK_REGISTRY ?? process.env.QUEEN_ACK_REGISTRY);
    const fusion = () => !off(c.instance.env?.QUEEN_ACK_FUSION ?? process.env.QUEEN_ACK_FUSION);
    const leased = async (transactionIds, parameters = {}) => {
        const queue = unique();
        await c.queen.push(queue, transactionIds);
        return { queue, batch: await c.queen.take(queue, transactionIds.slice(0, parameters.batch), parameters) };
    };
    /* How the counters of acks moved while fn ran. Other tests of a shared instance may ack at the
     * same time, so figures are lower bounds unless the instance is this file's own. */
    const counted = async (fn) => {
        const before = await c.queen.counters();
        await fn();
        const after = await c.queen.counters();
        return Object.fromEntries(Object.keys(after).map((k) => [k, after[k] - before[k]]));
    };
    const alone = () => !process.env.QUEEN_TEST_URL;

    it('whole batches take it, acked through whatever worker, also another than delivered them', async () => {
        const batches = await Promise.all(Array.from({ length: 60 }, () => leased(['a', 'b', 'c'])));
        const agents = [];
        const moved = await counted(async () => {
            await Promise.all(batches.map(async ({ batch }) => {
                const other = new Queen(c.instance); // a connection of its own: any worker may get it
                agents.push(other);
                batch.queen = other;
                for (const r of await batch.complete()) assert.deepEqual([r.leaseReleased, r.noop, r.dlq], [true, false, false]);
            }));
        });
        for (const a of agents) a.close();
        for (const { queue } of batches) await c.queen.nothing(queue);
        if (registry()) {
            assert.ok(moved.ack_registry_hits >= 60, JSON.stringify(moved));
            assert.ok(moved[fusion() ? 'ack_fused' : 'ack_positional'] >= 60, JSON.stringify(moved));
            if (fusion()) {
                assert.ok(moved.flusher_requests >= 60 && moved.flusher_rows >= 60 && moved.flusher_commits >= 1, JSON.stringify(moved));
                assert.ok(moved.flusher_commits <= moved.flusher_rows);
                assert.equal(moved.flusher_errors, 0);
            } else assert.equal(moved.ack_fused, 0);
            if (alone()) assert.equal(moved.ack_hash, 0);
        } else {
            assert.equal(moved.ack_registry_hits, 0);
            assert.equal(moved.ack_fused, 0);
            assert.ok(moved.ack_hash >= 60, JSON.stringify(moved));
        }
    });

    const slow = {
        'a partial ack': [['a', 'completed']],
        'the last message only': [['c', 'completed']],
        'one failed': [['a', 'completed'], ['b', 'completed'], ['c', 'failed']],
        'one retry': [['a', 'retry'], ['b', 'completed'], ['c', 'completed']],
        'one unknown transaction more': [['a', 'completed'], ['b', 'completed'], ['c', 'completed'], ['ghost', 'completed']],
    };
    for (const [name, marks] of Object.entries(slow)) {
        it(`is not taken by ${name}`, async () => {
            const { batch } = await leased(['a', 'b', 'c']);
            const moved = await counted(async () => {
                await batch.ack(marks);
            });
            assert.ok(moved.ack_hash >= 1, JSON.stringify(moved));
            if (alone()) assert.equal(moved.ack_registry_hits, 0);
        });
    }

    it('order and repetition of the items do not matter to it', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c']);
        const moved = await counted(async () => {
            const results = await batch.ack([['c', 'ok'], ['a', 'success'], ['b'], ['a', 'acked'], ['c', 'completed']]);
            assert.ok(results.every((r) => r.success && r.leaseReleased && !r.noop));
        });
        if (registry()) assert.ok(moved.ack_registry_hits >= 1);
        await c.queen.nothing(queue);
    });

    it('a stale hit is refused by PostgreSQL and answered as the hash path does', async () => {
        const { queue, batch } = await leased(['a', 'b'], { leaseSeconds: 1 });
        await batch.expired();
        const moved = await counted(async () => {
            for (const r of await batch.ack([['a', 'completed'], ['b', 'completed']])) assert.equal(r.error, ERROR_LEASE);
        });
        if (registry()) assert.ok(moved.ack_rejected >= 1, JSON.stringify(moved));
        await c.queen.take(queue, ['a', 'b']);
    });

    it('a completed batch gives the next one a fresh retry budget, on every path', async () => {
        const queue = unique();
        await c.queen.configure(queue, { retryLimit: 1 });
        await c.queen.push(queue, ['a']);
        assert.equal((await (await c.queen.take(queue, ['a'])).ack([['a', 'failed']]))[0].dlq, false);
        assert.equal((await (await c.queen.take(queue, ['a'])).complete())[0].leaseReleased, true);
        await c.queen.push(queue, ['b']);
        const second = await c.queen.take(queue, ['b']);
        assert.equal(second.messages[0].deliveryAttempt, 1);
        assert.equal((await second.ack([['b', 'failed']]))[0].dlq, false, 'the failure of a is forgotten');
        assert.equal((await (await c.queen.take(queue, ['b'])).ack([['b', 'failed']]))[0].dlq, true);
    });

    it('several partitions in one call: each group takes its own path', async () => {
        const queue = unique();
        for (const p of ['x', 'y', 'z']) await c.queen.push(queue, [`${p}1`, `${p}2`], p);
        const { json } = await c.queen.pop(queue, { partitions: 3 });
        const items = json.messages.map((m) => ({ transactionId: m.transactionId, partitionId: m.partitionId, leaseId: m.leaseId,
            status: m.transactionId === 'y2' ? 'retry' : 'completed' }));
        const moved = await counted(async () => {
            const { json: results } = await c.queen.ackBatch(items);
            assert.ok(results.every((r) => r.success && r.leaseReleased));
        });
        if (registry()) assert.ok(moved.ack_registry_hits >= 2, JSON.stringify(moved));
        assert.ok(moved.ack_hash >= 1);
        await c.queen.take(queue, ['y2'], { partitions: 3 });
    });

    it('many acks at once on many partitions: every cursor moves, none twice', async () => {
        const queue = unique();
        const partitions = Array.from({ length: 100 }, (_, i) => `p${i}`);
        const items = partitions.flatMap((p) => [1, 2].map((n) => ({ queue, partition: p, transactionId: `${p}.${n}`, payload: n })));
        await c.queen.pushItems(items);
        const answers = await Promise.all(partitions.map((p) => c.queen.popPartition(queue, p, { wait: true, timeout: 20000 })));
        const acked = await Promise.all(answers.map((a) => c.queen.ackBatch(a.json.messages.map((m) => (
            { transactionId: m.transactionId, partitionId: m.partitionId, leaseId: m.leaseId, status: 'completed' })))));
        for (const a of acked) assert.ok(a.json.every((r) => r.success && r.leaseReleased && !r.noop), a.text);
        await c.queen.nothing(queue, { partitions: 100 });
        const consumed = String(await c.instance.psql(`select count(*), sum(total_consumed) from queen.log_consumers c
            join queen.log_partitions p on p.id = c.partition_id join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`)).trim();
        assert.equal(consumed, '100|200');
    });
});
