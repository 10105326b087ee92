// POST /api/v1/ack and /ack/batch: shapes, every status word, what is refused.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertAckShape, assertError, ERROR_UNRESOLVABLE, QUEUE_MODE, unique, useQueen } from './lib/queen.mjs';

const RELEASED = { success: true, error: null, leaseReleased: true, dlq: false, noop: false };

describe('ack status', { concurrency: 8 }, () => {
    const c = useQueen();
    const leased = async (transactionIds, { options, ...parameters } = {}) => {
        const queue = unique();
        if (options) await c.queen.configure(queue, options);
        await c.queen.push(queue, transactionIds);
        return { queue, batch: await c.queen.take(queue, transactionIds.slice(0, parameters.batch), parameters) };
    };

    it('single: the example of the contract, keys in its order', async () => {
        const { queue, batch } = await leased(['order-4711'], { consumerGroup: 'billing' });
        const answer = await c.queen.post('/api/v1/ack', `{
            "transactionId": "order-4711",
            "partitionId": "${batch.partitionId}",
            "status": "completed",
            "consumerGroup": "billing",
            "leaseId": "${batch.leaseId}",
            "error": null
        }`);
        assert.equal(answer.status, 200);
        assert.match(answer.headers['content-type'], /^application\/json/);
        assert.equal(answer.text.replace(/\s/g, ''), '[{"index":0,"transactionId":"order-4711","success":true,"error":null,"leaseReleased":true,"dlq":false,"noop":false}]');
        await c.queen.nothing(queue, { consumerGroup: 'billing' });
    });

    it('batch: the example of the route page', async () => {
        const { queue, batch } = await leased(['order-8891-created', 'order-8892-created'], { consumerGroup: 'billing' });
        const acknowledgments = [
            { transactionId: 'order-8891-created', partitionId: batch.partitionId, status: 'completed', leaseId: batch.leaseId },
            { transactionId: 'order-8892-created', partitionId: batch.partitionId, status: 'failed', leaseId: batch.leaseId, error: 'downstream 502' },
        ];
        const answer = await c.queen.post('/api/v1/ack/batch', { consumerGroup: 'billing', acknowledgments });
        assert.equal(answer.status, 200);
        assertAckShape(answer, acknowledgments);
        assert.deepEqual(answer.json, acknowledgments.map((a, index) => ({ index, transactionId: a.transactionId, ...RELEASED })));
        const again = await c.queen.take(queue, ['order-8892-created'], { consumerGroup: 'billing' });
        assert.equal(again.messages[0].deliveryAttempt, 1, 'another start offset than before');
    });

    it('the step of the documentation: push, pop of a group, ack', async () => {
        const orders = unique('orders');
        const pushed = await c.queen.post('/api/v1/push', `{
            "items": [{"queue": "${orders}", "partition": "customer-42",
                       "transactionId": "order-1001", "payload": {"total": 30}}]}`);
        assert.equal(pushed.status, 201);
        const popped = await c.queen.get(`/api/v1/pop/queue/${orders}?consumerGroup=billing&batch=10&wait=true&timeout=30000`);
        assert.equal(popped.status, 200);
        const { partitionId, leaseId } = popped.json;
        const wrong = await c.queen.post('/api/v1/ack', `{
            "transactionId": "order-1001", "partitionId": "17", "leaseId": "${leaseId}",
            "consumerGroup": "billing", "status": "completed"}`);
        assert.equal(wrong.json[0].error, ERROR_UNRESOLVABLE);
        const acked = await c.queen.post('/api/v1/ack', `{
            "transactionId": "order-1001", "partitionId": "${partitionId}", "leaseId": "${leaseId}",
            "consumerGroup": "billing", "status": "completed"}`);
        assert.deepEqual(acked.json, [{ index: 0, transactionId: 'order-1001', ...RELEASED }]);
    });

    /* With a budget of 0 the three meanings are told apart by their effect on ['a', 'b']. */
    const meaning = async (status, send) => {
        const { queue, batch } = await leased(['a', 'b'], { options: { retryLimit: 0 } });
        const item = { transactionId: 'a', partitionId: batch.partitionId, leaseId: batch.leaseId, ...status };
        const answer = await send(item);
        assert.equal(answer.status, 200, answer.text);
        assertAckShape(answer, [item]);
        const [result] = answer.json;
        assert.deepEqual([result.success, result.noop], [true, false]);
        const next = await c.queen.pop(queue);
        const got = next.status === 200 ? next.json.messages.map((m) => m.transactionId).join() : '';
        if (!result.leaseReleased && got === '') return 'completed';
        if (result.leaseReleased && !result.dlq && got === 'a,b') return 'retry';
        if (result.leaseReleased && result.dlq && got === 'b') return 'dead-lettered';
        return `unexpected: ${answer.text}, then ${got}`;
    };
    const sends = { single: (item) => c.queen.ack(item), batch: (item) => c.queen.ackBatch([item]) };
    const words = {
        completed: ['completed', 'success', 'acked', 'ok', undefined, null],
        retry: ['retry'],
        'dead-lettered': ['dlq', 'failed', '', 'COMPLETED', 'Completed', 'complete', 'Success', 'OK', 'ack', ' completed', 'completed ', 'RETRY', 'DLQ', 'error', 'nack', 'true', 'complet\u00e9', 'completed\u0000'],
    };
    for (const [route, send] of Object.entries(sends)) {
        for (const [expected, list] of Object.entries(words)) {
            for (const status of list) {
                it(`${route}: ${JSON.stringify(status) ?? 'absent'} means ${expected}${expected === 'dead-lettered' && status !== 'dlq' ? ' (failed, budget 0)' : ''}`, async () => {
                    assert.equal(await meaning({ status }, send), expected);
                });
            }
        }
    }

    it('failed charges the budget, retry does not, dlq bypasses it', async () => {
        for (const [status, expected] of [['failed', 'dead-lettered'], ['typo', 'dead-lettered'], ['retry', 'kept']]) {
            const { queue, batch } = await leased(['a'], { options: { retryLimit: 1 } });
            const [first] = await batch.ack([['a', status]]);
            assert.deepEqual([first.success, first.leaseReleased, first.dlq], [true, true, false]);
            const [second] = await (await c.queen.take(queue, ['a'])).ack([['a', 'failed']]);
            assert.equal(second.dlq, expected === 'dead-lettered', status);
        }
    });

    it('a partial completed ack keeps the lease, the rest of the batch can still be acked', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c']);
        assert.deepEqual(await batch.ack([['a', 'completed']]), [{ index: 0, transactionId: 'a', ...RELEASED, leaseReleased: false }]);
        await c.queen.nothing(queue);
        assert.deepEqual((await batch.ack([['b', 'ok']]))[0], { index: 0, transactionId: 'b', ...RELEASED, leaseReleased: false });
        assert.deepEqual((await batch.ack([['c', 'success']]))[0], { index: 0, transactionId: 'c', ...RELEASED });
        await c.queen.nothing(queue);
    });

    it('the batch route answers in request order, whatever order and repetition the items have', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c']);
        const results = await batch.ack([['c'], ['a'], ['b'], ['a'], ['c']]);
        assert.deepEqual(results.map((r) => [r.index, r.transactionId, r.success]), [[0, 'c', true], [1, 'a', true], [2, 'b', true], [3, 'a', true], [4, 'c', true]]);
        assert.ok(results.every((r) => r.leaseReleased));
        await c.queen.nothing(queue);
    });

    it('consumerGroup is the queue-mode group when absent or null: another cursor than any named group', async () => {
        for (const rest of [{}, { consumerGroup: null }, { consumerGroup: QUEUE_MODE }]) {
            const { queue, batch } = await leased(['a']);
            const answer = await c.queen.ack({ transactionId: 'a', partitionId: batch.partitionId, leaseId: batch.leaseId, status: 'completed', ...rest });
            assert.equal(answer.json[0].success, true, answer.text);
            await c.queen.take(queue, ['a'], { consumerGroup: 'named' });
        }
        const { batch } = await leased(['a'], { consumerGroup: 'named' });
        const answer = await c.queen.ack({ transactionId: 'a', partitionId: batch.partitionId, leaseId: batch.leaseId, status: 'completed' });
        assert.equal(answer.json[0].success, false, 'the lease is the named group\'s');
        assert.equal((await batch.complete())[0].leaseReleased, true);
    });

    it('the consumerGroup of an item is not read', async () => {
        const { queue, batch } = await leased(['a'], { consumerGroup: 'top' });
        const results = await batch.ack([['a', 'completed']], { consumerGroup: 'ignored' });
        assert.equal(results[0].success, true);
        await c.queen.nothing(queue, { consumerGroup: 'top' });
        await c.queen.take(queue, ['a'], { consumerGroup: 'ignored' });
    });

    it('groups have cursors of their own', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b']);
        const one = await c.queen.take(queue, ['a', 'b'], { consumerGroup: 'one' });
        const two = await c.queen.take(queue, ['a', 'b'], { consumerGroup: 'two' });
        await one.complete();
        await two.ack([['a', 'failed']]);
        await c.queen.nothing(queue, { consumerGroup: 'one' });
        await (await c.queen.take(queue, ['a', 'b'], { consumerGroup: 'two' })).complete();
        await c.queen.take(queue, ['a', 'b'], { consumerGroup: 'three' });
    });

    it('unknown keys and nulls are ignored', async () => {
        const { batch } = await leased(['a'], { consumerGroup: 'g' });
        const answer = await c.queen.ackBatch([{ transactionId: 'a', partitionId: batch.partitionId, leaseId: batch.leaseId, status: null, error: null, extra: [1], index: 7 }], 'g');
        assert.deepEqual(answer.json, [{ index: 0, transactionId: 'a', ...RELEASED }]);
    });

    describe('refused with 400', { concurrency: 4 }, () => {
        for (const body of ['', 'nope', '{', '[]', '"x"', '5', 'null', '{"transactionId":5,"partitionId":"x"}', '{"transactionId":"a","partitionId":5}',
            '{"transactionId":"a","partitionId":"x","status":5}', '{"transactionId":"a","partitionId":"x","leaseId":{}}', '{"transactionId":"a","consumerGroup":[]}', '{"transactionId":"a"} x']) {
            it(`single: ${body || 'empty'}`, async () => assertError(await c.queen.post('/api/v1/ack', body), 400));
        }
        for (const body of ['', 'nope', '[', '[]', '"x"', 'null', '{}', '{"acknowledgments":null}', '{"acknowledgments":{}}', '{"acknowledgments":"x"}', '{"acknowledgements":[]}', '{"acknowledgments":[1]}',
            '{"acknowledgments":[null]}', '{"acknowledgments":["x"]}', '{"acknowledgments":[{"transactionId":5}]}', '{"acknowledgments":[{"transactionId":"a","partitionId":"x","status":true}]}', '{"acknowledgments":[],"consumerGroup":1}']) {
            it(`batch: ${body || 'empty'}`, async () => assertError(await c.queen.post('/api/v1/ack/batch', body), 400));
        }

        it('nothing of a refused batch is applied', async () => {
            const { batch } = await leased(['a', 'b']);
            const item = { transactionId: 'a', partitionId: batch.partitionId, leaseId: batch.leaseId };
            assertError(await c.queen.post('/api/v1/ack/batch', { acknowledgments: [item, 7] }), 400);
            assert.deepEqual((await batch.ack([['a', 'completed']]))[0], { index: 0, transactionId: 'a', ...RELEASED, leaseReleased: false }, 'not a noop');
        });
    });

    it('no items: 200 []', async () => {
        const answer = await c.queen.post('/api/v1/ack/batch', '{"acknowledgments":[]}');
        assert.equal(answer.status, 200);
        assert.equal(answer.text, '[]');
    });

    it('200 with an error per item: a partitionId that is no UUID is unresolvable', async () => {
        for (const partitionId of ['17', 'nonsense', "x'; drop table queen.log_consumers; --", '8f1c…', '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a9', '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a9g', 'a\u0000b']) {
            for (const leaseId of [undefined, '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90']) {
                const answer = await c.queen.ack({ transactionId: 't', partitionId, leaseId, status: 'completed' });
                assert.equal(answer.status, 200, answer.text);
                assertAckShape(answer, [{ transactionId: 't' }]);
                assert.deepEqual(answer.json[0], { index: 0, transactionId: 't', success: false, error: ERROR_UNRESOLVABLE, leaseReleased: false, dlq: false, noop: false });
            }
        }
    });

    it('200 with an error per item: unknown partition, unknown transaction, missing partitionId', async () => {
        const unknown = '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90';
        for (const leaseId of [undefined, unknown]) {
            for (const status of ['completed', 'failed', 'dlq', 'retry']) {
                const answer = await c.queen.ack({ transactionId: 't', partitionId: unknown, leaseId, status });
                assert.equal(answer.status, 200);
                assertAckShape(answer, [{ transactionId: 't' }]);
                assert.deepEqual([answer.json[0].success, answer.json[0].leaseReleased, answer.json[0].dlq], [false, false, false]);
            }
        }
        const { queue, batch } = await leased(['a']);
        for (const status of ['completed', 'failed', 'dlq', 'retry']) {
            const [result] = await batch.ack([['never-pushed', status]]);
            assert.deepEqual(result, { index: 0, transactionId: 'never-pushed', success: false, error: ERROR_UNRESOLVABLE, leaseReleased: false, dlq: false, noop: false });
        }
        await c.queen.nothing(queue);
        const missing = await c.queen.ack({ transactionId: 'a', leaseId: batch.leaseId, status: 'completed' });
        assert.ok(missing.status === 400 || (missing.status === 200 && missing.json[0].success === false), missing.text);
        assert.deepEqual((await batch.complete())[0], { index: 0, transactionId: 'a', ...RELEASED }, 'still the lease of this batch');
    });

    it('upper-case partition ids are the same partition', async () => {
        const { batch } = await leased(['a']);
        const answer = await c.queen.ack({ transactionId: 'a', partitionId: batch.partitionId.toUpperCase(), leaseId: batch.leaseId });
        assert.equal(answer.json[0].success, true, answer.text);
    });

    it('acknowledges 10,000 messages in one call', async () => {
        const { queue, batch } = await leased(Array.from({ length: 10000 }, (_, i) => `m${i}`), { batch: 10000 });
        const results = await batch.complete();
        assert.ok(results.every((r) => r.leaseReleased && !r.noop));
        await c.queen.nothing(queue);
    });
});
