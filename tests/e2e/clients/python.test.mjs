// The Python client: nulls for every absent field, status by boolean, acks read by their array.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertAckShape, unique, useQueen } from '../lib/queen.mjs';

describe('Python client', { concurrency: 4 }, () => {
    const c = useQueen();
    const item = (m, ok, more) => ({ transactionId: m.transactionId, partitionId: m.partitionId, status: ok ? 'completed' : 'failed', error: null, consumerGroup: null, leaseId: m.leaseId, ...more });

    it('null counts as absent in pushes, acks, and configurations', async () => {
        const queue = unique();
        const configured = await c.queen.post('/api/v1/configure', { queue, namespace: null, task: null, options: { leaseTime: null } });
        assert.deepEqual([configured.status, configured.json.namespace, configured.json.options.leaseTime], [200, '', 300]);
        const pushed = await c.queen.pushItems([{ queue, partition: null, payload: null, transactionId: null, traceId: null }]);
        assert.equal(pushed.json[0].status, 'queued');
        assert.equal(pushed.json[0].transaction_id, pushed.json[0].message_id);
        const { messages: [m] } = (await c.queen.pop(queue)).json;
        assert.deepEqual([m.partition, m.data, m.traceId, m.producerSub], ['Default', null, null, null]);
        const acked = await c.queen.ack(item(m, true));
        assertAckShape(acked, [m]);
        assert.deepEqual([acked.json[0].success, acked.json[0].leaseReleased], [true, true]);
    });

    it('a null leaseId is an ack without a lease', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        const { messages: [m] } = (await c.queen.pop(queue, { autoAck: 'true' })).json;
        const [result] = (await c.queen.ack(item(m, true, { leaseId: null }))).json;
        assert.deepEqual([result.success, result.noop], [true, true]);
    });

    it('a batch: consumerGroup null at the top, a mixture of completed and failed, one result an item', async () => {
        const queue = unique();
        await c.queen.configure(queue, { retryLimit: 5 });
        await c.queen.push(queue, ['a', 'b', 'c']);
        const { messages } = (await c.queen.pop(queue, { batch: '3', wait: 'true', timeout: '5000' })).json;
        const acknowledgments = messages.map((m, i) => item(m, i === 0, i === 0 ? {} : { error: 'later' }));
        const answer = await c.queen.post('/api/v1/ack/batch', { acknowledgments, consumerGroup: null });
        assertAckShape(answer, messages);
        assert.deepEqual(answer.json.map((r) => [r.success, r.dlq]), [[true, false], [true, false], [true, false]]);
        const again = await c.queen.take(queue, ['b', 'c'], { batch: 10 });
        await again.complete();
        await c.queen.nothing(queue);
    });

    it('a transaction with nulls', async () => {
        const queue = unique();
        const answer = await c.queen.post('/api/v1/transaction', {
            operations: [{ type: 'push', items: [{ queue, partition: null, payload: { a: 1 }, transactionId: null, traceId: null }] }],
            requiredLeases: [], kv: null, timers: null,
        });
        assert.deepEqual([answer.status, answer.json.success], [200, true], answer.text);
        const { messages: [m] } = (await c.queen.pop(queue)).json;
        assert.deepEqual([m.partition, m.data], ['Default', { a: 1 }]);
        const acked = await c.queen.post('/api/v1/transaction', { operations: [{ type: 'ack', ...item(m, true), leaseId: null }], requiredLeases: [m.leaseId], kv: null });
        assert.equal(acked.json.success, true, acked.text);
        await c.queen.nothing(queue);
    });
});
