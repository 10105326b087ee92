// Parked pops: what wakes them, their deadline, how many there may be, and clients that leave.
import assert from 'node:assert/strict';
import http from 'node:http';
import { describe, it } from 'node:test';
import { Batch, sleep, unique, until, useQueen } from './lib/queen.mjs';

/* Far above the fallback interval of 1 s and far below the polls' own timeouts: a poll that is
 * only served at its deadline fails. */
const PROMPT_MS = 8000;
const LONG = { wait: true, timeout: 60000 };
const ids = (answer) => answer.json.messages.map((m) => m.transactionId);

/* The answer of a poll, which must come promptly. */
async function promptly(poll, what) {
    const started = Date.now();
    const late = sleep(PROMPT_MS).then(() => Promise.reject(new Error(`the poll was not served within ${PROMPT_MS} ms: ${what}`)));
    late.catch(() => {});
    const answer = await Promise.race([poll, late]);
    assert.equal(answer.status, 200, what);
    return { answer, ms: Date.now() - started };
}

describe('long poll', () => {
    const c = useQueen();
    const parked = async () => (await c.queen.counters()).pop_parked;
    const park = async (...polls) => {
        const before = await parked();
        const started = polls.map((p) => p());
        await until(async () => (await parked()) >= before + polls.length, `${polls.length} polls are parked`);
        return started;
    };

    it('answers 204 at its deadline, not seconds later and without a body', async () => {
        for (const timeout of [1000, 2500]) {
            const started = Date.now();
            const answer = await c.queen.pop(unique(), { wait: true, timeout });
            const ms = Date.now() - started;
            assert.equal(answer.status, 204);
            assert.equal(answer.body.length, 0);
            assert.equal(answer.headers['content-length'], undefined);
            assert.ok(ms >= timeout * 0.7, `answered after ${ms} ms of ${timeout}`);
            assert.ok(ms < timeout + 5000, `answered after ${ms} ms of ${timeout}`);
        }
    });

    it('answers at once when there is something, and at once with timeout=0', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await promptly(c.queen.pop(queue, LONG), 'something is there');
        assert.equal((await c.queen.pop(queue, { wait: true, timeout: 0 })).status, 204);
    });

    it('timeout without wait does not wait', async () => {
        const started = Date.now();
        assert.equal((await c.queen.pop(unique(), { timeout: 30000 })).status, 204);
        assert.ok(Date.now() - started < PROMPT_MS);
    });

    it('is woken by a push through any worker', async (t) => {
        const queues = Array.from({ length: 40 }, () => unique());
        const polls = await park(...queues.map((q) => () => c.queen.pop(q, LONG)));
        const times = [];
        for (const [i, queue] of queues.entries()) {
            const started = performance.now();
            await c.queen.push(queue, [`t${i}`]);
            const { answer } = await promptly(polls[i], `push ${i}`);
            times.push(performance.now() - started);
            assert.deepEqual(ids(answer), [`t${i}`]);
        }
        times.sort((x, y) => x - y);
        t.diagnostic(`push to delivered: median ${times[20].toFixed(1)} ms, worst ${times[39].toFixed(1)} ms`);
    });

    it('is woken on every route: queue, partition, discovery; for every group', async () => {
        const namespace = unique('ns');
        const queue = `${namespace}.q`;
        const polls = await park(
            () => c.queen.pop(queue, { ...LONG, consumerGroup: 'a' }), () => c.queen.popPartition(queue, 'p', { ...LONG, consumerGroup: 'b' }),
            () => c.queen.popDiscover({ ...LONG, namespace, consumerGroup: 'c' }), () => c.queen.pop(queue, LONG));
        await c.queen.push(queue, ['x'], 'p');
        for (const poll of polls) assert.deepEqual(ids((await promptly(poll, 'a push')).answer), ['x']);
    });

    it('pinned to a partition stays parked through pushes to others', async () => {
        const queue = unique();
        const [poll] = await park(() => c.queen.popPartition(queue, 'mine', LONG));
        let served = false;
        poll.then(() => { served = true; });
        for (let i = 0; i < 5; i++) await c.queen.push(queue, [`other${i}`], 'other');
        await sleep(1500);
        assert.equal(served, false);
        await c.queen.push(queue, ['mine'], 'mine');
        assert.deepEqual(ids((await promptly(poll, 'its own partition')).answer), ['mine']);
    });

    it('is woken by an ack that releases a partition with more to give', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b']);
        const batch = await c.queen.take(queue, ['a'], { batch: 1 });
        const [poll] = await park(() => c.queen.pop(queue, LONG));
        await batch.complete();
        assert.deepEqual(ids((await promptly(poll, 'ack')).answer), ['b']);
    });

    for (const status of ['failed', 'retry', 'dlq']) {
        it(`is woken by a nack: ${status}`, async () => {
            const queue = unique();
            await c.queen.push(queue, ['a', 'b']);
            const batch = await c.queen.take(queue, ['a', 'b']);
            const [poll] = await park(() => c.queen.pop(queue, LONG));
            await batch.ack([['a', status]]);
            const { answer } = await promptly(poll, status);
            assert.deepEqual(ids(answer), status === 'dlq' ? ['b'] : ['a', 'b']);
        });
    }

    it('is woken by an ack without a lease that passes an expired batch', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b', 'c']);
        const batch = await c.queen.take(queue, ['a', 'b', 'c'], { leaseSeconds: 1 });
        await batch.expired();
        const answer = await c.queen.ack({ transactionId: 'b', partitionId: batch.partitionId, status: 'completed' });
        assert.equal(answer.json[0].success, true);
        assert.deepEqual(ids((await promptly(c.queen.pop(queue, LONG), 'the rest')).answer), ['c']);
    });

    it('is woken by the expiry of a lease', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.queen.take(queue, ['a'], { leaseSeconds: 2 });
        const { answer } = await promptly(c.queen.pop(queue, LONG), 'expiry');
        assert.equal(answer.json.messages[0].deliveryAttempt, 2);
    });

    it('survives that its queue is deleted and made again', async () => {
        const queue = unique();
        await c.queen.push(queue, ['old']);
        await (await c.queen.take(queue, ['old'])).complete();
        const [poll] = await park(() => c.queen.pop(queue, LONG));
        assert.equal((await c.queen.delete(queue)).json.deleted, true);
        await c.queen.push(queue, ['new']);
        assert.deepEqual(ids((await promptly(poll, 'the new queue')).answer), ['new']);
    });

    it('one push serves one of several polls of a group; the others stay parked', async () => {
        const queue = unique();
        const polls = await park(...Array.from({ length: 5 }, () => () => c.queen.pop(queue, { ...LONG, batch: 1 })));
        const served = [];
        polls.forEach((p, i) => p.then((answer) => served.push([i, answer.json.messages[0].transactionId])));
        for (let n = 1; n <= 5; n++) {
            await c.queen.push(queue, [`m${n}`], `p${n}`);
            await until(() => served.length >= n, `poll ${n} is served`, PROMPT_MS);
            assert.equal(served.length, n);
            assert.equal(served[n - 1][1], `m${n}`);
        }
    });

    it('a client that leaves leases nothing: the next consumer gets the message at once', async () => {
        const queue = unique();
        const gone = (await c.queen.counters()).pop_gone;
        const agent = new http.Agent({ keepAlive: true });
        const leaving = Array.from({ length: 20 }, () => new AbortController());
        await park(...leaving.map((a) => () => {
            const poll = c.queen.pop(queue, LONG, { signal: a.signal, agent });
            poll.catch(() => {});
            return poll;
        }));
        for (const a of leaving) a.abort();
        await until(async () => (await c.queen.counters()).pop_gone >= gone + 20, 'the workers noticed that the clients left');
        await c.queen.push(queue, ['a', 'b']);
        const batch = await c.queen.take(queue, ['a', 'b'], {}, { waitMs: PROMPT_MS });
        assert.equal(batch.messages[0].deliveryAttempt, 1);
        await batch.complete();
        await c.queen.nothing(queue);
        agent.destroy();
    });

    it('1,000 polls are parked without database connections, and every one is served', { timeout: 120000 }, async (t) => {
        const queue = unique();
        const agent = new http.Agent({ keepAlive: false, maxSockets: Infinity });
        const connections = async () => Number(String(await c.instance.psql('select count(*) from pg_stat_activity where datname = current_database()')).trim());
        const before = await connections();
        const polls = await park(...Array.from({ length: 1000 }, () => () => c.queen.pop(queue, { wait: true, timeout: 90000, batch: 1 }, { agent })));
        assert.ok((await connections()) <= before + 2, `${await connections()} database connections, ${before} before`);
        assert.equal((await c.queen.get('/health')).status, 200, 'the workers serve others meanwhile');
        const started = Date.now();
        const expected = [];
        for (let p = 0; p < 1000; p += 50) {
            const items = Array.from({ length: 50 }, (_, i) => ({ queue, partition: `p${p + i}`, transactionId: `m${p + i}`, payload: p + i }));
            expected.push(...items.map((i) => i.transactionId));
            const pushed = await c.queen.pushItems(items);
            assert.ok(pushed.json.every((r) => r.status === 'queued'));
        }
        const answers = await Promise.all(polls);
        t.diagnostic(`1,000 polls served in ${Date.now() - started} ms, pushes included`);
        assert.ok(answers.every((a) => a.status === 200), `${answers.filter((a) => a.status !== 200).length} polls went away empty`);
        assert.deepEqual(answers.map((a) => ids(a)[0]).sort(), expected.sort());
        const acked = await Promise.all(answers.map((a) => new Batch(c.queen, a.json).complete()));
        assert.ok(acked.every(([r]) => r.leaseReleased));
        await c.queen.nothing(queue);
        agent.destroy();
    });
});
