// Streams: queries, state, cycles. A cycle is all or nothing, through HTTP, across lost leases, races and
// a database that restarts.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TIME, UUID, unique, until, useQueen } from './lib/queen.mjs';

const c = useQueen();
const GONE = 'invalid or expired lease';

const register = (more) => c.queen.post('/streams/v1/queries', more);
const get = (more) => c.queen.post('/streams/v1/state/get', more);
const post = (more) => c.queen.post('/streams/v1/cycle', more);

/* A registered query over a queue of its own; group as the runner names it. */
async function stream(more = {}) {
    const name = unique('stream');
    const s = { name, queue: unique('src'), sink: unique('sink'), group: `streams.${name}` };
    const answer = await register({ name, source_queue: s.queue, sink_queue: s.sink, config_hash: 'h1', ...more });
    assert.equal(answer.status, 200, answer.text);
    s.id = answer.json.query_id;
    return s;
}

/* A stream whose runner has just popped these messages. */
async function leased(ids = ['a', 'b', 'c']) {
    const s = await stream();
    await c.queen.push(s.queue, ids);
    s.batch = await pop(s, ids);
    return s;
}

const pop = (s, ids, more = {}) =>
    c.queen.take(s.queue, ids, { consumerGroup: s.group, batch: 100, subscriptionMode: 'all', ...more });

/* The body of a cycle that acknowledges the batch. */
function cycle(s, { ack = {}, ...more } = {}) {
    return {
        query_id: s.id,
        partition_id: s.batch.partitionId,
        consumer_group: s.group,
        state_ops: [],
        push_items: [],
        ack: ack && { transactionId: s.batch.messages.at(-1).transactionId, leaseId: s.batch.leaseId, status: 'completed', count: s.batch.messages.length, ...ack },
        ...more,
    };
}

async function done(body) {
    const answer = await post(body);
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.success, true, answer.text);
    assert.deepEqual(Object.keys(answer.json), ['success', 'query_id', 'partition_id', 'queueName', 'state_ops_applied', 'push_results', 'ack_result']);
    return answer.json;
}

async function failed(body, error) {
    const answer = await post(body);
    assert.equal(answer.status, 200, answer.text);
    const { success, error: text, state_ops_applied, push_results, ack_result } = answer.json;
    assert.deepEqual({ success, text, state_ops_applied, push_results, ack_result },
        { success: false, text: error, state_ops_applied: 0, push_results: [], ack_result: null }, answer.text);
    return answer.json;
}

async function rows(s, more = {}) {
    const answer = await get({ query_id: s.id, partition_id: s.batch.partitionId, ...more });
    assert.equal(answer.status, 200, answer.text);
    assert.equal(answer.json.success, true);
    for (const row of answer.json.rows) {
        assert.deepEqual(Object.keys(row), ['key', 'value', 'updated_at']);
        assert.match(row.updated_at, TIME);
    }
    return answer.json.rows;
}

const state = async (s, more) => Object.fromEntries((await rows(s, more)).map((r) => [r.key, r.value]));

async function refused(answer, status, pattern) {
    answer = await answer;
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.json.error, pattern);
}

