// The Rust client: every answer decodes into its types, on good and on bad days.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { Batch, unique, useQueen, ZERO_UUID } from '../lib/queen.mjs';
import { popResponse, RustClient } from './rust.mjs';

describe('Rust client', { concurrency: 4 }, () => {
    const c = useQueen();
    let rust;
    before(() => {
        rust = new RustClient(c.queen);
    });
    const items = (queue, ids, partition = 'Default') => ids.map((transactionId) => ({ queue, partition, payload: { transactionId }, transactionId }));
    const acks = (messages, status) => messages.map((m) => ({ transactionId: m.transactionId, partitionId: m.partitionId, status, leaseId: m.leaseId }));

    it('push results: queued, duplicate in the request and of an earlier one', async () => {
        const queue = unique();
        assert.deepEqual((await rust.push(items(queue, ['a', 'b', 'a']))).map((r) => r.status), ['queued', 'queued', 'duplicate']);
        assert.deepEqual((await rust.push(items(queue, ['b']))).map((r) => [r.status, r.queueName]), [['duplicate', queue]]);
        assert.deepEqual(await rust.push([]), []);
    });

    it('a pop answer: with a lease, with autoAck (an empty lease, never null), over partitions, empty', async () => {
        const queue = unique();
        await rust.push([...items(queue, ['a'], 'p1'), ...items(queue, ['b'], 'p2')]);
        const leased = await rust.pop(queue, { consumerGroup: 'lease', batch: 10, partitions: 2 });
        assert.deepEqual([leased.queue, leased.messages.length, leased.partitionsClaimed], [queue, 2, 2]);
        assert.ok(leased.messages.every((m) => m.leaseId === leased.leaseId && m.leaseId !== ''));
        const taken = await rust.pop(queue, { autoAck: true, batch: 10, partitions: 2 });
        assert.deepEqual([taken.leaseId, taken.messages.map((m) => m.leaseId)], ['', ['', '']]);
        const empty = await rust.pop(queue, { autoAck: true });
        assert.deepEqual([empty.messages, empty.leaseId], [[], '']);
    });

    it('identity is strings on discovery and when a conflating pop claims nothing', async () => {
        const queue = unique(), namespace = unique('ns');
        await rust.push(items(`${namespace}.q`, ['a']));
        const found = popResponse((await c.queen.popDiscover({ namespace })).json, 'pop');
        assert.deepEqual([found.queue, found.messages.length], ['', 1]);
        const conflated = await rust.pop(queue, { consumerGroup: 'g', conflation: true });
        assert.deepEqual([conflated.messages, conflated.partition, conflated.partitionId], [[], '', '']);
    });

    it('ack results have all seven keys: completed, repeated, no-op, failed, dead-lettered, unresolvable', async () => {
        const queue = unique();
        await c.queen.configure(queue, { retryLimit: 3 });
        await rust.push(items(queue, ['a', 'b', 'c']));
        const { messages, leaseId } = await rust.pop(queue, { batch: 3 });
        const [first] = await rust.ack(acks(messages.slice(0, 1), 'completed'));
        assert.deepEqual([first.success, first.error, first.leaseReleased, first.noop], [true, null, false, false]);
        const [noop] = await rust.ack(acks(messages.slice(0, 1), 'completed'));
        assert.deepEqual([noop.success, noop.noop], [true, true]);
        const [dead, failed] = await rust.ack([{ ...acks([messages[1]], 'dlq')[0], error: 'bad' }, ...acks([messages[2]], 'failed')]);
        assert.deepEqual([dead.success, dead.dlq, failed.dlq], [true, true, false]);
        const { partitionId } = messages[0];
        const odd = await rust.ack([
            { transactionId: 'a', partitionId: ZERO_UUID, status: 'completed' },
            { transactionId: 'never', partitionId, status: 'completed' },
            { transactionId: 'c', partitionId, status: 'completed', leaseId: ZERO_UUID },
            { transactionId: 'c', partitionId: 'not-a-uuid', status: 'failed' },
        ]);
        assert.ok(odd.every((r) => !r.success && r.error), JSON.stringify(odd));
        assert.notEqual(leaseId, '');
    });

    it('ack results decode when the lease is over', async () => {
        const queue = unique();
        await rust.push(items(queue, ['a']));
        const answer = await c.queen.pop(queue, { leaseSeconds: 1 });
        await new Batch(c.queen, answer.json).expired();
        const [late] = await rust.ack(acks(answer.json.messages, 'completed'));
        assert.deepEqual([late.success, late.error], [false, 'invalid or expired lease']);
    });

    it('transactions: requiredLeases always there, an op may carry its own lease and error', async () => {
        const queue = unique(), to = unique();
        assert.equal((await rust.transaction([])).success, true);
        await rust.push(items(queue, ['a', 'b']));
        const { messages, leaseId } = await rust.pop(queue, { batch: 2 });
        const ack = (m, status, more) => ({ type: 'ack', transactionId: m.transactionId, partitionId: m.partitionId, status, ...more });
        const done = await rust.transaction([ack(messages[0], 'completed', { leaseId }), { type: 'push', items: items(to, ['x']) }], [leaseId]);
        assert.deepEqual(done.results, [{ index: 0, type: 'ack' }, { index: 1, type: 'push' }]);
        const failed = await rust.transaction([ack(messages[1], 'dlq', { leaseId, error: 'no' })]);
        assert.equal(failed.success, true);
        const lost = await rust.transaction([ack(messages[1], 'completed', { leaseId: ZERO_UUID }), { type: 'push', items: items(to, ['y']) }], [ZERO_UUID]);
        assert.equal(typeof lost.error, 'string');
        assert.equal(lost.success, false);
        assert.deepEqual((await rust.pop(to, { batch: 10 })).messages.map((m) => m.transactionId), ['x']);
    });
});
