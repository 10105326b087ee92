// Transactions when the way to PostgreSQL breaks: an answer that was lost, a statement that never arrived, a server
// that dies under load. A transaction runs once or not at all, and the client is not told otherwise.
import assert from 'node:assert/strict';
import path from 'node:path';
import { after, before, describe, it } from 'node:test';
import { startInstance } from './lib/instance.mjs';
import { startPgRelay } from './lib/pg_relay.mjs';
import { Queen, unique, until, useQueen } from './lib/queen.mjs';

const pushOp = (queue, transactionId, more = {}) => ({ type: 'push', queue, transactionId, payload: { t: transactionId }, ...more });
const ackOp = (message, more = {}) => ({ type: 'ack', transactionId: message.transactionId, partitionId: message.partitionId, ...more });

describe('transactions over connections that break', () => {
    // Two hosts on one database; the second one's way to it leads through the relay.
    const near = useQueen({ workers: 1 });
    let relay;
    let far;
    let queen;
    before(async () => {
        relay = await startPgRelay(path.join(near.instance.runDir, 'postgres', '.s.PGSQL.5432'));
        far = await startInstance({ workers: 1, env: { QUEEN_DATABASE_URL: `host=127.0.0.1 port=${relay.port} user=queen dbname=queen sslmode=disable gssencmode=disable`, QUEEN_REQUEST_TIMEOUT_MS: '3000' } });
        queen = new Queen(far);
    }, { timeout: 120000 });
    after(async () => {
        queen?.close();
        await far?.stop();
        await relay?.close();
    }, { timeout: 60000 });

    /* One of everything; a second run would show in each part. */
    async function bundle() {
        const [source, target, key] = [unique('src'), unique('dst'), unique('k')];
        await near.queen.configure(target, { dedupWindowSeconds: 0 });
        await near.queen.push(source, ['a', 'b']);
        const b = await near.queen.take(source, ['a', 'b'], { batch: 10 });
        const body = { operations: [pushOp(target, 'x'), ackOp(b.messages[0]), ackOp(b.messages[1], { status: 'dlq', error: 'bad' })], requiredLeases: [b.leaseId],
            kv: [{ op: 'incr', ns: 'retry', key, delta: 1, forever: true }], timers: [{ op: 'schedule', queue: target, timerKey: key, delayMs: 3600000, txn: 't', payload: 'e30=' }] };
        const times = async () => {
            const messages = await near.instance.psql(`select coalesce(sum(last_offset + 1), 0) from queen.log_partitions p join queen.queues q on q.id = p.queue_id where q.name = '${target}'`);
            const value = await near.instance.psql(`select coalesce(max(value), '0') from queen.kv where namespace = 'retry' and key = '${key}'`);
            const dead = (await near.queen.dlq({ queue: source })).json.messages.length;
            const left = (await near.queen.pop(source, { batch: 10 })).status === 204;
            return [Number(messages), Number(value), dead, left];
        };
        return { body, times };
    }

    it('an answer that is lost after the commit: the same outcome', async () => {
        const { body, times } = await bundle();
        delete body.operations[2].status; // no dead letter: the first run commits
        relay.cut('transaction', 'after');
        const answer = await queen.post('/api/v1/transaction', body);
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual([answer.json.success, answer.json.results.map((r) => r.type)], [true, ['push', 'ack', 'ack', 'kv', 'timer']], answer.text);
        assert.deepEqual([answer.json.results[3].value, answer.json.results[4].status, answer.json.results[4].txn], [1, 'scheduled', 't']);
        assert.equal(relay.hits, 1);
        assert.deepEqual(await times(), [1, 1, 0, true]);
    });

    it('the same with a dead letter, whichever run is cut', async () => {
        for (const hits of [1, 2]) {
            const { body, times } = await bundle();
            relay.cut('transaction', 'after', hits);
            const answer = await queen.post('/api/v1/transaction', body);
            assert.equal(answer.status, 200, answer.text);
            assert.deepEqual(answer.json.results.map((r) => r.dlq), [undefined, false, true, undefined, undefined], answer.text);
            assert.equal(relay.hits, hits);
            assert.deepEqual(await times(), [1, 1, 1, true]);
        }
    });

    it('a read of the dead letters that is cut', async () => {
        const { body, times } = await bundle();
        relay.cut('transaction_dead_letters', 'after', 2);
        const answer = await queen.post('/api/v1/transaction', body);
        assert.equal(answer.json.success, true, answer.text);
        assert.equal(relay.hits, 2);
        assert.deepEqual(await times(), [1, 1, 1, true]);
    });

    it('a statement that never arrives', async () => {
        const { body, times } = await bundle();
        relay.cut('transaction', 'before', 3);
        const answer = await queen.post('/api/v1/transaction', body);
        assert.equal(answer.json.success, true, answer.text);
        assert.equal(relay.hits, 3);
        assert.deepEqual(await times(), [1, 1, 1, true]);
    });

    it('a refusal whose answer is lost is found again', async () => {
        const { body, times } = await bundle();
        body.operations.push(ackOp({ transactionId: 'ghost', partitionId: body.operations[1].partitionId }));
        relay.cut('transaction', 'after');
        const answer = await queen.post('/api/v1/transaction', body);
        assert.deepEqual([answer.status, answer.json.success, answer.json.reason], [200, false, 'ack_rejected'], answer.text);
        assert.deepEqual((await times()).slice(0, 3), [0, 0, 0]);
    });

    it('cut until the deadline: the outcome is unknown, and said to be', async () => {
        const { body, times } = await bundle();
        delete body.operations[2].status;
        relay.cut('transaction', 'after', 1e9);
        const answer = await queen.post('/api/v1/transaction', body);
        relay.cut('transaction', 'after', 0);
        assert.deepEqual([answer.status, answer.json.code, answer.headers['retry-after']], [503, 'outcome_unknown', '1'], answer.text);
        assert.match(answer.json.error, /outcome_unknown/);
        assert.deepEqual(await times(), [1, 1, 0, true]);
    });
});

