// The two honesty guarantees: a signal is never skipped, and an ack that cannot act says so.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERROR_COMMITTED, ERROR_UNRESOLVABLE, unique, useQueen } from './lib/queen.mjs';

const ok = (r) => [r.success, r.error, r.noop];

describe('ack honesty', { concurrency: 8 }, () => {
    const c = useQueen();
    const leased = async (transactionIds, { options, ...parameters } = {}) => {
        const queue = unique();
        if (options) await c.queen.configure(queue, options);
        await c.queen.push(queue, transactionIds);
        return { queue, batch: await c.queen.take(queue, transactionIds.slice(0, parameters.batch), parameters) };
    };

    it('m1 completed, m2 failed, m3 and m4 completed: commits past m1 only', async () => {
        const { queue, batch } = await leased(['m1', 'm2', 'm3', 'm4']);
        const results = await batch.ack([['m1', 'completed'], ['m2', 'failed'], ['m3', 'completed'], ['m4', 'completed']]);
        assert.deepEqual(results.map(ok), Array(4).fill([true, null, false]));
        assert.ok(results.every((r) => r.leaseReleased && !r.dlq));
        await (await c.queen.take(queue, ['m2', 'm3', 'm4'])).complete();
        await c.queen.nothing(queue);
    });

    for (const status of ['failed', 'retry']) {
        it(`${status} clamps wherever it stands in the request`, async () => {
            const { queue, batch } = await leased(['m1', 'm2', 'm3', 'm4', 'm5']);
            await batch.ack([['m5', 'completed'], ['m4', 'completed'], ['m3', status], ['m2', 'completed']]);
            await c.queen.take(queue, ['m3', 'm4', 'm5']);
        });

        it(`${status} of the first message keeps the cursor, even when all others completed`, async () => {
            const { queue, batch } = await leased(['m1', 'm2', 'm3']);
            await batch.ack([['m1', status], ['m2', 'completed'], ['m3', 'completed']]);
            await c.queen.take(queue, ['m1', 'm2', 'm3']);
        });

        it(`${status} alone: a gap below it is not completed by silence`, async () => {
            const { queue, batch } = await leased(['m1', 'm2', 'm3']);
            await batch.ack([['m2', status]]);
            await c.queen.take(queue, ['m1', 'm2', 'm3']);
        });

        it(`${status} with a gap: the highest completed below the signal is the cursor`, async () => {
            const { queue, batch } = await leased(['m1', 'm2', 'm3', 'm4', 'm5', 'm6']);
            await batch.ack([['m2', 'completed'], ['m5', status], ['m6', 'completed']]);
            await c.queen.take(queue, ['m3', 'm4', 'm5', 'm6']);
        });
    }

    it('acking the last message completes the batch', async () => {
        const ids = Array.from({ length: 10 }, (_, i) => `${100 + i}`);
        const { queue, batch } = await leased(ids);
        const [result] = await batch.ack([['109', 'completed']]);
        assert.deepEqual(result, { index: 0, transactionId: '109', success: true, error: null, leaseReleased: true, dlq: false, noop: false });
        await c.queen.nothing(queue);
        await c.queen.push(queue, ['110']);
        await c.queen.take(queue, ['110']);
    });

    it('acking a message in the middle completes everything before it', async () => {
        const { queue, batch } = await leased(['m1', 'm2', 'm3', 'm4']);
        const [third] = await batch.ack([['m3', 'completed']]);
        assert.equal(third.leaseReleased, false);
        const late = await batch.ack([['m1', 'completed'], ['m2', 'completed']]);
        assert.deepEqual(late.map(ok), [[true, null, true], [true, null, true]]);
        await batch.ack([['m4', 'retry']]);
        await c.queen.take(queue, ['m4']);
    });

    it('the lowest signal decides, not the strongest', async () => {
        const lower = await leased(['m1', 'm2', 'm3'], { options: { retryLimit: 0 } });
        const results = await lower.batch.ack([['m1', 'completed'], ['m2', 'retry'], ['m3', 'dlq']]);
        assert.ok(results.every((r) => r.success && !r.dlq), JSON.stringify(results));
        await c.queen.take(lower.queue, ['m2', 'm3']);
        assert.deepEqual((await c.queen.dlq({ queue: lower.queue })).json.messages, []);
        const upper = await leased(['m1', 'm2', 'm3']);
        const other = await upper.batch.ack([['m1', 'dlq'], ['m2', 'retry'], ['m3', 'failed']]);
        assert.deepEqual(other.map((r) => [r.success, r.dlq]), [[true, true], [true, false], [true, false]]);
        await c.queen.take(upper.queue, ['m2', 'm3']);
    });

    describe('at one message dlq beats failed beats retry beats completed', { concurrency: 4 }, () => {
        /* With a budget of 1: dlq dead-letters now, failed charges (the next failed dead-letters), retry does not. */
        const effect = async (statuses) => {
            const { queue, batch } = await leased(['a', 'b'], { options: { retryLimit: 1 } });
            const results = await batch.ack(statuses.map((s) => ['a', s]));
            assert.ok(results.every((r) => r.success && r.leaseReleased), JSON.stringify(results));
            if (results.some((r) => r.dlq)) {
                await c.queen.take(queue, ['b']);
                return 'dlq';
            }
            const again = await c.queen.take(queue, ['a', 'b']);
            return (await again.ack([['a', 'failed']]))[0].dlq ? 'failed' : 'retry';
        };
        const cases = [
            [['failed', 'dlq'], 'dlq'], [['dlq', 'failed'], 'dlq'], [['retry', 'dlq'], 'dlq'], [['dlq', 'retry', 'failed'], 'dlq'], [['completed', 'dlq'], 'dlq'],
            [['retry', 'failed'], 'failed'], [['failed', 'retry'], 'failed'], [['failed', 'completed'], 'failed'], [['completed', 'retry', 'failed'], 'failed'],
            [['retry', 'completed'], 'retry'], [['completed', 'retry'], 'retry'],
        ];
        for (const [statuses, expected] of cases) {
            it(`${statuses.join(' + ')} is ${expected}`, async () => assert.equal(await effect(statuses), expected));
        }
    });

    describe('an ack that cannot act is reported', { concurrency: 4 }, () => {
        it('completed at or below the cursor: success, noop', async () => {
            const { batch } = await leased(['a', 'b', 'c']);
            await batch.ack([['b', 'completed']]);
            const results = await batch.ack([['a', 'completed'], ['b', 'ok']]);
            assert.deepEqual(results.map(ok), [[true, null, true], [true, null, true]]);
            assert.ok(results.every((r) => !r.leaseReleased && !r.dlq));
        });

        for (const status of ['failed', 'retry', 'dlq']) {
            it(`${status} at or below the cursor: already committed, and nothing happens`, async () => {
                const { queue, batch } = await leased(['a', 'b', 'c'], { options: { retryLimit: 0 } });
                await batch.ack([['b', 'completed']]);
                for (const t of ['a', 'b']) {
                    const [result] = await batch.ack([[t, status]]);
                    assert.deepEqual(result, { index: 0, transactionId: t, success: false, error: ERROR_COMMITTED, leaseReleased: false, dlq: false, noop: false });
                }
                await c.queen.nothing(queue);
                assert.deepEqual((await c.queen.dlq({ queue })).json.messages, []);
                assert.equal((await batch.ack([['c', 'completed']]))[0].leaseReleased, true);
                await c.queen.nothing(queue);
            });
        }

        it('above the leased span: unresolvable, the cursor does not move', async () => {
            const { queue, batch } = await leased(['a', 'b', 'c', 'd'], { batch: 2 });
            for (const status of ['completed', 'failed', 'retry', 'dlq']) {
                const results = await batch.ack([['c', status], ['d', status]]);
                assert.deepEqual(results.map(ok), [[false, ERROR_UNRESOLVABLE, false], [false, ERROR_UNRESOLVABLE, false]]);
                assert.ok(results.every((r) => !r.leaseReleased && !r.dlq));
            }
            await batch.complete();
            await c.queen.take(queue, ['c', 'd']);
        });

        it('never pushed, next to good ones: reported alone, the others count', async () => {
            const { queue, batch } = await leased(['a', 'b', 'c']);
            const results = await batch.ack([['ghost', 'failed'], ['b', 'completed'], ['phantom', 'completed']]);
            assert.deepEqual(results.map(ok), [[false, ERROR_UNRESOLVABLE, false], [true, null, false], [false, ERROR_UNRESOLVABLE, false]]);
            await batch.ack([['c', 'retry']]);
            await c.queen.take(queue, ['c']);
        });

        it('a mixed call: noop, stale, unresolvable and effective items each say so', async () => {
            const { queue, batch } = await leased(['a', 'b', 'c', 'd', 'e']);
            await batch.ack([['b', 'completed']]);
            const results = await batch.ack([['a', 'completed'], ['b', 'failed'], ['ghost', 'dlq'], ['c', 'completed'], ['d', 'retry'], ['e', 'completed']]);
            assert.deepEqual(results.map(ok), [[true, null, true], [false, ERROR_COMMITTED, false], [false, ERROR_UNRESOLVABLE, false],
                [true, null, false], [true, null, false], [true, null, false]]);
            await c.queen.take(queue, ['d', 'e']);
        });

        it('purged hash rows: unresolvable, and the message redelivers', async () => {
            const { queue, batch } = await leased(['a', 'b']);
            await c.instance.psql(`delete from queen.log_txns where partition_id = '${batch.partitionId}'`);
            await c.instance.psql(`update queen.log_partitions set txns_start = last_offset + 1 where id = '${batch.partitionId}'`);
            const results = await batch.ack([['a', 'completed'], ['b', 'failed']]);
            assert.deepEqual(results.map(ok), [[false, ERROR_UNRESOLVABLE, false], [false, ERROR_UNRESOLVABLE, false]]);
            await c.queen.nothing(queue);
        });
    });

    it('an id pushed again below the cursor does not shadow the copy being acked', async () => {
        const { queue, batch } = await leased(['a', 'b'], { options: { dedupWindowSeconds: 0 } });
        await batch.complete();
        await c.queen.push(queue, ['a', 'c']);
        const second = await c.queen.take(queue, ['a', 'c']);
        const [a] = await second.ack([['a', 'completed']]);
        assert.deepEqual([a.success, a.noop, a.leaseReleased], [true, false, false]);
        await second.ack([['c', 'retry']]);
        await c.queen.take(queue, ['c']);
    });

    it('works across segment borders and in the middle of segments', async () => {
        const queue = unique();
        for (const part of [['a1', 'a2', 'a3'], ['b1', 'b2'], ['c1', 'c2', 'c3', 'c4']]) await c.queen.push(queue, part);
        await (await c.queen.take(queue, ['a1', 'a2'], { batch: 2 })).complete();
        const batch = await c.queen.take(queue, ['a3', 'b1', 'b2', 'c1', 'c2'], { batch: 5 });
        const results = await batch.ack([['a3', 'completed'], ['b1', 'completed'], ['c1', 'failed'], ['c2', 'completed'], ['c3', 'completed'], ['a2', 'completed']]);
        assert.deepEqual(results.map(ok), [[true, null, false], [true, null, false], [true, null, false], [true, null, false], [false, ERROR_UNRESOLVABLE, false], [true, null, true]]);
        await c.queen.take(queue, ['b2', 'c1', 'c2', 'c3', 'c4']);
    });
});
