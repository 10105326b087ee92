// Timers: schedule, reschedule, cancel, reads, refusals; firing at its time, to a parked consumer, each
// timer once: in masses, with several firing at a time, across kills of the keeper and of everything.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { run as runProgram } from './lib/instance.mjs';
import { TIME, UUID_V7, sleep, unique, until, useQueen } from './lib/queen.mjs';

const base64 = (text) => Buffer.from(text).toString('base64');
const timer = (queue, timerKey, more = {}) =>
    ({ op: 'schedule', queue, timerKey, delayMs: 3600000, txn: `txn-${timerKey}`, payload: base64('{"n":1}'), ...more });

const post = (c, operations) => c.queen.post('/api/v1/timers', { operations });

async function run(c, operations) {
    const answer = await post(c, operations);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.results.length, operations.length);
    return answer.json.results;
}

/* Takes messages of a queue until there are `count` or more, then looks once more for another one. */
async function drain(c, queue, count, timeoutMs = 30000) {
    const messages = [];
    const take = async (wait) => {
        const answer = await c.queen.pop(queue, { batch: 1000, partitions: 100, autoAck: true, ...(wait ? { wait: true, timeout: 2000 } : {}) });
        if (answer.status === 200) messages.push(...answer.json.messages);
        return answer.status === 200;
    };
    await until(async () => {
        await take(true);
        return messages.length >= count;
    }, `${count} messages of ${queue}, there are ${messages.length}`, timeoutMs);
    while (await take(false));
    return messages;
}

/* Every transaction id exactly once, none before its time. */
function assertOnce(messages, results) {
    assert.deepEqual(messages.map((m) => m.transactionId).sort(), results.map((r) => r.txn).sort());
    const promised = new Map(results.map((r) => [r.txn, r]));
    for (const m of messages) {
        assert.equal(m.id, promised.get(m.transactionId).messageId);
        assert.ok(m.createdAt >= promised.get(m.transactionId).deliverAt, `${m.createdAt} before ${promised.get(m.transactionId).deliverAt}`);
    }
}

