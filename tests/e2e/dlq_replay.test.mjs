// Replay of dead letters by id and by address; purge.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { describe, it } from 'node:test';
import { startInstance } from './lib/instance.mjs';
import { assertError, Batch, Queen, query, unique, until, useQueen, UUID_V7, ZERO_UUID } from './lib/queen.mjs';

const KEYS = ['success', 'result', 'queue', 'partition', 'consumerGroup', 'dlqId', 'originalTransactionId', 'replayedAs', 'dlqRowRemoved'];
const NOBODY = '00000000-0000-7000-8000-000000000000';

describe('dlq replay', { concurrency: 4 }, () => {
    // Several replays of a worker at once; nothing but the wake-up wakes a parked pop in time.
    const c = useQueen({ workers: 2, env: { QUEEN_FALLBACK_POLL_MS: '60000', QUEEN_ADMIN_CONNECTIONS: '4' } });
    const rows = async (queue) => (await c.queen.dlq({ queue })).json.messages;
    /* A queue whose partition p holds t's message, dead-lettered; the row. payload: JSON text. */
    const letter = async (queue = unique(), { t = 'a', payload = '{"n":1.0}' } = {}) => {
        const answer = await c.queen.post('/api/v1/push', `{"items":[{"queue":"${queue}","partition":"p","transactionId":"${t}","payload":${payload}}]}`);
        assert.equal(answer.status, 201, answer.text);
        const popped = await c.queen.popPartition(queue, 'p');
        const [r] = await new Batch(c.queen, popped.json).ack([[t, 'dlq', 'broken']]);
        assert.equal(r.dlq, true);
        return (await rows(queue))[0];
    };
    const replay = (id, body) => c.queen.post(`/api/v1/dlq/${id}/replay`, body ?? '');
    const retry = (m, body) => c.queen.post(`/api/v1/messages/${m.partitionId}/${encodeURIComponent(m.transactionId)}/retry`, body ?? '');

    it('moves a message to the end of its partition', async () => {
        const payload = '{"b":1.0,"a":1e400,"a":"\\u0000"}';
        const m = await letter(unique(), { payload });
        await c.queen.push(m.queue, ['later'], 'p');
        const answer = await replay(m.id);
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(Object.keys(answer.json), KEYS);
        const { replayedAs, ...rest } = answer.json;
        assert.deepEqual(rest, { success: true, result: 'moved', queue: m.queue, partition: 'p', consumerGroup: '__QUEUE_MODE__', dlqId: m.id,
            originalTransactionId: 'a', dlqRowRemoved: true });
        assert.match(replayedAs.message_id, UUID_V7);
        assert.deepEqual(replayedAs, { index: 0, message_id: replayedAs.message_id, transaction_id: `dlq:${m.id}`, queueName: m.queue, status: 'queued', offset: 2 });
        assert.deepEqual(Object.keys(replayedAs), ['index', 'message_id', 'transaction_id', 'queueName', 'status', 'offset']);
        assert.deepEqual(await rows(m.queue), []);
        const popped = await c.queen.popPartition(m.queue, 'p', { batch: 10 });
        assert.deepEqual(popped.json.messages.map((x) => x.transactionId), ['later', `dlq:${m.id}`]);
        assert.equal(popped.json.messages[1].id, replayedAs.message_id);
        assert.ok(popped.text.includes(`"data":${payload},`), popped.text);
    });

    it('to another queue and partition, made when missing', async () => {
        const m = await letter(), queue = unique();
        const answer = await replay(m.id, { queue: `  ${queue} `, partition: 'x' });
        assert.deepEqual([answer.json.result, answer.json.queue, answer.json.partition, answer.json.replayedAs.queueName], ['moved', queue, 'x', queue]);
        const popped = await c.queen.popPartition(queue, 'x');
        assert.deepEqual(popped.json.messages.map((x) => x.data), [{ n: 1 }]);
        const other = await letter();
        assert.deepEqual((({ queue: q, partition }) => [q, partition])((await replay(other.id, { queue, partition: null })).json), [queue, 'p']);
    });

    it('by address, the newest one; the body does not matter', async () => {
        const m = await letter();
        await c.instance.psql(`insert into queen.log_dlq (partition_id, consumer_group, "offset", transaction_id, payload, error, failed_at)
            values ('${m.partitionId}', 'newer', 0, 'a', '{"newer":true}', 'x', now() + interval '1 second')`);
        const first = await retry(m, { queue: 'ignored' });
        assert.deepEqual([first.status, first.json.result, first.json.consumerGroup, first.json.queue], [200, 'moved', 'newer', m.queue]);
        const second = await retry(m, 'not json');
        assert.deepEqual([second.status, second.json.dlqId, second.json.consumerGroup], [200, m.id, '__QUEUE_MODE__']);
        const third = await retry(m);
        assertError(third, 404, /^Message not found$/);
        assert.deepEqual([third.json.success, third.json.partitionId, third.json.transactionId], [false, m.partitionId, 'a']);
        assertError(await retry({ partitionId: 'no-uuid', transactionId: 'a' }), 404, /^Message not found$/);
        const odd = await letter(unique(), { t: 'a/b ü' });
        assert.equal((await retry(odd)).json.originalTransactionId, 'a/b ü');
    });

    it('a duplicate writes nothing and keeps the row', async () => {
        const m = await letter();
        await c.queen.push(m.queue, [`dlq:${m.id}`], 'p');
        const answer = await replay(m.id);
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual([answer.json.success, answer.json.result, answer.json.dlqRowRemoved], [true, 'duplicate', false]);
        assert.deepEqual([answer.json.replayedAs.status, answer.json.replayedAs.offset, answer.json.replayedAs.message_id], ['duplicate', 1, ZERO_UUID]);
        assert.deepEqual((await rows(m.queue)).map((x) => x.id), [m.id]);
    });

    it('what is gone is 404', async () => {
        const m = await letter();
        assert.equal((await replay(m.id)).status, 200);
        for (const id of [m.id, NOBODY, 'no-uuid']) {
            const answer = await replay(id);
            assertError(answer, 404, /^Message not found$/);
            assert.deepEqual([answer.json.success, answer.json.result, answer.json.dlqId], [false, 'gone', id]);
        }
    });

    it('a letter without payload is refused and kept', async () => {
        const m = await letter();
        await c.instance.psql(`update queen.log_dlq set payload = null where id = '${m.id}'`);
        const answer = await replay(m.id);
        assertError(answer, 409, /no payload/);
        assert.equal(answer.json.dlqRowRemoved, false);
        assert.equal((await rows(m.queue)).length, 1);
    });

    it('bad bodies', async () => {
        const m = await letter();
        for (const body of ['[', '[]', '"x"', '{"queue":1,"queue":2}']) assertError(await replay(m.id, body), 400, /^bad body: expected \{\} or/);
        for (const blank of ['""', '"  "', '5', '{}']) {
            assertError(await replay(m.id, `{"queue":${blank}}`), 400, /^queue override must be a non-empty name$/);
            assertError(await replay(m.id, `{"partition":${blank}}`), 400, /^partition override must be a non-empty name$/);
        }
        assertError(await replay(m.id, { queue: 'x'.repeat(513) }), 413, /queue/);
        assertError(await replay(m.id, { partition: 'a\u0000b' }), 400, /partition/);
        assert.equal((await rows(m.queue)).length, 1);
        assert.equal((await replay(m.id, ' \n')).json.result, 'moved');
    });

    it('wakes a parked consumer', async () => {
        const m = await letter();
        const waiting = c.queen.popPartition(m.queue, 'p', { wait: true, timeout: 30000 });
        await until(async () => Object.entries((await c.queen.status()).counters).some(([k, v]) => /pop_parked/.test(k) && v > 0), 'the pop is parked');
        await replay(m.id);
        assert.deepEqual((await waiting).json.messages.map((x) => x.transactionId), [`dlq:${m.id}`]);
    });

    it('replays of one row that all have pushed already: one stays, the others are undone', async () => {
        const m = await letter(), queues = [unique(), unique(), unique()];
        // Somebody holds the row until all of them wait for it, with their message pushed.
        const holder = spawn('psql', ['-X', '-q', '-d', `host='${c.instance.runDir}/postgres' user=queen dbname=queen`], { stdio: ['pipe', 'ignore', 'inherit'] });
        holder.stdin.write(`begin; select 1 from queen.log_dlq where id = '${m.id}' for update;\n`);
        await until(async () => (await c.instance.psql(`select count(*) from pg_stat_activity where state = 'idle in transaction' and query like '%${m.id}%'`)) === '1', 'the row is held');
        const replays = queues.map((queue) => replay(m.id, { queue }));
        await until(async () => (await c.instance.psql(`select count(*) from pg_stat_activity where wait_event_type = 'Lock' and query like '%dlq_move%'`)) >= 2, 'replays wait');
        holder.stdin.end('commit;\n');
        const results = (await Promise.all(replays)).map((a) => a.json.result).sort();
        assert.deepEqual(results, ['gone', 'gone', 'moved']);
        assert.equal(await c.instance.psql(`select count(*) from queen.log_segments s join queen.log_partitions p on p.id = s.partition_id
            join queen.queues q on q.id = p.queue_id where q.name = any ('{${queues}}')`), '1');
    });

    it('many replays of one row to one place store one message', async () => {
        const m = await letter();
        const results = (await Promise.all(Array.from({ length: 12 }, () => replay(m.id)))).map((a) => a.json.result).sort();
        assert.deepEqual(results, [...Array(11).fill('gone'), 'moved']);
        assert.equal(await c.instance.psql(`select last_offset from queen.log_partitions where id = '${m.partitionId}'`), '1', 'the original and its replay');
    });

    it('replays and the deletion of their queue do not deadlock', async () => {
        const before = await c.instance.psql('select deadlocks from pg_stat_database where datname = current_database()');
        for (let round = 0; round < 5; round++) {
            const queue = unique();
            const letters = [];
            for (let i = 0; i < 6; i++) letters.push(await letter(queue, { t: `m${i}` }));
            const answers = await Promise.all([...letters.map((m) => replay(m.id)), c.queen.delete(queue)]);
            for (const a of answers) assert.ok([200, 404].includes(a.status), a.text);
        }
        assert.equal(await c.instance.psql('select deadlocks from pg_stat_database where datname = current_database()'), before);
    });

    it('push maintenance refuses replays and keeps the rows', async () => {
        const own = await startInstance({ workers: 1 });
        const queen = new Queen(own);
        try {
            await queen.push('q', ['a'], 'p');
            const popped = await queen.popPartition('q', 'p');
            await new Batch(queen, popped.json).ack([['a', 'dlq', 'broken']]);
            const [m] = (await queen.dlq({ queue: 'q' })).json.messages;
            await queen.post('/api/v1/system/maintenance', { enabled: true });
            for (const target of [`/api/v1/dlq/${m.id}/replay`, `/api/v1/messages/${m.partitionId}/a/retry`]) {
                const answer = await queen.post(target, '');
                assertError(answer, 503, /maintenance/);
                assert.deepEqual([answer.json.success, answer.json.result, answer.json.dlqRowRemoved], [false, 'maintenance', false]);
                assert.equal(answer.headers['retry-after'], '1');
            }
            assert.equal((await queen.dlq({ queue: 'q' })).json.total, 1);
            await queen.post('/api/v1/system/maintenance', { enabled: false });
            assert.equal((await queen.post(`/api/v1/dlq/${m.id}/replay`, '')).json.result, 'moved');
        } finally {
            queen.close();
            await own.stop();
        }
    });

    const purge = (parameters) => c.queen.request('DELETE', `/api/v1/dlq${query(parameters)}`);

    it('purges a queue, or one group of it', async () => {
        const m = await letter();
        await letter(m.queue, { t: 'b' });
        await c.instance.psql(`insert into queen.log_dlq (partition_id, consumer_group, "offset", transaction_id, error) values ('${m.partitionId}', 'g', 0, 'a', 'x')`);
        const other = await letter();
        assert.deepEqual((await purge({ queue: m.queue, consumerGroup: 'g' })).json, { success: true, deleted: 1, queue: m.queue, consumerGroup: 'g' });
        assert.equal((await rows(m.queue)).length, 2);
        assert.deepEqual((await purge({ queue: m.queue })).json, { success: true, deleted: 2, queue: m.queue, consumerGroup: null });
        assert.deepEqual((await purge({ queue: m.queue })).json, { success: true, deleted: 0, queue: m.queue, consumerGroup: null });
        assert.equal((await purge({ queue: unique() })).json.deleted, 0);
        assert.equal((await rows(other.queue)).length, 1);
    });

    it('purges more than one transaction deletes', async () => {
        const m = await letter();
        await c.instance.psql(`insert into queen.log_dlq (partition_id, consumer_group, "offset", transaction_id, error)
            select '${m.partitionId}', 'g', 0, 'a', 'x' from generate_series(1, 25000)`);
        assert.equal((await purge({ queue: m.queue })).json.deleted, 25001);
    });

    it('a purge names its queue', async () => {
        for (const parameters of [{}, { queue: '' }, { consumerGroup: 'g' }]) {
            const answer = await purge(parameters);
            assertError(answer, 400, /^queue is required$/);
            assert.equal(answer.json.success, false);
        }
        assertError(await purge({ queue: 'x'.repeat(513) }), 413, /queue/);
    });
});