describe('POST /streams/v1/queries', () => {
    it('registers, takes up again, refuses another chain, resets', async () => {
        const name = unique('stream');
        const body = { name, source_queue: 'a', sink_queue: null, config_hash: 'h1' };
        const first = await register(body);
        assert.equal(first.status, 200, first.text);
        const { query_id } = first.json;
        assert.match(query_id, UUID);
        assert.deepEqual(first.json, { success: true, query_id, name, config_hash: 'h1', fresh: true, reset: false });
        assert.deepEqual(Object.keys(first.json), ['success', 'query_id', 'name', 'config_hash', 'fresh', 'reset']);
        assert.deepEqual((await register({ ...body, source_queue: 'b', sink_queue: 'c' })).json, { success: true, query_id, name, config_hash: 'h1', fresh: false, reset: false });
        assert.deepEqual((await register({ ...body, reset: true })).json.reset, false, 'an equal hash resets nothing');
        const other = await register({ ...body, config_hash: 'h2' });
        assert.equal(other.status, 409);
        assert.deepEqual(other.json, {
            success: false, query_id, name,
            error: `config_hash mismatch: operator chain changed for queryId '${name}'. Pass reset:true to wipe existing state, or use a new queryId.`,
        });
        assert.deepEqual((await register({ ...body, config_hash: 'h2', reset: true })).json, { success: true, query_id, name, config_hash: 'h2', fresh: false, reset: true });
        assert.equal((await register(body)).status, 409, 'the old hash is another one now');
    });

    it('forgets the state with a reset, of this query only', async () => {
        const s = await leased();
        await done(cycle(s, { ack: null, state_ops: [{ type: 'upsert', key: 'k', value: 1 }] }));
        const other = { ...(await stream()), batch: s.batch };
        await done(cycle(other, { ack: null, state_ops: [{ type: 'upsert', key: 'k', value: 2 }] }));
        assert.equal((await register({ name: s.name, source_queue: s.queue, config_hash: 'h2' })).status, 409);
        assert.deepEqual(await state(s), { k: 1 });
        assert.equal((await register({ name: s.name, source_queue: s.queue, config_hash: 'h2', reset: true })).json.reset, true);
        assert.deepEqual([await state(s), await state(other)], [{}, { k: 2 }]);
    });

    it('refuses what is missing or wrong', async () => {
        const body = { name: 'n', source_queue: 'q', config_hash: 'h' };
        for (const field of Object.keys(body))
            for (const value of [undefined, null, '', 7]) await refused(register({ ...body, [field]: value }), 400, new RegExp(`^${field} is required$`));
        await refused(register({ ...body, name: 'x'.repeat(513) }), 413, /name/);
        await refused(register({ ...body, reset: 'yes' }), 400, /reset must be true or false/);
        await refused(register({ ...body, sink_queue: 5 }), 400, /sink_queue/);
        await refused(register([]), 400, /^request body must be a JSON object$/);
        await refused(register('{'), 400, /^bad body: /);
        assert.equal((await c.queen.get('/streams/v1/queries')).status, 405);
        assert.equal((await c.queen.post('/streams/v1/none', {})).status, 404);
    });

    it('names are equal for one of many that register at once', async () => {
        const name = unique('stream');
        const answers = await Promise.all(Array.from({ length: 12 }, () => register({ name, source_queue: 'q', config_hash: 'h' })));
        assert.equal(new Set(answers.map((a) => a.json.query_id)).size, 1);
        assert.equal(answers.filter((a) => a.json.fresh).length, 1);
    });
});