describe('timers', () => {
    const c = useQueen();
    const one = (method, queue, key, query = '') => c.queen.request(method, `/api/v1/timers/${queue}/${key}${query}`);

    async function refused(answer, status, error, reason) {
        answer = await answer;
        assert.equal(answer.status, status, answer.text);
        assert.deepEqual([answer.json.error, answer.json.reason], [error, reason], answer.text);
    }

    it('schedule, read, reschedule, cancel', async () => {
        const queue = unique('t');
        const [first] = await run(c, [timer(queue, 'k', { payload: base64(' {"x": 1.0} ') })]);
        assert.deepEqual(Object.keys(first), ['ok', 'status', 'queue', 'timerKey', 'txn', 'messageId', 'deliverAt']);
        assert.deepEqual([first.ok, first.status, first.queue, first.timerKey, first.txn], [true, 'scheduled', queue, 'k', 'txn-k']);
        assert.match(first.messageId, UUID_V7);
        assert.match(first.deliverAt, TIME);
        const read = (await one('GET', queue, 'k')).json;
        assert.deepEqual([read.found, read.partition, read.deliverAt, read.messageId, read.txn], [true, 'Default', first.deliverAt, first.messageId, 'txn-k']);
        assert.equal(Buffer.from(read.payload, 'base64').toString(), '{"x": 1.0}');
        assert.deepEqual([read.attempts, read.lastError, read.claimed], [0, null, false]);
        assert.match(read.createdAt, TIME);

        const [second] = await run(c, [timer(queue, 'k', { op: 'reschedule', txn: 'other', partition: 'p' })]);
        assert.deepEqual([second.ok, second.status, second.txn], [true, 'rescheduled', 'other']);
        assert.notEqual(second.messageId, first.messageId);
        assert.equal((await one('GET', queue, 'k')).json.partition, 'p');

        const [cancelled, absent, echoed] = await run(c, [{ op: 'cancel', queue, timerKey: 'k' }, { op: 'cancel', queue, timerKey: 'l' }, { op: 'cancel', queue, timerKey: 'm', txn: 'mine' }]);
        assert.deepEqual(cancelled, { ok: true, status: 'cancelled', queue, timerKey: 'k', txn: 'other' });
        assert.deepEqual(absent, { ok: false, status: 'absent', queue, timerKey: 'l', txn: null });
        assert.deepEqual(echoed, { ok: false, status: 'absent', queue, timerKey: 'm', txn: 'mine' });
        assert.deepEqual((await one('GET', queue, 'k')).json, { found: false, queue, timerKey: 'k' });
    });

    it('DELETE cancels; a key may hold slashes', async () => {
        const queue = unique('t');
        await run(c, [timer(queue, 'a/b'), timer(queue, 'é/100%')]);
        assert.equal((await one('GET', queue, 'a/b')).json.found, true);
        assert.equal((await one('GET', queue, 'a%2Fb')).json.found, true);
        const gone = await one('DELETE', queue, 'a/b');
        assert.deepEqual([gone.status, gone.json], [200, { ok: true, status: 'cancelled', queue, timerKey: 'a/b', txn: 'txn-a/b' }]);
        const again = await one('DELETE', queue, 'a/b', '?txn=mine');
        assert.deepEqual([again.status, again.json], [200, { ok: false, status: 'absent', queue, timerKey: 'a/b', txn: 'mine' }]);
        assert.equal((await one('DELETE', queue, '%C3%A9/100%25')).json.status, 'cancelled');
    });

    it('lists and counts the timers of a queue', async () => {
        const queue = unique('t');
        await run(c, ['b', 'a1', 'a2', 'B', 'a3'].map((key) => timer(queue, key)));
        const keys = [];
        for (let after = ''; ;) {
            const page = (await c.queen.get(`/api/v1/timers/${queue}?limit=2&after=${after}`)).json;
            keys.push(...page.rows.map((r) => r.timerKey));
            assert.ok(page.rows.every((r) => !('payload' in r) && r.queue === queue));
            if (!page.truncated) {
                assert.equal(page.nextAfter, null);
                break;
            }
            after = page.nextAfter;
        }
        assert.deepEqual(keys, ['B', 'a1', 'a2', 'a3', 'b']);
        assert.deepEqual((await c.queen.get(`/api/v1/timers/${queue}?mode=count&prefix=a`)).json, { count: 3 });
        assert.deepEqual((await c.queen.get(`/api/v1/timers/${unique('none')}`)).json, { rows: [], truncated: false, nextAfter: null });
        const bad = (query, reason) => refused(c.queen.get(`/api/v1/timers/${queue}?${query}`), 400, 'timers_bad_request', reason);
        await bad('mode=count', 'timers_count_prefix_required');
        await bad('mode=count&prefix=', 'timers_count_prefix_required');
        await bad(`mode=count&prefix=${'x'.repeat(129)}`, 'timers_count_prefix_too_long');
        await bad('mode=count&prefix=%00', 'timers_count_prefix_invalid');
        await bad('mode=count&prefix=a&limit=5', 'timers_count_page_parameters');
        await bad('mode=sum', 'timers_read_mode_unknown');
        await bad('limit=x', 'timers_bad_op');
    });

    it('refusals: the whole call, nothing is scheduled', async () => {
        const queue = unique('t');
        const bad = 'timers_bad_request';
        const op = (more) => post(c, [timer(queue, 'good'), timer(queue, 'k', more)]);
        for (const body of ['', '{', '5', '{}', '{"operations":5}']) await refused(c.queen.post('/api/v1/timers', body), 400, bad, 'timers_bad_body');
        await refused(post(c, [5]), 400, bad, 'timers_bad_op');
        await refused(op({ op: 'fire' }), 400, bad, 'QTIMER op 1: unknown operation');
        await refused(op({ queue: '' }), 400, bad, 'timers_queue_required');
        await refused(op({ queue: undefined }), 400, bad, 'timers_queue_required');
        await refused(op({ timerKey: '' }), 400, bad, 'QTIMER op 1: timerKey is required');
        await refused(op({ timerKey: undefined, key: 'k' }), 400, bad, 'QTIMER op 1: timerKey is required');
        await refused(op({ partition: '' }), 400, bad, 'QTIMER op 1: partition, when present, must be non-empty');
        await refused(op({ txn: '' }), 400, bad, 'QTIMER op 1: txn is required');
        await refused(op({ txn: undefined }), 400, bad, 'QTIMER op 1: txn is required');
        for (const delayMs of [undefined, '5', {}]) await refused(op({ delayMs }), 400, bad, 'timers_delay_required');
        await refused(op({ payload: undefined }), 400, bad, 'timers_payload_required');
        for (const payload of ['a', 'ab=c', '****', 'YQ', 'YR==', { a: 1 }]) await refused(op({ payload }), 400, bad, 'timers_payload_not_base64');
        await refused(op({ payload: base64('not json') }), 400, bad, 'timers_payload_not_json');
        await refused(op({ encrypted: true }), 400, bad, 'timers_encrypted_conflict');
        await refused(op({ _x: 1 }), 400, bad, 'timers_server_owned_field');
        for (const field of ['producerSub', 'messageId', 'tenant', 'deliverAt', 'delaySeconds', 'attempts'])
            await refused(op({ [field]: 1 }), 400, bad, `QTIMER op 1: field ${field} is server-owned and cannot be supplied`);
        await refused(op({ timerKey: 'good' }), 400, bad, 'QTIMER a (queue, timerKey) appears more than once in one call');
        await refused(post(c, Array.from({ length: 257 }, (_, i) => timer(queue, `k${i}`))), 400, bad, 'timers_too_many_ops');
        await refused(op({ delayMs: 90 * 86400000 + 1 }), 403, 'timer_horizon_exceeded', 'timers_horizon');
        await refused(op({ delayMs: 1e300 }), 403, 'timer_horizon_exceeded', 'timers_horizon');
        await refused(op({ payload: base64(`"${'x'.repeat(1048575)}"`) }), 413, 'payload_too_large', 'timers_payload_too_large');
        await refused(op({ timerKey: 'x'.repeat(513) }), 413, 'payload_too_large', 'timers_bad_op');
        assert.deepEqual((await c.queen.get(`/api/v1/timers/${queue}`)).json.rows, []);
        const largest = await post(c, [timer(queue, 'k', { delayMs: 90 * 86400000, payload: base64(`"${'x'.repeat(1048574)}"`) })]);
        assert.equal(largest.status, 200, largest.text.slice(0, 300));
        assert.deepEqual((await c.queen.post('/api/v1/timers', [])).json, { results: [] });
        await one('DELETE', queue, 'k');
    });

    it('a parked consumer gets the message, with the promised id, at its time', async (t) => {
        const queue = unique('t');
        const parked = c.queen.pop(queue, { wait: true, timeout: 30000 });
        await until(async () => (await c.queen.counters()).pop_parked > 0, 'the pop is parked');
        const payload = '{"big":12345678901234567890,"b":1.0,"a":"\\u0000"}';
        const [promise] = await run(c, [timer(queue, 'k', { delayMs: 700.5, payload: base64(payload), partition: 'p', txn: 'a\u0000b' })]);
        const answer = await parked;
        assert.equal(answer.status, 200, answer.text);
        assert.ok(answer.text.includes(`"data":${payload},`), answer.text);
        const [message] = answer.json.messages;
        assert.deepEqual([message.transactionId, message.traceId, message.partition], ['a\u0000b', null, 'p']);
        assertOnce([message], [promise]);
        t.diagnostic(`stored ${Date.parse(message.createdAt) - Date.parse(promise.deliverAt)} ms after its time`);
        assert.deepEqual((await one('GET', queue, 'k')).json.found, false);
        assert.equal((await one('DELETE', queue, 'k')).json.status, 'absent');
    });

    it('a delay that is not positive is now; an empty payload is null; a packed one is unpacked', async () => {
        const queue = unique('t');
        const packed = 'KLUv/SQDGQAAWzFdQPQHYg=='; // [1] as zstd packs it
        const operations = [
            timer(queue, 'a', { delayMs: -5000 }),
            timer(queue, 'b', { delayMs: 0, payload: '' }),
            timer(queue, 'c', { delayMs: 0, payload: packed, payloadZstd: true }),
        ];
        const results = await run(c, operations);
        const messages = await drain(c, queue, 3);
        assertOnce(messages, results);
        assert.deepEqual(Object.fromEntries(messages.map((m) => [m.transactionId, m.data])), { 'txn-a': { n: 1 }, 'txn-b': null, 'txn-c': [1] });
        await refused(post(c, [timer(queue, 'd', { payloadZstd: true })]), 400, 'timers_bad_request', 'timers_bad_op');
    });

    it('many at once: each once, a partition in the order of their times', async () => {
        const queue = unique('t');
        const results = [];
        for (let call = 0; call < 4; call++)
            results.push(...await run(c, Array.from({ length: 100 }, (_, i) => timer(queue, `k${call}-${i}`, { delayMs: 1500 - call * 300 - (i % 7), partition: `p${i % 10}` }))));
        const messages = await drain(c, queue, 400);
        assertOnce(messages, results);
        const due = new Map(results.map((r) => [r.txn, r.deliverAt]));
        const last = new Map();
        for (const m of messages) {
            // Those of one fire are ordered; a later fire holds only later ones, or ones scheduled too late.
            const before = last.get(`${m.partition} ${m.createdAt}`);
            assert.ok(!before || due.get(before) <= due.get(m.transactionId));
            last.set(`${m.partition} ${m.createdAt}`, m.transactionId);
        }
        assert.equal((await c.queen.get(`/api/v1/timers/${queue}`)).json.rows.length, 0);
    });

    it('a transaction id that is in the dedup window counts as fired', async () => {
        const queue = unique('t');
        await c.queen.push(queue, ['seen']);
        const results = await run(c, [timer(queue, 'a', { delayMs: 0, txn: 'seen' }), timer(queue, 'b', { delayMs: 0, txn: 'fresh' })]);
        await until(async () => (await c.queen.get(`/api/v1/timers/${queue}`)).json.rows.length === 0, 'both are gone');
        const messages = await drain(c, queue, 2);
        assert.deepEqual(messages.map((m) => m.transactionId).sort(), ['fresh', 'seen']);
        assert.notEqual(messages.find((m) => m.transactionId === 'seen').id, results[0].messageId);
    });

    it('deleting the queue takes its timers along', async () => {
        const queue = unique('t');
        await run(c, [timer(queue, 'a')]);
        await c.queen.delete(queue);
        assert.equal((await one('GET', queue, 'a')).json.found, false);
    });

    it('one whose message cannot be stored does not hold up the others', async () => {
        const queue = unique('t');
        await run(c, [timer(queue, 'bad', { delayMs: 2000 })]);
        await c.instance.psql(`update queen.log_timers set hash = 'x' where queue = '${queue}'`);
        const good = await run(c, [timer(queue, 'good', { delayMs: 2500 }), timer(queue, 'better', { delayMs: 1500 })]);
        assertOnce(await drain(c, queue, 2), good);
        const read = (await one('GET', queue, 'bad')).json;
        assert.ok(read.found && read.attempts >= 1 && read.lastError.length > 0, JSON.stringify(read));
        assert.equal((await one('DELETE', queue, 'bad')).json.status, 'cancelled');
    });

    it('an operator switches scheduling and firing off and on', async () => {
        const queue = unique('t');
        const set = (key, enabled) => c.instance.psql(`insert into queen.system_state (key, value) values ('${key}', '{"enabled":${enabled}}')
            on conflict (key) do update set value = excluded.value`);
        await run(c, [timer(queue, 'x')]);
        await set('timers_schedule_enabled', false);
        try {
            const answer = await post(c, [timer(queue, 'k')]);
            await refused(answer, 503, 'timers_disabled', 'timers_disabled');
            assert.equal(answer.headers['retry-after'], '1');
            assert.equal((await one('DELETE', queue, 'x')).json.status, 'cancelled');
        } finally {
            await set('timers_schedule_enabled', true);
        }
        await set('timers_fire_enabled', false);
        let results;
        try {
            results = await run(c, [timer(queue, 'k', { delayMs: 0 })]);
            await sleep(100);
            assert.equal((await one('GET', queue, 'k')).json.found, true);
        } finally {
            await set('timers_fire_enabled', true);
        }
        assertOnce(await drain(c, queue, 1), results);
    });
});