describe('transactions and PostgreSQL dying', () => {
    const c = useQueen({ workers: 2, env: { QUEEN_REQUEST_TIMEOUT_MS: '20000', QUEEN_FALLBACK_POLL_MS: '60000' } });
    const post = (body) => c.queen.post('/api/v1/transaction', body);

    it('wakes parked pops: of the queue pushed to, and of the partition whose lease is released', async () => {
        const [queue, other] = [unique(), unique()];
        await c.queen.nothing(other);
        await c.queen.push(queue, ['a', 'b']);
        const b = await c.queen.take(queue, ['a'], { batch: 1 });
        const waits = [c.queen.pop(other, { wait: true, timeout: 20000 }), c.queen.pop(queue, { wait: true, timeout: 20000 })];
        await until(async () => (await c.queen.counters()).pop_parked >= 2, 'both are parked');
        assert.equal((await post({ operations: [ackOp(b.messages[0]), pushOp(other, 'x')], requiredLeases: [b.leaseId] })).json.success, true);
        const got = await Promise.all(waits);
        assert.deepEqual(got.map((a) => a.json.messages[0].transactionId), ['x', 'b']); // without wake-ups both would be 204
    });

    it('PostgreSQL killed under load: what was answered holds, nothing twice, nothing half', async () => {
        const queue = unique();
        await c.queen.configure(queue, { dedupWindowSeconds: 0 }); // a transaction that ran twice would show
        const answers = new Map();
        let stop = false;
        let n = 0;
        const client = async () => {
            while (!stop) {
                const id = `t${n++}`;
                const body = { operations: [pushOp(queue, `${id}-a`), pushOp(queue, `${id}-b`, { partition: 'p' })], kv: [{ op: 'incr', ns: 'txn', key: id, delta: 1, forever: true }] };
                const answer = await post(body).catch((error) => ({ status: 0, text: String(error) }));
                answers.set(id, answer.status === 200 && answer.json.success ? 'committed' : answer.status === 200 ? 'rolled back' : answer.status === 503 && answer.json.code === 'timeout' ? 'nothing' : 'unknown');
            }
        };
        const clients = Array.from({ length: 8 }, client);
        for (let round = 0; round < 3; round++) {
            const [size] = [answers.size];
            await until(() => answers.size > size + 40, 'transactions go through');
            const [postmaster] = c.instance.pids().postmaster;
            process.kill(postmaster, 'SIGKILL');
            await until(() => c.instance.pids().postmaster.some((p) => p !== postmaster), 'PostgreSQL is back', 60000);
            await until(() => c.instance.psql('select 1').catch(() => false), 'it answers', 60000);
        }
        const size = answers.size;
        await until(() => answers.size > size + 40, 'transactions go through again', 60000);
        stop = true;
        await Promise.all(clients);

        const seen = new Map();
        for (const partition of ['Default', 'p'])
            for (;;) {
                const got = await c.queen.popPartition(queue, partition, { batch: 10000, autoAck: true });
                if (got.status === 204) break;
                for (const m of got.json.messages) seen.set(m.transactionId, (seen.get(m.transactionId) ?? 0) + 1);
            }
        const counts = new Map((await c.instance.psql(`select key, value from queen.kv where namespace = 'txn'`)).split('\n').map((line) => line.split('|')));
        let committedCount = 0;
        for (const [id, verdict] of answers) {
            const parts = [seen.get(`${id}-a`) ?? 0, seen.get(`${id}-b`) ?? 0, Number(counts.get(id) ?? 0)];
            assert.ok(parts.every((p) => p === parts[0]) && parts[0] <= 1, `${id} ${verdict}: ${parts}`);
            if (verdict === 'committed') assert.deepEqual(parts, [1, 1, 1], id);
            if (verdict === 'rolled back' || verdict === 'nothing') assert.deepEqual(parts, [0, 0, 0], `${id} ${verdict}`);
            committedCount += verdict === 'committed' ? 1 : 0;
        }
        assert.ok(committedCount > 100, `${committedCount} of ${answers.size}`);
    });

    it('while PostgreSQL is down: held, then done', async () => {
        const queue = unique();
        const [postmaster] = c.instance.pids().postmaster;
        process.kill(postmaster, 'SIGKILL');
        const answer = await post({ operations: [pushOp(queue, 'a')] });
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.json.success, true);
        const popped = await until(async () => { const p = await c.queen.pop(queue); return p.status === 200 && p; }, 'it is delivered');
        assert.deepEqual(popped.json.messages.map((m) => m.transactionId), ['a']);
    });
});
