// Acks with, without and with the wrong lease; grouping by (partitionId, leaseId).
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertAckShape, Batch, ERROR_COMMITTED, ERROR_LEASE, ERROR_UNRESOLVABLE, unique, useQueen } from './lib/queen.mjs';

const FOREIGN = '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90';
const brief = (r) => [r.transactionId, r.success, r.error, r.leaseReleased];

describe('ack lease', { concurrency: 8 }, () => {
    const c = useQueen();
    const leased = async (transactionIds, parameters = {}) => {
        const queue = unique();
        await c.queen.push(queue, transactionIds);
        return { queue, batch: await c.queen.take(queue, transactionIds.slice(0, parameters.batch), parameters) };
    };

    it('a lease that is not the holder is refused for every status, and nothing moves', async () => {
        const { queue, batch } = await leased(['a', 'b']);
        for (const leaseId of [FOREIGN, 'nonsense', `${batch.leaseId}x`, 'a\u0000b', 'x'.repeat(5000)]) {
            for (const status of ['completed', 'failed', 'retry', 'dlq']) {
                const results = await batch.ack([['a', status], ['b', status]], { leaseId });
                assert.deepEqual(results.map(brief), [['a', false, ERROR_LEASE, false], ['b', false, ERROR_LEASE, false]]);
                assert.ok(results.every((r) => !r.noop && !r.dlq));
            }
        }
        await c.queen.nothing(queue);
        assert.ok((await batch.complete()).every((r) => r.leaseReleased && !r.noop));
    });

    it('an expired lease is refused, whole batch and part of it', async () => {
        const { queue, batch } = await leased(['a', 'b'], { leaseSeconds: 1 });
        await batch.expired();
        for (const marks of [[['a', 'completed'], ['b', 'completed']], [['a', 'completed']], [['b', 'failed']]]) {
            for (const r of await batch.ack(marks)) assert.deepEqual([r.success, r.error, r.leaseReleased], [false, ERROR_LEASE, false]);
        }
        await c.queen.take(queue, ['a', 'b']);
    });

    it('a lease that another worker took over is refused', async () => {
        const { queue, batch } = await leased(['a', 'b'], { leaseSeconds: 1 });
        await batch.expired();
        const taken = await c.queen.take(queue, ['a', 'b']);
        for (const r of await batch.ack([['a', 'completed'], ['b', 'completed']])) assert.equal(r.error, ERROR_LEASE);
        assert.ok((await taken.complete()).every((r) => r.leaseReleased && !r.noop));
    });

    for (const [name, leaseId] of [['absent', undefined], ['null', null], ['empty', '']]) {
        it(`${name} leaseId skips the check and advances the cursor under another one's lease`, async () => {
            const { queue, batch } = await leased(['a', 'b', 'c']);
            const [a] = await batch.ack([['a', 'completed']], { leaseId });
            assert.deepEqual(brief(a), ['a', true, null, false]);
            const [again] = await batch.ack([['a', 'completed']]);
            assert.equal(again.noop, true, 'the holder sees that the cursor moved');
            const [stale] = await batch.ack([['a', 'failed']]);
            assert.equal(stale.error, ERROR_COMMITTED);
            const rest = await batch.ack([['b', 'completed'], ['c', 'completed']], { leaseId });
            assert.deepEqual(rest.map(brief), [['b', true, null, true], ['c', true, null, true]]);
            await c.queen.nothing(queue);
        });
    }

    it('without leaseId, while a lease is held, resolution stays inside the leased span', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c', 'd'], { batch: 2 });
        const results = await batch.ack([['c', 'completed'], ['d', 'completed']], { leaseId: undefined });
        assert.deepEqual(results.map((r) => r.error), [ERROR_UNRESOLVABLE, ERROR_UNRESOLVABLE]);
        const mixed = await batch.ack([['b', 'completed'], ['c', 'completed']], { leaseId: undefined });
        assert.deepEqual(mixed.map((r) => [r.success, r.error]), [[true, null], [false, ERROR_UNRESOLVABLE]]);
        await c.queen.take(queue, ['c', 'd']);
    });

    it('without leaseId, while a lease is held, signals work as for the holder', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c']);
        const results = await batch.ack([['a', 'completed'], ['b', 'retry']], { leaseId: undefined });
        assert.deepEqual(results.map(brief), [['a', true, null, true], ['b', true, null, true]]);
        await c.queen.take(queue, ['b', 'c']);
    });

    it('without leaseId after the expiry: what was really finished can still be committed', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c'], { leaseSeconds: 1 });
        await batch.expired();
        const [b] = await batch.ack([['b', 'completed']], { leaseId: undefined });
        assert.deepEqual([b.success, b.error, b.noop], [true, null, false]);
        const again = await c.queen.take(queue, ['c']);
        await again.complete();
        await c.queen.nothing(queue);
    });

    it('without leaseId and without a live lease, resolution is unbounded above the cursor', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c', 'd', 'e'], { batch: 2, leaseSeconds: 1 });
        await c.queen.push(queue, ['f', 'g']);
        await batch.expired();
        const [f] = await batch.ack([['f', 'completed']], { leaseId: undefined });
        assert.deepEqual([f.success, f.error, f.noop], [true, null, false], 'never delivered, but it has a hash row');
        await c.queen.take(queue, ['g']);
    });

    it('without leaseId on a partition the group released: unbounded too', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c', 'd'], { batch: 1 });
        await batch.complete();
        const [b] = await batch.ack([['b', 'completed']], { leaseId: undefined });
        assert.deepEqual([b.success, b.noop], [true, false]);
        const below = await batch.ack([['a', 'completed'], ['b', 'failed'], ['ghost', 'completed']], { leaseId: undefined });
        assert.deepEqual(below.map((r) => [r.success, r.error, r.noop]), [[true, null, true], [false, ERROR_COMMITTED, false], [false, ERROR_UNRESOLVABLE, false]]);
        await c.queen.take(queue, ['c', 'd']);
    });

    it('a group that never popped the partition has no cursor to move', async () => {
        const { queue, batch } = await leased(['a']);
        for (const leaseId of [undefined, batch.leaseId]) {
            const answer = await c.queen.ackBatch([{ transactionId: 'a', partitionId: batch.partitionId, leaseId, status: 'completed' }], 'stranger');
            assertAckShape(answer, [{ transactionId: 'a' }]);
            assert.equal(answer.json[0].success, false);
        }
        await c.queen.take(queue, ['a'], { consumerGroup: 'stranger' });
    });

    it('one call over three partitions: each is resolved by itself', async () => {
        const queue = unique();
        for (const p of ['x', 'y', 'z']) await c.queen.push(queue, [`${p}1`, `${p}2`], p);
        const answer = await c.queen.pop(queue, { partitions: 3 });
        assert.equal(answer.json.partitionsClaimed, 3);
        const batch = new Batch(c.queen, answer.json);
        const results = await batch.ack([['x1', 'completed'], ['y1', 'failed'], ['z1', 'completed'], ['x2', 'completed'], ['y2', 'completed'], ['ghost', 'completed']]);
        const released = Object.fromEntries(results.map((r) => [r.transactionId, r.leaseReleased]));
        assert.deepEqual(released, { x1: true, x2: true, y1: true, y2: true, z1: false, ghost: false });
        assert.deepEqual(results.map((r) => r.success), [true, true, true, true, true, false]);
        const again = await c.queen.take(queue, ['y1', 'y2'], { partitions: 3 });
        assert.equal(again.json.partition, 'y');
        await batch.ack([['z2', 'retry']]);
        await c.queen.take(queue, ['z2'], { partitions: 3 });
    });

    it('the same transaction id in three partitions acks each of them', async () => {
        const queue = unique();
        for (const p of ['x', 'y', 'z']) await c.queen.push(queue, ['same'], p);
        const { json } = await c.queen.pop(queue, { partitions: 3 });
        const items = json.messages.map((m) => ({ transactionId: 'same', partitionId: m.partitionId, leaseId: json.leaseId, status: m.partition === 'y' ? 'retry' : 'completed' }));
        const answer = await c.queen.ackBatch(items);
        assertAckShape(answer, items);
        assert.ok(answer.json.every((r) => r.success && r.leaseReleased));
        const again = await c.queen.take(queue, ['same'], { partitions: 3 });
        assert.equal(again.json.partition, 'y');
    });

    it('a bad lease in one group does not touch another group', async () => {
        const [one, two] = [await leased(['a']), await leased(['b'])];
        const items = [
            { transactionId: 'a', partitionId: one.batch.partitionId, leaseId: FOREIGN, status: 'completed' },
            { transactionId: 'b', partitionId: two.batch.partitionId, leaseId: two.batch.leaseId, status: 'completed' },
            { transactionId: 'c', partitionId: 'no uuid', leaseId: two.batch.leaseId, status: 'completed' },
        ];
        const answer = await c.queen.ackBatch(items);
        assertAckShape(answer, items);
        assert.deepEqual(answer.json.map((r) => r.error), [ERROR_LEASE, null, ERROR_UNRESOLVABLE]);
        await c.queen.nothing(two.queue);
        assert.equal((await one.batch.complete())[0].leaseReleased, true);
    });

    it('one partition with a good and a bad lease in a call: two groups', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c']);
        const items = [
            { transactionId: 'b', partitionId: batch.partitionId, leaseId: FOREIGN, status: 'dlq' },
            { transactionId: 'c', partitionId: batch.partitionId, leaseId: batch.leaseId, status: 'completed' },
        ];
        const answer = await c.queen.ackBatch(items);
        assert.deepEqual(answer.json.map(brief), [['b', false, ERROR_LEASE, false], ['c', true, null, true]]);
        await c.queen.nothing(queue);
    });

    it('releasing one partition of a pop leaves the others leased', async () => {
        const queue = unique();
        for (const p of ['x', 'y']) await c.queen.push(queue, [p], p);
        const { json } = await c.queen.pop(queue, { partitions: 2 });
        const batch = new Batch(c.queen, json);
        await batch.ack([['x', 'retry']]);
        await c.queen.take(queue, ['x'], { partitions: 5 });
        await c.queen.nothing(queue, { partitions: 5 });
        assert.equal((await batch.ack([['y', 'completed']]))[0].leaseReleased, true);
    });
});