describe('without the fallback poll', () => {
    // What is told is all there is: the worker tells the keeper, the keeper tells the parked pops.
    const c = useQueen({ workers: 2, env: { QUEEN_FALLBACK_POLL_MS: '60000' } });

    it('the keeper hears of a timer, and the parked consumers of every worker of its message', async () => {
        const queue = unique('t');
        const parked = Array.from({ length: 6 }, (_, i) => c.queen.pop(queue, { wait: true, timeout: 25000, autoAck: true, consumerGroup: `g${i}` }));
        await until(async () => (await c.queen.counters()).pop_parked === 6, 'the pops are parked');
        const [later] = await run(c, [timer(queue, 'later', { delayMs: 3000 })]);
        const [promise] = await run(c, [timer(queue, 'k', { delayMs: 300 })]);
        for (const answer of await Promise.all(parked)) {
            assert.equal(answer.status, 200);
            assertOnce(answer.json.messages, [promise]);
        }
        assertOnce((await c.queen.pop(queue, { wait: true, timeout: 25000, autoAck: true, consumerGroup: 'g0' })).json.messages, [later]);
    });
});

describe('timers across failures', () => {
    const c = useQueen({ workers: 2 });

    const due = (queue, count, delay) => Array.from({ length: count }, (_, i) =>
        timer(queue, `k${i}`, { delayMs: delay(i), partition: `p${i % 5}` }));

    async function kill(pids) {
        for (const pid of pids) {
            try {
                process.kill(pid, 'SIGKILL');
            } catch {
                // ended meanwhile
            }
        }
    }

    it('the keeper is killed again and again while timers fire', async () => {
        const queue = unique('t');
        const results = [...await run(c, due(queue, 250, (i) => 500 + i * 12))];
        let kills = 0;
        const drained = drain(c, queue, 250);
        const done = drained.then(() => true, () => true);
        while (!await Promise.race([done, sleep(150)])) {
            const { keeper } = c.instance.pids();
            kills += keeper.length;
            await kill(keeper);
        }
        assertOnce(await drained, results);
        assert.ok(kills > 3, `${kills} kills`);
    });

    it('several hosts fire at the same time', async () => {
        const queue = unique('t');
        const results = await run(c, due(queue, 250, (i) => 500 + i * 4));
        let stop = false;
        const other = async () => {
            let fired = 0;
            while (!stop) fired += Number(await c.instance.psql('select coalesce(max(fired), 0) from queen.log_timers_fire_v1(3) where queue is null'));
            return fired;
        };
        const others = [other(), other()];
        let messages;
        try {
            messages = await drain(c, queue, 250);
        } finally {
            stop = true;
        }
        assertOnce(messages, results);
        const fired = await Promise.all(others);
        assert.ok(fired[0] + fired[1] > 0, 'the others had some');
    });

    it('database connections break', async () => {
        const queue = unique('t');
        const results = await run(c, due(queue, 100, (i) => 300 + i * 20));
        for (let i = 0; i < 5; i++) {
            await c.instance.psql(`select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'queen-timers'`);
            await sleep(200);
        }
        assertOnce(await drain(c, queue, 100), results);
    });

    it('everything is killed: timers that come due meanwhile fire after the restart, each once', { timeout: 120000 }, async () => {
        const queue = unique('t');
        const results = await run(c, due(queue, 200, (i) => 300 + i * 15));
        const taken = [];
        await until(async () => {
            const answer = await c.queen.pop(queue, { batch: 20, partitions: 5, autoAck: true });
            if (answer.status === 200) taken.push(...answer.json.messages);
            return taken.length > 0;
        }, 'the first fire');
        const pids = c.instance.pids();
        for (const kind of ['supervisor', 'keeper', 'postmaster', 'worker', 'flusher', 'nginx']) await kill(pids[kind]);
        await runProgram('sleep', ['1']);
        await c.instance.up();
        const rest = await drain(c, queue, 200 - taken.length);
        assertOnce([...taken, ...rest], results);
        const [next] = await run(c, [timer(queue, 'next', { delayMs: 0 })]);
        assertOnce(await drain(c, queue, 1), [next]);
    });
});
