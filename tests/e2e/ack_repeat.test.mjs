// The same ack again, because its reply was lost: answered as the first one was, applied once.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERROR_LEASE, unique, useQueen } from './lib/queen.mjs';

describe('ack repeat', { concurrency: 8 }, () => {
    const c = useQueen();
    const leased = async (transactionIds, { options, ...parameters } = {}) => {
        const queue = unique();
        if (options) await c.queen.configure(queue, options);
        await c.queen.push(queue, transactionIds);
        return { queue, batch: await c.queen.take(queue, transactionIds.slice(0, parameters.batch), parameters) };
    };
    const repeatable = {
        'the whole batch completed': [['a', 'completed'], ['b', 'completed'], ['c', 'completed']],
        'only the last completed': [['c', 'completed']],
        'completed, then a nack': [['a', 'completed'], ['b', 'failed'], ['c', 'completed']],
        'retry of the first': [['a', 'retry']],
        'a dead letter': [['a', 'completed'], ['b', 'dlq', 'poison']],
    };

    for (const [name, marks] of Object.entries(repeatable)) {
        it(`is answered as the first: ${name}`, async () => {
            const { queue, batch } = await leased(['a', 'b', 'c']);
            const first = await batch.ack(marks);
            assert.ok(first.every((r) => r.success && r.leaseReleased), JSON.stringify(first));
            for (let i = 0; i < 3; i++) assert.deepEqual(await batch.ack(marks), first);
            assert.equal((await c.queen.dlq({ queue })).json.messages.length, name === 'a dead letter' ? 1 : 0);
        });
    }

    it('holds after a partial ack, too', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c']);
        await batch.ack([['a', 'completed']]);
        const marks = [['b', 'completed'], ['c', 'completed']];
        const first = await batch.ack(marks);
        assert.ok(first.every((r) => r.success && r.leaseReleased && !r.noop));
        assert.deepEqual(await batch.ack(marks), first);
        await c.queen.nothing(queue);
    });

    it('a repeated nack charges the budget once', async () => {
        const { queue, batch } = await leased(['a'], { options: { retryLimit: 2 } });
        for (let i = 0; i < 5; i++) assert.deepEqual((await batch.ack([['a', 'failed']])).map((r) => [r.success, r.dlq]), [[true, false]]);
        const second = await c.queen.take(queue, ['a']);
        assert.equal((await second.ack([['a', 'failed']]))[0].dlq, false, 'one unit was left');
        const third = await c.queen.take(queue, ['a']);
        assert.equal((await third.ack([['a', 'failed']]))[0].dlq, true);
    });

    it('many at once are all answered as one', async () => {
        const { queue, batch } = await leased(['a', 'b']);
        const results = await Promise.all(Array.from({ length: 20 }, () => batch.complete()));
        for (const r of results.flat()) assert.deepEqual([r.success, r.error, r.leaseReleased], [true, null, true]);
        await c.queen.nothing(queue);
    });

    it('moves nothing of what came after', async () => {
        const { queue, batch } = await leased(['a', 'b', 'c', 'd'], { batch: 2 });
        const marks = [['a', 'completed'], ['b', 'completed']];
        await batch.ack(marks);
        await batch.ack(marks);
        const next = await c.queen.take(queue, ['c', 'd']);
        await next.ack([['c', 'completed']]);
        await batch.ack(marks);
        assert.deepEqual((await next.ack([['d', 'completed']])).map((r) => [r.success, r.leaseReleased, r.noop]), [[true, true, false]]);
        await c.queen.nothing(queue);
    });

    it('is not for another lease', async () => {
        const { batch } = await leased(['a', 'b']);
        await batch.complete();
        const results = await batch.ack([['a', 'completed'], ['b', 'completed']], { leaseId: '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90' });
        assert.deepEqual(results.map((r) => [r.success, r.error]), [[false, ERROR_LEASE], [false, ERROR_LEASE]]);
    });

    it('is not for a signal on what the released lease had completed', async () => {
        const { queue, batch } = await leased(['a', 'b']);
        await batch.complete();
        for (const status of ['failed', 'retry', 'dlq']) {
            const [result] = await batch.ack([['a', status]]);
            assert.equal(result.success, false, `${status} cannot be honoured`);
        }
        assert.deepEqual((await c.queen.dlq({ queue })).json.messages, []);
        await c.queen.nothing(queue);
    });

    it('is not for a completed ack on what the released lease had nacked', async () => {
        const { queue, batch } = await leased(['a', 'b']);
        await batch.ack([['a', 'failed']]);
        const [result] = await batch.ack([['b', 'completed']]);
        assert.equal(result.success, false, 'the cursor is still before a');
        await c.queen.take(queue, ['a', 'b']);
    });

    it('is refused for a lease that expired instead of being released', async () => {
        const { queue, batch } = await leased(['a'], { leaseSeconds: 1 });
        await batch.expired();
        for (let i = 0; i < 2; i++) assert.deepEqual((await batch.ack([['a', 'completed']])).map((r) => r.error), [ERROR_LEASE]);
        await (await c.queen.take(queue, ['a'])).complete();
        assert.equal((await batch.ack([['a', 'failed']]))[0].success, false);
    });
});
