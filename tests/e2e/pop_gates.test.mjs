// delayedProcessing and windowBuffer: what they hold back, and that nothing is held back for ever.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sleep, unique, until, useQueen } from './lib/queen.mjs';

const age = (message) => Date.now() - Date.parse(message.createdAt);
const ids = (answer) => answer.json.messages.map((m) => m.transactionId);

describe('pop gates', { concurrency: 8 }, () => {
    const c = useQueen();
    const routes = {
        queue: (queue, parameters) => c.queen.pop(queue, parameters),
        pinned: (queue, parameters) => c.queen.popPartition(queue, 'Default', parameters),
        discovery: (queue, parameters) => c.queen.popDiscover({ namespace: queue, ...parameters }),
    };

    for (const [route, pop] of Object.entries(routes)) {
        it(`delayedProcessing holds messages until they are old enough (${route} route)`, async () => {
            const queue = unique();
            await c.queen.configure(queue, { delayedProcessing: 3 }, { namespace: queue });
            await c.queen.push(queue, ['a', 'b']);
            assert.equal((await pop(queue, {})).status, 204);
            const answer = await pop(queue, { wait: true, timeout: 20000 });
            assert.equal(answer.status, 200, 'the poll is woken by the end of the delay');
            assert.deepEqual(ids(answer), ['a', 'b']);
            assert.ok(age(answer.json.messages[0]) >= 3000, `delivered at the age of ${age(answer.json.messages[0])} ms`);
        });

        it(`windowBuffer holds a partition until it is quiet (${route} route)`, async () => {
            const queue = unique();
            await c.queen.configure(queue, { windowBuffer: 3 }, { namespace: queue });
            await c.queen.push(queue, ['a']);
            assert.equal((await pop(queue, {})).status, 204);
            const answer = await pop(queue, { wait: true, timeout: 20000 });
            assert.equal(answer.status, 200, 'the poll is woken by the end of the window');
            assert.deepEqual(ids(answer), ['a']);
            assert.ok(age(answer.json.messages[0]) >= 3000, `delivered at the age of ${age(answer.json.messages[0])} ms`);
        });
    }

    it('delayedProcessing looks at each segment: older ones go, younger ones stay', async () => {
        const queue = unique();
        await c.queen.push(queue, ['old1', 'old2']);
        await c.queen.configure(queue, { delayedProcessing: 4 });
        await c.queen.nothing(queue);
        await sleep(4500);
        await c.queen.push(queue, ['young']);
        const batch = await c.queen.take(queue, ['old1', 'old2']);
        await batch.complete();
        const rest = await c.queen.take(queue, ['young'], {}, { waitMs: 20000 });
        assert.ok(age(rest.messages[0]) >= 4000);
    });

    it('a poll that waits before the push is served when the delay ends', async () => {
        const queue = unique();
        await c.queen.configure(queue, { delayedProcessing: 2 });
        const poll = c.queen.pop(queue, { wait: true, timeout: 25000 });
        await sleep(500);
        await c.queen.push(queue, ['a']);
        const answer = await poll;
        assert.equal(answer.status, 200);
        assert.ok(age(answer.json.messages[0]) >= 2000);
    });

    it('a nacked message does not wait for the delay again', async () => {
        const queue = unique();
        await c.queen.configure(queue, { delayedProcessing: 2 });
        await c.queen.push(queue, ['a']);
        const batch = await c.queen.take(queue, ['a'], {}, { waitMs: 20000 });
        await batch.ack([['a', 'retry']]);
        await c.queen.take(queue, ['a']);
    });

    it('windowBuffer gathers what is pushed in the window into one batch', async () => {
        const queue = unique();
        await c.queen.configure(queue, { windowBuffer: 3 });
        for (const t of ['a', 'b', 'c']) await c.queen.push(queue, [t]);
        await c.queen.take(queue, ['a', 'b', 'c'], {}, { waitMs: 20000 });
    });

    it('windowBuffer does not starve a partition that is written all the time', async () => {
        const queue = unique();
        await c.queen.configure(queue, { windowBuffer: 2 });
        let stop = false, pushed = 0;
        const writer = (async () => {
            while (!stop) {
                await c.queen.push(queue, [`m${pushed}`]);
                pushed++;
                await sleep(400);
            }
        })();
        try {
            const answer = await c.queen.pop(queue, { wait: true, timeout: 20000 });
            assert.equal(answer.status, 200, `nothing delivered while ${pushed} messages were written without a pause`);
            assert.equal(ids(answer)[0], 'm0');
            assert.ok(age(answer.json.messages[0]) >= 1900, 'but not before the window of the first message ended');
            assert.ok(pushed < 90, 'the 100-message rule was not needed');
        } finally {
            stop = true;
            await writer;
        }
    });

    it('windowBuffer gives way at once when 100 messages have gathered', async () => {
        const queue = unique();
        await c.queen.configure(queue, { windowBuffer: 300 });
        await c.queen.push(queue, Array.from({ length: 99 }, (_, i) => `m${i}`));
        await c.queen.nothing(queue);
        await c.queen.push(queue, ['m99']);
        const answer = await c.queen.pop(queue, { wait: true, timeout: 10000 });
        assert.equal(answer.status, 200);
        assert.equal(answer.json.messages.length, 100);
    });

    it('the gates look at one partition each', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a'], 'quiet');
        await c.queen.configure(queue, { windowBuffer: 4 });
        await sleep(4500);
        await c.queen.push(queue, ['b'], 'busy');
        await c.queen.take(queue, ['a'], { partitions: 10 });
        await c.queen.nothing(queue, { partitions: 10 });
        await c.queen.take(queue, ['b'], { partitions: 10 }, { waitMs: 20000 });
    });

    it('switching a gate off lets messages through at once', async () => {
        const queue = unique();
        await c.queen.configure(queue, { delayedProcessing: 3600 });
        await c.queen.push(queue, ['a']);
        await c.queen.nothing(queue);
        await c.queen.configure(queue, { delayedProcessing: 0 });
        await until(async () => (await c.queen.pop(queue)).status === 200, 'delivered after the change', 10000);
    });

    it('a parked poll of a windowBuffer queue is served at the 100th message', async () => {
        const queue = unique();
        await c.queen.configure(queue, { windowBuffer: 300 });
        await c.queen.push(queue, Array.from({ length: 60 }, (_, i) => `m${i}`));
        await c.queen.nothing(queue);
        const polls = [c.queen.pop(queue, { wait: true, timeout: 60000 }), c.queen.pop(queue, { wait: true, timeout: 60000, consumerGroup: 'other' })];
        await sleep(300);
        await c.queen.push(queue, Array.from({ length: 39 }, (_, i) => `n${i}`));
        await c.queen.nothing(queue);
        await c.queen.push(queue, ['last']);
        const served = Date.now();
        for (const answer of await Promise.all(polls)) {
            assert.equal(answer.status, 200);
            assert.equal(answer.json.messages.length, 100);
        }
        assert.ok(Date.now() - served < 30000, 'the window would have lasted for 300 s');
    });

    describe('minPopWaitTime', { concurrency: 8 }, () => {
        /* claimable at T, served at the earliest at T + option, by the clock of the database */
        const waited = async (queue) => Number(await c.queen.instance.psql(
            `select round(1000 * extract(epoch from c.lease_acquired_at - s.created_at)) from queen.queues q
             join queen.log_partitions p on p.queue_id = q.id join queen.log_consumers c on c.partition_id = p.id
             join queen.log_segments s on s.partition_id = p.id where q.name = '${queue}' order by s.base_offset limit 1`));

        it('holds an under-full claim back for that long, and delivers what has gathered', async () => {
            const queue = unique();
            await c.queen.configure(queue, { minPopWaitTime: 3000 });
            const poll = c.queen.pop(queue, { wait: true, timeout: 30000, batch: 10 });
            for (const t of ['a', 'b', 'c']) await c.queen.push(queue, [t]);
            assert.deepEqual(ids(await poll), ['a', 'b', 'c']);
            const ms = await waited(queue);
            assert.ok(ms >= 2999, `served after ${ms} ms`);
        });

        it('serves at once when the batch is full', async () => {
            const queue = unique();
            await c.queen.configure(queue, { minPopWaitTime: 60000 });
            const poll = c.queen.pop(queue, { wait: true, timeout: 50000, batch: 3 });
            await c.queen.push(queue, ['a']);
            await sleep(300);
            await c.queen.push(queue, ['b', 'c']);
            assert.deepEqual(ids(await poll), ['a', 'b', 'c']);
            assert.ok(await waited(queue) < 30000);
        });

        it('never holds beyond the deadline of the caller', async () => {
            const queue = unique();
            await c.queen.configure(queue, { minPopWaitTime: 60000 });
            await c.queen.push(queue, ['a', 'b']);
            assert.deepEqual(ids(await c.queen.pop(queue, { wait: true, timeout: 2000, batch: 10 })), ['a', 'b']);
        });

        it('a caller that must be answered earlier is not held behind one with more time', async () => {
            const queue = unique();
            await c.queen.configure(queue, { minPopWaitTime: 60000 });
            await c.queen.push(queue, ['a']);
            const before = c.queen.pop(queue, { wait: true, timeout: 8000, batch: 10 });
            await sleep(200);
            const hurried = c.queen.pop(queue, { wait: true, timeout: 3000, batch: 10 });
            await sleep(200);
            const after = c.queen.pop(queue, { wait: true, timeout: 8000, batch: 10 });
            assert.deepEqual(ids(await hurried), ['a']);
            for (const poll of [before, after]) assert.equal((await poll).status, 204);
        });

        it('concerns only wait=true, batch > 1, on the queue route', async () => {
            for (const pop of [
                (q) => c.queen.pop(q, { batch: 10 }),
                (q) => c.queen.pop(q, { wait: true, timeout: 50000, batch: 1 }),
                (q) => c.queen.popPartition(q, 'Default', { wait: true, timeout: 50000, batch: 10 }),
                (q) => c.queen.popDiscover({ namespace: q, wait: true, timeout: 50000, batch: 10 }),
            ]) {
                const queue = unique();
                await c.queen.configure(queue, { minPopWaitTime: 60000 }, { namespace: queue });
                await c.queen.push(queue, ['a']);
                assert.deepEqual(ids(await pop(queue)), ['a']);
                assert.ok(await waited(queue) < 30000);
            }
        });

        it('a claim of one message is served while another is held', async () => {
            const queue = unique();
            await c.queen.configure(queue, { minPopWaitTime: 60000 });
            await c.queen.push(queue, ['a', 'b']);
            const held = c.queen.pop(queue, { wait: true, timeout: 4000, batch: 10, partitions: 5 });
            await sleep(300);
            await c.queen.take(queue, ['a'], { batch: 1, wait: true, timeout: 50000 });
            assert.equal((await held).status, 204, 'the rest is leased');
        });
    });
});