describe('POST /streams/v1/cycle', () => {
    it('ok and release: state, messages and the ack in one', async () => {
        const s = await leased();
        const answer = await done(cycle(s, {
            state_ops: [{ type: 'upsert', key: 'k', value: { n: 3 } }, { type: 'delete', key: 'none' }],
            push_items: [
                { queue: s.sink, partition: 'p1', payload: { sum: 1 }, transactionId: 't1' },
                { queue: s.sink, partition: 'p2', data: [2], transactionId: 't2' },
                { queue: s.sink, partition: 'p1', payload: null, transactionId: 't3' },
                { queue: s.sink },
            ],
        }));
        const { query_id, partition_id, queueName, state_ops_applied, push_results, ack_result } = answer;
        assert.deepEqual({ query_id, partition_id, queueName, state_ops_applied }, { query_id: s.id, partition_id: s.batch.partitionId, queueName: s.queue, state_ops_applied: 2 });
        assert.deepEqual(push_results.map(({ queue, partition, status, baseOffset }) => [queue, partition, status, baseOffset]),
            [[s.sink, 'p1', 'queued', 0], [s.sink, 'p2', 'queued', 0], [s.sink, 'p1', 'queued', 1], [s.sink, 'Default', 'queued', 0]]);
        assert.deepEqual(ack_result, { success: true, count: 3, lease_released: true, dlq: false });
        assert.deepEqual(await state(s), { k: { n: 3 } });
        const p1 = (await c.queen.popPartition(s.sink, 'p1', { batch: 10 })).json.messages;
        assert.deepEqual(p1.map((m) => [m.transactionId, m.data]), [['t1', { sum: 1 }], ['t3', null]]);
        assert.deepEqual((await c.queen.popPartition(s.sink, 'p2')).json.messages.map((m) => m.data), [[2]]);
        const [plain] = (await c.queen.popPartition(s.sink, 'Default')).json.messages;
        assert.deepEqual(plain.data, {});
        assert.equal(plain.transactionId, plain.id, 'the transaction id is the message id by default');
        await c.queen.nothing(s.queue, { consumerGroup: s.group });
    });

    it('the same cycle again is refused and changes nothing', async () => {
        const s = await leased();
        const body = cycle(s, { state_ops: [{ type: 'upsert', key: 'k', value: 1 }], push_items: [{ queue: s.sink, payload: 1 }] });
        await done(body);
        body.state_ops[0].value = 2;
        await failed(body, GONE);
        assert.deepEqual(await state(s), { k: 1 });
        const batch = await c.queen.pop(s.sink, { batch: 10 });
        assert.equal(batch.json.messages.length, 1);
    });

    it('ids of messages: given, not valid, repeated', async () => {
        const s = await leased();
        const id = '01890000-0000-7000-8000-000000000001';
        await done(cycle(s, { push_items: [{ queue: s.sink, messageId: id, payload: 1 }, { queue: s.sink, messageId: 'what', payload: 2 }] }));
        const { messages } = (await c.queen.pop(s.sink, { batch: 10 })).json;
        assert.deepEqual([messages[0].id, messages[0].transactionId], [id, id]);
        assert.match(messages[1].id, UUID);
    });

    it('no, foreign or expired lease: nothing of the cycle happens', async () => {
        const s = await leased();
        const all = { state_ops: [{ type: 'upsert', key: 'k', value: 1 }], push_items: [{ queue: s.sink, payload: 1 }] };
        for (const leaseId of [null, '', 'other', '01890000-0000-7000-8000-000000000001', 'x'.repeat(1000), 'a\u0000b'])
            for (const status of ['completed', 'failed']) await failed(cycle(s, { ...all, ack: { leaseId, status } }), GONE);
        await failed(cycle(s, { ...all, consumer_group: 'another' }), GONE);
        await failed(cycle(s, { ...all, consumer_group: '' }), GONE);
        await c.queen.instance.psql(`update queen.log_consumers set lease_expires_at = clock_timestamp() - interval '1 s' where worker_id = '${s.batch.leaseId}'`);
        await failed(cycle(s, all), GONE);
        assert.deepEqual(await state(s), {});
        assert.equal((await c.queen.pop(s.sink)).status, 204);
        await pop(s, ['a', 'b', 'c']);
    });

    it('ok and keep: advances by messages that exist, over gaps of retention, not beyond the batch', async () => {
        const s = await stream();
        for (const id of ['a', 'b', 'c', 'd', 'e', 'f']) await c.queen.push(s.queue, [id]);
        s.batch = await pop(s, ['a', 'b', 'c', 'd', 'e', 'f']);
        await c.queen.push(s.queue, ['g']);
        await c.queen.instance.psql(`delete from queen.log_segments where partition_id = '${s.batch.partitionId}' and base_offset in (1, 2)`);
        const keep = async (count) => (await done(cycle(s, { release_lease: false, ack: { count } }))).ack_result;
        const cursor = async () => Number(await c.queen.instance.psql(`select committed from queen.log_consumers where worker_id = '${s.batch.leaseId}'`));
        assert.deepEqual(await keep(2), { success: true, count: 2, lease_released: false, dlq: false });
        assert.equal(await cursor(), 3, 'a and d');
        assert.equal((await keep(0)).count, 0);
        assert.equal(await cursor(), 3);
        assert.equal((await keep(50)).count, 2);
        assert.equal(await cursor(), 5, 'the end of the batch');
        await c.queen.nothing(s.queue, { consumerGroup: s.group });
        assert.equal((await done(cycle(s))).ack_result.lease_released, true);
        await pop(s, ['g']);
    });

    it('not ok: the lease is released, the cursor and the retry budget stay', async () => {
        for (const status of ['failed', 'retry', 'dlq', 'Completed', '']) {
            const s = await leased();
            const answer = await done(cycle(s, { ack: { status }, state_ops: [{ type: 'upsert', key: 'seen', value: status }] }));
            assert.deepEqual(answer.ack_result, { success: true, count: 0, lease_released: true, dlq: false });
            assert.deepEqual(await state(s), { seen: status });
            s.batch = await pop(s, ['a', 'b', 'c']);
            assert.equal(await c.queen.instance.psql(`select batch_retry_count from queen.log_consumers where worker_id = '${s.batch.leaseId}'`), '0');
        }
    });

    it('what counts as ok', async () => {
        for (const status of ['completed', 'success', 'acked', 'ok', null, undefined]) {
            const s = await leased();
            assert.equal((await done(cycle(s, { ack: { status } }))).ack_result.count, 3);
            await c.queen.nothing(s.queue, { consumerGroup: s.group });
        }
    });

    it('without ack: state and messages only; a key takes its last operation', async () => {
        const s = await leased();
        const ops = [['upsert', 'a', 1], ['upsert', 'a', 2], ['upsert', 'b', 1], ['delete', 'b'], ['delete', 'd'], ['upsert', 'd', 5]];
        const answer = await done(cycle(s, { ack: null, state_ops: ops.map(([type, key, value]) => ({ type, key, value })) }));
        assert.deepEqual([answer.ack_result, answer.state_ops_applied], [null, 6]);
        assert.deepEqual(await state(s), { a: 2, d: 5 });
        assert.equal((await done({ query_id: s.id, partition_id: s.batch.partitionId })).state_ops_applied, 0);
        await done(cycle(s));
    });

    it('duplicates in the sinks are reported and the rest is stored', async () => {
        const s = await leased();
        await c.queen.push(s.sink, ['old', 'old2']);
        const item = (transactionId, more) => ({ queue: s.sink, transactionId, payload: { by: 'cycle' }, ...more });
        const answer = await done(cycle(s, { push_items: [item('new'), item('old2'), item('new'), item('new2'), item('old'), item('old', { partition: 'p' })] }));
        assert.deepEqual(answer.push_results.map((r) => [r.partition, r.transactionId, r.status, r.baseOffset]), [
            ['Default', 'new', 'queued', 2], ['Default', 'old2', 'duplicate', 1], ['Default', 'new', 'duplicate', 2],
            ['Default', 'new2', 'queued', 3], ['Default', 'old', 'duplicate', 0], ['p', 'old', 'queued', 0],
        ]);
        assert.equal(answer.ack_result.lease_released, true);
        const batch = (await c.queen.popPartition(s.sink, 'Default', { batch: 10 })).json;
        assert.deepEqual(batch.messages.map((m) => m.transactionId), ['old', 'old2', 'new', 'new2']);
        // What a cycle stored is a duplicate for a push.
        const again = await c.queen.pushItems([{ queue: s.sink, transactionId: 'new2', payload: 1 }]);
        assert.equal(again.json[0].status, 'duplicate');
    });

    it('names what it does not know', async () => {
        const s = await leased();
        const all = { state_ops: [{ type: 'upsert', key: 'k', value: 1 }] };
        const none = '01890000-0000-7000-8000-000000000001';
        assert.equal((await failed({ ...cycle(s, all), partition_id: none }, 'partition not found')).queueName, null);
        await failed({ ...cycle(s, all), partition_id: 'none' }, 'partition not found');
        assert.equal((await failed({ ...cycle(s, all), query_id: none }, 'query not found')).queueName, s.queue);
        await failed({ ...cycle(s, all), query_id: 'none' }, 'query not found');
        await failed(cycle(s, { state_ops: [...all.state_ops, { type: 'merge', key: 'k' }] }), 'Unknown state_op type: merge');
        assert.deepEqual(await state(s), {});
        await done(cycle(s));
    });

    it('refuses what is malformed, and limits', async () => {
        const s = await leased();
        const bad = (more, pattern, status = 400) => refused(post({ ...cycle(s), ...more }), status, pattern);
        await bad({ query_id: null }, /^query_id is required$/);
        await bad({ partition_id: '' }, /^partition_id is required$/);
        await bad({ query_id: 5 }, /query_id must be a string/);
        await bad({ consumer_group: 'x'.repeat(513) }, /consumer_group/, 413);
        await bad({ state_ops: {} }, /state_ops must be an array/);
        await bad({ state_ops: [5] }, /state_ops\[0\]/);
        await bad({ state_ops: [{ type: 'delete', key: 'a' }, { type: 'upsert' }] }, /state_ops\[1\].*key/);
        await bad({ state_ops: [{ type: 'upsert', key: 'x'.repeat(2049), value: 1 }] }, /2049 bytes, the limit is 2048/);
        await bad({ state_ops: [{ type: 'upsert', key: 'a\u0000', value: 1 }] }, /NUL/);
        await bad({ state_ops: [{ key: 'a' }] }, /type is required/);
        await bad({ push_items: 'x' }, /push_items must be an array/);
        await bad({ push_items: [{ payload: 1 }] }, /push_items\[0\].*queue is required/);
        await bad({ push_items: [{ queue: 'x'.repeat(513) }] }, /push_items\[0\]/, 413);
        await bad({ push_items: [{ queue: 'q', transactionId: 'x'.repeat(1025) }] }, /push_items\[0\].*transactionId has 1025 bytes/);
        await bad({ ack: 5 }, /ack must be an object or null/);
        await bad({ ack: { leaseId: 5 } }, /ack.*leaseId/);
        for (const count of [-1, 1.5, 2 ** 31, '3']) await bad({ ack: { leaseId: 'x', count } }, /ack.count must be a whole number/);
        await bad({ release_lease: 'no' }, /release_lease must be true or false/);
        await bad({ state_ops: Array(100001).fill({ type: 'delete', key: 'a' }) }, /state_ops has 100001 elements/, 413);
        await bad({ push_items: Array(100001).fill({ queue: 'q' }) }, /push_items has 100001 elements/, 413);
        await refused(post('[]'), 400, /^request body must be a JSON object$/);
        await done(cycle(s, { state_ops: [{ type: 'upsert', key: 'x'.repeat(2048), value: 1 }, { type: 'upsert', key: '', value: 2 }] }));
        assert.deepEqual(await state(s), { '': 2, ['x'.repeat(2048)]: 1 });
    });

    it('many messages and state at once', async () => {
        const s = await leased();
        const push_items = Array.from({ length: 5000 }, (_, i) => ({ queue: s.sink, partition: `p${i % 50}`, transactionId: `t${i}`, payload: { i } }));
        const state_ops = Array.from({ length: 5000 }, (_, i) => ({ type: 'upsert', key: `k${i}`, value: i }));
        const answer = await done(cycle(s, { push_items, state_ops }));
        assert.ok(answer.push_results.every((r, i) => r.status === 'queued' && r.baseOffset === Math.floor(i / 50) && r.partition === `p${i % 50}`));
        assert.equal((await rows(s)).length, 5000);
    });

    it('one of many that commit the same batch at once does', async () => {
        const s = await leased();
        const answers = await Promise.all(Array.from({ length: 16 }, (_, i) =>
            post(cycle(s, { state_ops: [{ type: 'upsert', key: `by${i}`, value: i }], push_items: [{ queue: s.sink, payload: i, transactionId: `by${i}` }] }))));
        const winners = answers.map((a, i) => [a.json.success, i]).filter(([ok]) => ok);
        assert.equal(winners.length, 1, answers.map((a) => a.text).join('\n'));
        assert.deepEqual(Object.keys(await state(s)), [`by${winners[0][1]}`]);
        assert.equal((await c.queen.pop(s.sink, { batch: 100 })).json.messages.length, 1);
    });

    it('cycles with crossing sinks, pushes, pops and acks do not lock each other out', async () => {
        const sinks = Array.from({ length: 4 }, () => unique('sink'));
        const streams = await Promise.all(Array.from({ length: 6 }, stream));
        const one = async (s, round) => {
            await c.queen.push(s.queue, [`m${round}`]);
            s.batch = await pop(s, [`m${round}`], {});
            const order = round % 2 ? sinks : [...sinks].reverse();
            await done(cycle(s, {
                state_ops: [{ type: 'upsert', key: 'rounds', value: round }],
                push_items: order.flatMap((queue) => [0, 1].map((p) => ({ queue, partition: `p${p}`, payload: 1, transactionId: `${s.name}-${round}` }))),
            }));
        };
        await Promise.all(streams.map(async (s) => {
            for (let round = 0; round < 15; round++) await one(s, round);
            assert.deepEqual(await state(s), { rounds: 14 });
        }));
        for (const queue of sinks) {
            const count = await c.queen.instance.psql(`select sum(p.last_offset + 1) from queen.log_partitions p join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`);
            assert.equal(Number(count), 2 * 6 * 15);
        }
        assert.doesNotMatch(c.queen.instance.log('postgres'), /deadlock detected/);
    });

    it('a running count stays exact while database connections are cut', async () => {
        const s = await stream();
        const total = 60;
        for (let i = 0; i < total; i += 3) await c.queen.push(s.queue, [`m${i}`, `m${i + 1}`, `m${i + 2}`], `p${i % 2}`);
        let cutting = true;
        const cutter = (async () => {
            while (cutting) {
                await c.queen.instance.psql("select pg_terminate_backend(pid) from pg_stat_activity where application_name like '%streams%'");
                await new Promise((resolve) => setTimeout(resolve, 15));
            }
        })();
        let committed = 0;
        try {
            for (;;) {
                const answer = await c.queen.pop(s.queue, { consumerGroup: s.group, batch: 2, subscriptionMode: 'all' });
                if (answer.status === 204) break;
                assert.equal(answer.status, 200, answer.text);
                s.batch = answer.json;
                const before = (await state(s)).count ?? 0;
                await done(cycle(s, {
                    state_ops: [{ type: 'upsert', key: 'count', value: before + s.batch.messages.length }],
                    push_items: s.batch.messages.map((m) => ({ queue: s.sink, payload: m.data, transactionId: m.transactionId })),
                }));
                committed += s.batch.messages.length;
            }
        } finally {
            cutting = false;
            await cutter;
        }
        assert.equal(committed, total);
        const counts = await c.queen.instance.psql(`select sum(value::int) from queen.stream_state where query_id = '${s.id}'`);
        assert.equal(Number(counts), total);
        const { messages } = (await c.queen.pop(s.sink, { batch: 1000 })).json;
        assert.deepEqual(messages.map((m) => m.transactionId).sort(), Array.from({ length: total }, (_, i) => `m${i}`).sort());
    });
});

