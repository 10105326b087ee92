// Transactions as the JavaScript client sends them: leases beside the operations, riders, repeats.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Batch, unique, until, useQueen, UUID } from '../lib/queen.mjs';
import { JsClient } from './javascript.mjs';
import { startRelay } from './relay.mjs';

describe('transactions of the JavaScript client', { concurrency: 4 }, () => {
    const c = useQueen();
    let js;
    before(() => {
        js = new JsClient(c.instance.url);
    });
    const data = (messages) => messages.map((m) => m.data);

    it('acks under requiredLeases and pushes commit together', async () => {
        const from = unique(), to = unique();
        await js.push(from, [1, 2]);
        const messages = await js.pop(from, { batch: 2, consumerGroup: 'g' });
        const answer = await js.transaction().ack(messages, 'completed', { consumerGroup: 'g' }).push(to, ['x', 'y'], { partition: 'p' }).commit();
        assert.match(answer.transactionId, UUID);
        assert.deepEqual(answer.results.map((r) => [r.index, r.type, r.success]), [[0, 'ack', true], [1, 'ack', true], [2, 'push', true], [3, 'push', true]]);
        assert.deepEqual(data(await js.pop(to, { batch: 10 })), ['x', 'y']);
        assert.deepEqual(await js.pop(from, { consumerGroup: 'g' }), []);
    });

    it('messages that were delivered with autoAck name no lease and are acked all the same', async () => {
        const from = unique(), to = unique();
        await js.push(from, [1]);
        const messages = await js.pop(from, { autoAck: true });
        assert.equal(messages[0].leaseId, '');
        assert.equal((await js.transaction().ack(messages).push(to, ['x']).commit()).success, true);
        assert.deepEqual(data(await js.pop(to)), ['x']);
    });

    it('a lease that another consumer took over rolls everything back, with a reason', async () => {
        const from = unique(), to = unique();
        await js.createQueue(from, { leaseTime: 1 });
        await js.push(from, [1]);
        const stale = await js.popAnswer(from, {});
        await new Batch(c.queen, stale).expired();
        const held = await js.pop(from, { wait: true, timeoutMs: 10000 });
        assert.equal(held.length, 1);
        await assert.rejects(js.transaction().ack(stale.messages).push(to, ['never']).commit(), { reason: 'ack_rejected' });
        assert.deepEqual(await js.pop(to), []);
    });

    it('a lost key/value condition is a value, not an exception', async () => {
        const queue = unique(), ns = 'clients', key = unique();
        const once = { op: 'putIfAbsent', ns, key, value: 1, ttlSeconds: 60, required: true };
        assert.equal((await js.transaction().push(queue, ['first']).kv(once).commit()).success, true);
        const lost = await js.transaction().push(queue, ['second']).kv(once).commit();
        assert.deepEqual([lost.success, lost.reason, lost.kvReason, lost.value], [false, 'kv_precondition', 'exists', 1]);
        assert.equal(typeof lost.failedIndex, 'number');
        assert.deepEqual(data(await js.pop(queue, { batch: 10 })), ['first']);
    });

    it('a timer rider is fired after the commit', async () => {
        const queue = unique();
        await js.transaction().push(queue, ['first']).timer(queue, 'later', -1, { timer: true }).commit();
        const got = [];
        await until(async () => {
            got.push(...data(await js.pop(queue, { batch: 10, autoAck: true, wait: true, timeoutMs: 1000 })));
            return got.length >= 2;
        }, 'both messages arrive');
        assert.deepEqual(got, ['first', { timer: true }]);
    });

    it('an operation of an unknown type is 400 with the reason, and nothing is written', async () => {
        const queue = unique(), transaction = js.transaction().push(queue, ['never']);
        transaction.operations.push({ type: 'delete', queue });
        await assert.rejects(transaction.commit(), { status: 400 });
        assert.deepEqual(await js.pop(queue), []);
    });

    describe('sent again', { concurrency: 1 }, () => { // one relay, whose faults are in order
        let relay, relayed;
        before(async () => {
            relay = await startRelay(c.instance.url);
            relayed = new JsClient(relay.url, { retryDelayMs: 10 });
        });
        after(() => relay?.close());

        for (const fault of ['refuse', 'lose', 'cut']) {
            it(`after its answer did not come (${fault}) it takes effect once`, async () => {
                const from = unique(), to = unique();
                await js.push(from, [1]);
                const transaction = relayed.transaction().ack(await js.pop(from)).push(to, ['once']);
                relay.next(fault);
                // The repeat of a transaction that committed is told that its message is there already.
                if (fault === 'refuse') assert.equal((await transaction.commit()).success, true);
                else await assert.rejects(transaction.commit(), (e) => ['duplicate', 'ack_rejected'].includes(e.reason));
                assert.deepEqual(data(await js.pop(to, { batch: 10 })), ['once']);
                assert.deepEqual(await js.pop(from), []);
            });
        }

        it('acks alone, done the first time, are done the second time', async () => {
            const from = unique();
            await js.push(from, [1, 2]);
            const transaction = relayed.transaction().ack(await js.pop(from, { batch: 2 }));
            relay.next('lose');
            const answer = await transaction.commit();
            assert.deepEqual(answer.results.map((r) => [r.success, r.error]), [[true, null], [true, null]]);
            assert.deepEqual(await js.pop(from), []);
        });
    });
});
