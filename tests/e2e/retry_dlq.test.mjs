// The retry budget, dead letters, dropping, and what is recorded with a dead letter.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { unique, useQueen } from './lib/queen.mjs';
import { rawMessages } from './lib/raw_json.mjs';

describe('retry and dlq', { concurrency: 8 }, () => {
    const c = useQueen();
    const make = async (transactionIds, options) => {
        const queue = unique();
        if (options) await c.queen.configure(queue, options);
        await c.queen.push(queue, transactionIds);
        return queue;
    };
    const letters = async (queue) => (await c.queen.dlq({ queue })).json.messages;

    for (const [name, options] of [['an unconfigured queue', undefined], ['a configured queue', {}], ['retryLimit 3', { retryLimit: 3 }]]) {
        it(`${name}: three failures redeliver, the fourth dead-letters`, async () => {
            const queue = await make(['a', 'b'], options);
            for (let attempt = 1; attempt <= 3; attempt++) {
                const batch = await c.queen.take(queue, ['a', 'b']);
                assert.equal(batch.messages[0].deliveryAttempt, attempt);
                const [r] = await batch.ack([['a', 'failed', `try ${attempt}`]]);
                assert.deepEqual([r.success, r.leaseReleased, r.dlq], [true, true, false]);
                assert.deepEqual(await letters(queue), []);
            }
            const batch = await c.queen.take(queue, ['a', 'b']);
            assert.equal(batch.messages[0].deliveryAttempt, 4);
            const [r] = await batch.ack([['a', 'failed', 'try 4']]);
            assert.deepEqual(r, { index: 0, transactionId: 'a', success: true, error: null, leaseReleased: true, dlq: true, noop: false });
            const [letter] = await letters(queue);
            assert.deepEqual([letter.transactionId, letter.errorMessage, letter.retryCount], ['a', 'try 4', 3]);
            const rest = await c.queen.take(queue, ['b']);
            assert.equal(rest.messages[0].deliveryAttempt, 1);
            await rest.complete();
            await c.queen.nothing(queue);
        });
    }

    it('retryLimit 0: the first failure dead-letters', async () => {
        const queue = await make(['a', 'b'], { retryLimit: 0 });
        const [r] = await (await c.queen.take(queue, ['a', 'b'])).ack([['a', 'failed']]);
        assert.deepEqual([r.success, r.leaseReleased, r.dlq], [true, true, true]);
        const [letter] = await letters(queue);
        assert.deepEqual([letter.transactionId, letter.errorMessage, letter.retryCount], ['a', 'Retries exhausted', 0]);
        await c.queen.take(queue, ['b']);
    });

    it('the budget is charged once per call, however many nacks it carries', async () => {
        const queue = await make(['a', 'b', 'c'], { retryLimit: 1 });
        const results = await (await c.queen.take(queue, ['a', 'b', 'c'])).ack([['a', 'failed'], ['b', 'failed'], ['c', 'failed']]);
        assert.ok(results.every((r) => r.success && r.leaseReleased && !r.dlq));
        const again = await (await c.queen.take(queue, ['a', 'b', 'c'])).ack([['a', 'failed'], ['b', 'failed'], ['c', 'failed']]);
        assert.deepEqual(again.map((r) => [r.success, r.dlq]), [[true, true], [true, false], [true, false]], 'dlq on the poison only');
        assert.deepEqual((await letters(queue)).map((l) => l.transactionId), ['a']);
        await c.queen.take(queue, ['b', 'c']);
    });

    it('retry and expiry never charge the budget', async () => {
        const queue = await make(['a'], { retryLimit: 1 });
        for (let i = 0; i < 4; i++) assert.equal((await (await c.queen.take(queue, ['a'])).ack([['a', 'retry']]))[0].dlq, false);
        const lost = await c.queen.take(queue, ['a'], { leaseSeconds: 1 });
        await lost.expired();
        const [first] = await (await c.queen.take(queue, ['a'])).ack([['a', 'failed']]);
        assert.equal(first.dlq, false, 'the budget of one was still whole');
        const [second] = await (await c.queen.take(queue, ['a'])).ack([['a', 'failed']]);
        assert.equal(second.dlq, true);
    });

    it('a partial completed ack does not reset the budget, a completed batch does', async () => {
        const queue = await make(['a', 'b'], { retryLimit: 1 });
        await (await c.queen.take(queue, ['a', 'b'])).ack([['a', 'completed'], ['b', 'failed']]);
        assert.equal((await (await c.queen.take(queue, ['b'])).complete())[0].leaseReleased, true);
        await c.queen.push(queue, ['c', 'd']);
        const batch = await c.queen.take(queue, ['c', 'd']);
        assert.equal((await batch.ack([['c', 'failed']]))[0].dlq, false, 'fresh budget');
        const again = await c.queen.take(queue, ['c', 'd']);
        await again.ack([['c', 'completed']]);
        assert.equal((await again.ack([['d', 'failed']]))[0].dlq, true, 'spent: one budget per partition and group');
    });

    it('a dead letter leaves a fresh budget for the next message', async () => {
        const queue = await make(['a', 'b'], { retryLimit: 1 });
        await (await c.queen.take(queue, ['a', 'b'])).ack([['a', 'failed']]);
        assert.equal((await (await c.queen.take(queue, ['a', 'b'])).ack([['a', 'failed']]))[0].dlq, true);
        assert.equal((await (await c.queen.take(queue, ['b'])).ack([['b', 'failed']]))[0].dlq, false);
        assert.equal((await (await c.queen.take(queue, ['b'])).ack([['b', 'failed']]))[0].dlq, true);
        assert.deepEqual((await letters(queue)).map((l) => l.transactionId).sort(), ['a', 'b']);
    });

    it('dlq: at once, in the middle of a batch, with what is before it completed', async () => {
        const queue = await make(['a', 'b', 'c', 'd']);
        const results = await (await c.queen.take(queue, ['a', 'b', 'c', 'd'])).ack([['a', 'completed'], ['c', 'dlq', 'poison'], ['d', 'completed']]);
        assert.deepEqual(results.map((r) => [r.success, r.leaseReleased, r.dlq]), [[true, true, false], [true, true, true], [true, true, false]]);
        const [letter] = await letters(queue);
        assert.deepEqual([letter.transactionId, letter.errorMessage, letter.retryCount], ['c', 'poison', 0]);
        await (await c.queen.take(queue, ['d'])).complete();
        await c.queen.nothing(queue);
    });

    it('dlq of the last message finishes the batch', async () => {
        const queue = await make(['a', 'b']);
        await (await c.queen.take(queue, ['a', 'b'])).ack([['b', 'dlq']]);
        await c.queen.nothing(queue);
    });

    for (const options of [{ deadLetterQueue: false }, { dlqAfterMaxRetries: false }, { deadLetterQueue: true, dlqAfterMaxRetries: false }, { deadLetterQueue: null, dlqAfterMaxRetries: false }]) {
        it(`one flag off keeps dead-lettering on: ${JSON.stringify(options)}`, async () => {
            const queue = await make(['a'], { retryLimit: 0, ...options });
            assert.equal((await (await c.queen.take(queue, ['a'])).ack([['a', 'failed']]))[0].dlq, true);
            assert.equal((await letters(queue)).length, 1);
        });
    }

    it('both flags off: an exhausted message is dropped', async () => {
        const queue = await make(['a', 'b', 'c'], { retryLimit: 1, deadLetterQueue: false, dlqAfterMaxRetries: false });
        assert.equal((await (await c.queen.take(queue, ['a', 'b', 'c'])).ack([['a', 'completed'], ['b', 'failed']]))[0].success, true);
        const [b] = await (await c.queen.take(queue, ['b', 'c'])).ack([['b', 'failed', 'gone']]);
        assert.deepEqual(b, { index: 0, transactionId: 'b', success: true, error: null, leaseReleased: true, dlq: false, noop: false });
        assert.deepEqual(await letters(queue), []);
        const rest = await c.queen.take(queue, ['c']);
        assert.equal((await rest.ack([['c', 'failed']]))[0].leaseReleased, true);
        await c.queen.take(queue, ['c'], {}, {});
    });

    it('both flags off: an explicit dlq still dead-letters', async () => {
        const queue = await make(['a'], { deadLetterQueue: false, dlqAfterMaxRetries: false });
        assert.equal((await (await c.queen.take(queue, ['a'])).ack([['a', 'dlq']]))[0].dlq, true);
        assert.equal((await letters(queue)).length, 1);
    });

    describe('the reason', { concurrency: 4 }, () => {
        const reason = async (marks) => {
            const queue = await make(['a', 'b', 'c'], { retryLimit: 0 });
            await (await c.queen.take(queue, ['a', 'b', 'c'])).ack(marks);
            const [letter] = await letters(queue);
            assert.equal(letter.transactionId, 'a');
            return letter.errorMessage;
        };
        it('is the one of the poison message', async () => {
            assert.equal(await reason([['b', 'failed', 'of b'], ['a', 'failed', 'of a'], ['c', 'failed', 'of c']]), 'of a');
        });
        it('else the first that was given', async () => {
            assert.equal(await reason([['a', 'failed'], ['c', 'failed', 'of c'], ['b', 'failed', 'of b']]), 'of c');
            assert.equal(await reason([['a', 'failed', null], ['b', 'failed', ''], ['c', 'retry', 'of c']]), 'of c');
        });
        it('else Retries exhausted', async () => {
            assert.equal(await reason([['a', 'failed'], ['b', 'failed']]), 'Retries exhausted');
            assert.equal(await reason([['a', 'dlq']]), 'Retries exhausted');
        });
        it('keeps any text', async () => {
            const text = 'stack\n\tat "x" <é\ud83d\ude00> \\ \u0001';
            assert.equal(await reason([['a', 'dlq', text]]), text);
        });
        it('with NUL does not stop the filing', async () => {
            const kept = await reason([['a', 'dlq', 'a\u0000b']]);
            assert.match(kept, /^a/);
        });
    });

    it('snapshots any payload byte for byte, and files what jsonb could not hold', async () => {
        const payloads = ['"\\u0000"', '{"a":1,"a":2}', '12345678901234567890123', '1e400', '1.0', 'null', '"\\ud800"', '{ "spaced" : [ ] }', '"\u00e9\\u0041"'];
        const queue = unique();
        await c.queen.post('/api/v1/push', `{"items":[${payloads.map((p, i) => `{"queue":"${queue}","transactionId":"t${i}","payload":${p}}`)}]}`);
        for (let i = 0; i < payloads.length; i++) {
            const answer = await c.queen.pop(queue, { batch: 1 });
            const [m] = answer.json.messages;
            const acked = await c.queen.ack({ transactionId: m.transactionId, partitionId: m.partitionId, leaseId: m.leaseId, status: 'dlq' });
            assert.deepEqual([acked.json[0].success, acked.json[0].dlq], [true, true], acked.text);
        }
        await c.queen.nothing(queue);
        const listed = await c.queen.dlq({ queue });
        const ids = listed.json.messages.map((m) => m.transactionId);
        const datas = rawMessages(listed.body);
        for (const [i, payload] of payloads.entries()) {
            assert.equal(datas[ids.indexOf(`t${i}`)], Buffer.from(payload).toString('latin1'));
        }
    });

    it('a poison in the middle of a segment, cut by batches: the right frame is filed', async () => {
        const queue = await make(['a', 'b', 'c', 'd', 'e']);
        await (await c.queen.take(queue, ['a', 'b'], { batch: 2 })).complete();
        await (await c.queen.take(queue, ['c', 'd'], { batch: 2 })).ack([['d', 'dlq']]);
        const [letter] = await letters(queue);
        assert.deepEqual([letter.transactionId, letter.data], ['d', { t: 'd' }]);
        await c.queen.take(queue, ['e']);
    });

    it('a transaction id with NUL can be dead-lettered', async () => {
        const queue = await make(['a\u0000b', 'c']);
        assert.equal((await (await c.queen.take(queue, ['a\u0000b', 'c'])).ack([['a\u0000b', 'dlq']]))[0].dlq, true);
        assert.equal((await letters(queue)).length, 1);
        await c.queen.take(queue, ['c']);
    });

    it('a poison message whose segment is gone is filed without payload instead of redelivering for ever', async () => {
        const queue = await make(['a']);
        const batch = await c.queen.take(queue, ['a']);
        await c.instance.psql(`delete from queen.log_segments where partition_id = '${batch.partitionId}'`);
        const [r] = await batch.ack([['a', 'dlq', 'why']]);
        assert.deepEqual([r.success, r.leaseReleased, r.dlq], [true, true, true]);
        const [letter] = await letters(queue);
        assert.deepEqual([letter.data, letter.errorMessage], [null, 'why']);
        await c.queen.nothing(queue);
    });

    it('a dead letter of one group is none of another', async () => {
        const queue = await make(['a']);
        await (await c.queen.take(queue, ['a'], { consumerGroup: 'one' })).ack([['a', 'dlq']]);
        await (await c.queen.take(queue, ['a'], { consumerGroup: 'two' })).complete();
        assert.deepEqual((await letters(queue)).map((l) => l.consumerGroup), ['one']);
    });

    it('a changed retryLimit counts at the next nack', async () => {
        const queue = await make(['a'], { retryLimit: 10 });
        await (await c.queen.take(queue, ['a'])).ack([['a', 'failed']]);
        await c.queen.configure(queue, { retryLimit: 1 });
        assert.equal((await (await c.queen.take(queue, ['a'])).ack([['a', 'failed']]))[0].dlq, true);
    });
});