describe('POST /streams/v1/state/get', () => {
    it('keys, key_prefix, ripe_at_or_before, together', async () => {
        const s = await leased();
        const values = { 'a%1': { windowEnd: 100 }, aX1: { windowEnd: 200.5 }, a_2: { windowEnd: '50' }, b: { windowEnd: null }, c: 7, d: { n: { windowEnd: 1 } }, 'é': { windowEnd: -1 } };
        await done(cycle(s, { state_ops: Object.entries(values).map(([key, value]) => ({ type: 'upsert', key, value })) }));
        const keys = async (more) => (await rows(s, more)).map((r) => r.key);
        assert.deepEqual(await keys({}), ['a%1', 'aX1', 'a_2', 'b', 'c', 'd', 'é']);
        assert.deepEqual(await state(s), values);
        for (const all of [{ keys: [] }, { keys: null, key_prefix: null, ripe_at_or_before: null }, { key_prefix: '' }]) assert.equal((await keys(all)).length, 7);
        assert.deepEqual(await keys({ keys: ['d', 'none', 'b', 'd'] }), ['b', 'd']);
        assert.deepEqual(await keys({ key_prefix: 'a' }), ['a%1', 'aX1', 'a_2']);
        assert.deepEqual(await keys({ key_prefix: 'a%' }), ['a%1'], 'the prefix is literal');
        assert.deepEqual(await keys({ key_prefix: 'a_' }), ['a_2']);
        assert.deepEqual(await keys({ ripe_at_or_before: 100 }), ['a%1', 'é']);
        assert.deepEqual(await keys({ ripe_at_or_before: 200.4 }), ['a%1', 'é']);
        assert.deepEqual(await keys({ ripe_at_or_before: 1e300 }), ['a%1', 'aX1', 'é']);
        assert.deepEqual(await keys({ ripe_at_or_before: 1000, key_prefix: 'aX' }), ['aX1']);
        assert.deepEqual(await keys({ ripe_at_or_before: 150, keys: ['aX1', 'a%1', 'c'], key_prefix: 'a' }), ['a%1']);
    });

    it('values come back as they were sent', async () => {
        const s = await leased();
        const texts = ['1.0', '1e400', '12345678901234567890123', '"\\u0041\\u0000\\ud800"', '{"b":1,"a":2,"b":3}', '{"windowEnd":1e999}', '{ "windowEnd" : 5e-400 }', 'null', '[true,\n false]'];
        const ops = texts.map((text, i) => `{"type":"upsert","key":"k${i}","value":${text}}`);
        const body = JSON.stringify(cycle(s)).replace('"state_ops":[]', `"state_ops":[${ops},{"type":"upsert","key":"none"}]`);
        await done(body);
        const ask = { query_id: s.id, partition_id: s.batch.partitionId };
        for (const [i, text] of [...texts.entries()]) {
            const answer = await get({ ...ask, keys: [`k${i}`] });
            assert.ok(answer.text.includes(`"value":${text},"updated_at"`), answer.text);
        }
        assert.deepEqual(await state(s, { keys: ['none'] }), { none: null });
        assert.deepEqual((await rows(s, { ripe_at_or_before: 1e308 })).map((r) => r.key), ['k6'], 'an infinite windowEnd is never ripe');
    });

    it('partitions have state of their own', async () => {
        const s = await stream();
        await c.queen.push(s.queue, ['a'], 'p1');
        await c.queen.push(s.queue, ['b'], 'p2');
        for (const p of ['p1', 'p2']) {
            s.batch = (await c.queen.popPartition(s.queue, p, { consumerGroup: s.group, subscriptionMode: 'all' })).json;
            await done(cycle(s, { state_ops: [{ type: 'upsert', key: 'k', value: p }] }));
            assert.deepEqual(await state(s), { k: p });
        }
    });

    it('what is unknown has no state; what is missing or wrong is refused', async () => {
        const s = await leased();
        const none = '01890000-0000-7000-8000-000000000001';
        const ask = { query_id: s.id, partition_id: s.batch.partitionId };
        for (const other of [{ query_id: none }, { partition_id: none }, { query_id: 'x' }, { partition_id: 'x' }])
            assert.deepEqual((await get({ ...ask, ...other })).json, { success: true, rows: [] });
        await refused(get({ ...ask, query_id: undefined }), 400, /^query_id is required$/);
        await refused(get({ ...ask, partition_id: null }), 400, /^partition_id is required$/);
        await refused(get({ ...ask, keys: 'a' }), 400, /keys must be an array/);
        await refused(get({ ...ask, keys: ['a', 5] }), 400, /keys\[1\]/);
        await refused(get({ ...ask, keys: Array(100001).fill('a') }), 400, /keys has 100001 elements/);
        await refused(get({ ...ask, key_prefix: 5 }), 400, /key_prefix/);
        await refused(get({ ...ask, ripe_at_or_before: '5' }), 400, /ripe_at_or_before must be a number/);
        await refused(get('7'), 400, /^request body must be a JSON object$/);
        await c.queen.instance.psql(`insert into queen.stream_state (query_id, partition_id, key, value, updated_at) select '${s.id}', '${s.batch.partitionId}', i, '1', now() from generate_series(1, 100001) i`);
        await refused(get(ask), 413, /more than 100000 rows/);
        assert.equal((await rows(s, { key_prefix: '9999' })).length, 11);
    });
});

describe('on an instance of its own', () => {
    const own = useQueen({ workers: 2, env: { QUEEN_FALLBACK_POLL_MS: '60000' } });

    it('consumers that wait for the sink and for the rest of the source get their messages at once', async () => {
        const { queen } = own;
        const [name, queue, sink] = [unique('stream'), unique('src'), unique('sink')];
        const { query_id } = (await queen.post('/streams/v1/queries', { name, source_queue: queue, config_hash: 'h' })).json;
        await queen.push(queue, ['a']);
        await queen.push(sink, ['first']);
        await (await queen.take(sink, ['first'])).complete();
        for (const [status, next] of [['failed', 'a'], ['completed', 'b']]) {
            const batch = await queen.take(queue, ['a']);
            if (next === 'b') await queen.push(queue, ['b']);
            const waiting = [sink, queue].map((q) => queen.pop(q, { wait: true, timeout: 20000 }));
            await until(async () => (await queen.counters()).pop_parked === 2, 'both wait');
            const body = { query_id, partition_id: batch.partitionId, ack: { leaseId: batch.leaseId, status, count: 1 }, push_items: [{ queue: sink, payload: 1, transactionId: status }] };
            const { json, text } = await queen.post('/streams/v1/cycle', body);
            assert.equal(json.success, true, text);
            const [fromSink, fromSource] = await Promise.all(waiting);
            assert.deepEqual([fromSink.status, fromSource.status], [200, 200]);
            assert.equal(fromSink.json.messages[0].transactionId, status);
            assert.equal(fromSource.json.messages[0].transactionId, next);
            for (const [q, popped] of [[sink, fromSink], [queue, fromSource]]) {
                const status = q === queue && next === 'a' ? 'retry' : 'completed';
                await queen.ackBatch(popped.json.messages.map((m) => ({ transactionId: m.transactionId, partitionId: m.partitionId, leaseId: popped.json.leaseId, status })));
            }
        }
    });

    it('a cycle whose commit the worker does not hear of is answered as what it was, and not done twice', async () => {
        const { queen, instance } = own;
        const [name, queue, sink] = [unique('stream'), unique('src'), unique('sink')];
        const { query_id } = (await queen.post('/streams/v1/queries', { name, source_queue: queue, config_hash: 'h' })).json;
        await queen.push(queue, ['a', 'b', 'c']);
        const batch = await queen.take(queue, ['a', 'b', 'c'], { batch: 3 });
        await queen.push(sink, ['old']);
        const setting = async (value) => {
            await instance.psql(`alter system set synchronous_standby_names = '${value}'`);
            await instance.psql('select pg_reload_conf()');
        };
        // A commit that waits for a standby is durable here already: whoever is cut off then cannot know.
        const interrupted = async (body) => {
            await setting('nobody');
            const answer = queen.post('/streams/v1/cycle', body);
            try {
                const pid = await until(() => instance.psql("select pid from pg_stat_activity where application_name like '%streams%' and wait_event = 'SyncRep'"), 'the cycle waits for its commit');
                await instance.psql(`select pg_terminate_backend(${pid})`);
            } finally {
                await setting('');
            }
            const { json, text } = await answer;
            assert.equal(json.success, true, text);
            return json;
        };
        const body = (more) => ({ query_id, partition_id: batch.partitionId, ...more });
        const ack = { leaseId: batch.leaseId, status: 'completed' };
        const item = (transactionId, partition) => ({ queue: sink, partition, transactionId, payload: 1 });

        const kept = await interrupted(body({ ack: { ...ack, count: 1 }, release_lease: false, push_items: [item('x', 'p'), item('y')] }));
        assert.deepEqual(kept.ack_result, { success: true, count: 1, lease_released: false, dlq: false });
        assert.deepEqual(kept.push_results.map((r) => [r.status, r.baseOffset]), [['queued', 0], ['queued', 1]]);
        assert.equal(await instance.psql(`select committed from queen.log_consumers where worker_id = '${batch.leaseId}'`), '0');

        await interrupted(body({ state_ops: [{ type: 'upsert', key: 'k', value: 1 }], push_items: [item('z')] }));
        const released = await interrupted(body({ ack, push_items: [item('old'), item('end')] }));
        assert.deepEqual(released.ack_result, { success: true, count: 2, lease_released: true, dlq: false });
        assert.deepEqual(released.push_results.map((r) => [r.status, r.baseOffset]), [['duplicate', 0], ['queued', 3]]);
        const stored = (await queen.popPartition(sink, 'Default', { batch: 10 })).json.messages;
        assert.deepEqual(stored.map((m) => m.transactionId), ['old', 'y', 'z', 'end']);
        await queen.nothing(queue);
    });
});
