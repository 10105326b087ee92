// The lock order of sql/README.md: many clients with random, overlapping bundles, mixed with pushes, fused pops,
// fused acks, nacks, dead letters, first contacts, seeks, renewals and a keeper that fires timers. No deadlock, no
// statement that fails, and every committed bundle is there once.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sleep, unique, useQueen } from './lib/queen.mjs';

const CLIENTS = 24;
const STEPS = 150;
const QUEUES = 3;
const PARTITIONS = 8;
const KEYS = 6;
const GROUPS = ['g1', 'g2', undefined];

/* A seeded generator, so that a failure can be run again: QUEEN_TEST_SEED. */
function random(seed) {
    let s = seed >>> 0;
    return (n) => {
        s = (Math.imul(s, 1664525) + 1013904223) >>> 0;
        return Math.floor((s / 4294967296) * n);
    };
}

describe('lock order', () => {
    const c = useQueen({ workers: 3, env: { RETENTION_INTERVAL: '100', QUEEN_TRANSACTION_CONNECTIONS: '6' } });

    it('has no deadlocks', { timeout: 240000 }, async () => {
        const seed = Number(process.env.QUEEN_TEST_SEED ?? Date.now() % 1e9);
        console.log(`# seed ${seed}`);
        const prefix = unique('locks');
        const queues = Array.from({ length: QUEUES }, (_, i) => `${prefix}-${i}`);
        for (const queue of queues) await c.queen.configure(queue, { leaseTime: 2, retryLimit: 1, retentionEnabled: true, completedRetentionSeconds: 1 });
        // What is committed already: acks of it are tolerated and lock their cursors all the same.
        const settled = [];
        for (const queue of queues) {
            for (let p = 0; p < PARTITIONS; p++) await c.queen.push(queue, ['first'], `p${p}`);
            const { json } = await c.queen.pop(queue, { batch: 1000, partitions: 100, consumerGroup: 'g1', autoAck: true });
            settled.push(...json.messages.map((m) => ({ transactionId: m.transactionId, partitionId: m.partitionId, consumerGroup: 'g1' })));
        }
        assert.equal(settled.length, QUEUES * PARTITIONS);
        const batches = []; // popped, to be acked by anybody
        const tally = {};
        const count = (what) => { tally[what] = (tally[what] ?? 0) + 1; };
        let committed = 0;
        let next = 0;

        const ok = (answer, ...statuses) => assert.ok(statuses.includes(answer.status), `${answer.status} ${answer.text.slice(0, 300)}`);
        const marks = (batch, r) => batch.messages.filter(() => r(4) > 0).map((m) => ({
            transactionId: m.transactionId, partitionId: m.partitionId, status: ['completed', 'completed', 'completed', 'failed', 'dlq', 'retry'][r(6)] }));

        const steps = {
            async push(r) {
                const items = Array.from({ length: 1 + r(8) }, () => ({ queue: queues[r(QUEUES)], partition: `p${r(PARTITIONS + 1)}`, transactionId: `m${next++}`, payload: { n: next } }));
                const answer = await c.queen.pushItems(items);
                ok(answer, 201);
                for (const i of answer.json) assert.equal(i.status, 'queued', answer.text);
            },
            async pop(r) {
                const consumerGroup = r(40) === 0 ? unique('late') : GROUPS[r(GROUPS.length)];
                const answer = await c.queen.pop(queues[r(QUEUES)], { batch: 1 + r(30), partitions: 1 + r(PARTITIONS), consumerGroup, autoAck: r(8) === 0 ? true : undefined });
                ok(answer, 200, 204);
                if (answer.status === 200 && answer.json.leaseId) batches.push({ ...answer.json, consumerGroup });
            },
            async ack(r) {
                const batch = batches.splice(r(batches.length), 1)[0];
                if (!batch) return;
                const whole = r(2) === 0;
                const items = whole ? batch.messages.map((m) => ({ transactionId: m.transactionId, partitionId: m.partitionId })) : marks(batch, r);
                const answer = await c.queen.ackBatch(items.map((i) => ({ ...i, leaseId: batch.leaseId })), batch.consumerGroup);
                ok(answer, 200);
                for (const i of answer.json)
                    assert.ok(i.success || /invalid or expired lease|already committed|unresolvable|dlq rejected|consumer not found/.test(i.error), answer.text);
            },
            async transaction(r) {
                const operations = [];
                const requiredLeases = [];
                for (let i = r(6); i > 0; i--)
                    operations.push({ type: 'push', queue: queues[r(QUEUES)], partition: `p${r(PARTITIONS + 2)}`, transactionId: `m${next++}`, payload: i });
                const leaseless = r(3) === 0;
                for (let i = r(4); i > 0 && batches.length > 0; i--) {
                    const at = r(batches.length);
                    const batch = batches[at];
                    if (r(2) === 0) batches.splice(at, 1); // else others meet this one at the same cursors
                    if (!leaseless) requiredLeases.push(batch.leaseId);
                    const items = r(2) === 0 ? batch.messages.map((m) => ({ transactionId: m.transactionId, partitionId: m.partitionId })) : marks(batch, r);
                    operations.push(...items.map((item) => ({ type: 'ack', ...item, consumerGroup: batch.consumerGroup })));
                }
                for (let i = r(8); i > 0; i--) operations.push({ type: 'ack', ...settled[r(settled.length)] });
                operations.sort(() => r(3) - 1);
                const keys = new Set(Array.from({ length: r(4) }, () => `${prefix}-k${r(KEYS)}`));
                const kv = [...keys].map((key) => ({ op: 'incr', ns: 'locks', key, delta: 1, forever: true }));
                kv.push({ op: 'incr', ns: 'locks', key: prefix, delta: 1, forever: true }); // counts the commits
                const timerKeys = new Set(Array.from({ length: r(3) }, () => `t${r(KEYS)}`));
                const timers = [...timerKeys].map((timerKey) => (r(3) === 0 ? { op: 'cancel', queue: queues[r(QUEUES)], timerKey }
                    : { op: 'schedule', queue: queues[r(QUEUES)], partition: `p${r(PARTITIONS)}`, timerKey, delayMs: r(50), txn: `m${next++}`, payload: 'e30=' }));
                const answer = await c.queen.post('/api/v1/transaction', { operations, requiredLeases, kv, timers });
                ok(answer, 200);
                if (answer.json.success) committed++;
                else assert.equal(answer.json.reason, 'ack_rejected', answer.text); // a lease that is gone meanwhile
                count(answer.json.success ? 'committed' : 'rolled back');
            },
            async kv(r) {
                ok(await c.queen.post('/api/v1/kv', { operations: [0, 1, 2].map((i) => ({ op: 'incr', ns: 'locks', key: `${prefix}-k${(r(KEYS) + i * KEYS) % (3 * KEYS)}`, delta: 1, forever: true })) }), 200);
            },
            async extend(r) {
                if (batches.length > 0) ok(await c.queen.extend(batches[r(batches.length)].leaseId, '{"seconds":3}'), 200);
            },
            async group(r) {
                const queue = queues[r(QUEUES)];
                // g1 is only sought to the end: what is settled stays so.
                if (r(2) === 0) ok(await c.queen.post(`/api/v1/consumer-groups/${GROUPS[r(2)]}/queues/${queue}/seek`, { toEnd: true }), 200);
                else ok(await c.queen.request('DELETE', `/api/v1/consumer-groups/g2/queues/${queue}?deleteMetadata=${r(2) === 0}`), 200, 404);
            },
        };
        const names = ['push', 'push', 'pop', 'pop', 'pop', 'ack', 'ack', 'transaction', 'transaction', 'transaction', 'transaction', 'kv', 'extend', 'group'];

        const deadlocks = async () => Number(await c.instance.psql('select sum(deadlocks) from pg_stat_database'));
        const before = await deadlocks();
        await Promise.all(Array.from({ length: CLIENTS }, async (_, i) => {
            const r = random(seed + i);
            for (let step = 0; step < STEPS; step++) {
                const name = names[r(names.length)];
                count(name);
                await steps[name](r);
            }
        }));
        console.log(`# ${JSON.stringify(tally)}`);
        assert.ok(tally.committed > 100, JSON.stringify(tally));
        assert.equal(await c.instance.psql(`select value from queen.kv where namespace = 'locks' and key = '${prefix}'`), String(committed));

        await sleep(1500); // sessions report their figures about once a second; the log is written at once
        assert.equal(await deadlocks(), before);
        assert.doesNotMatch(c.instance.log('postgres'), /deadlock detected/);
        for (const name of ['worker', 'flusher', 'keeper']) assert.doesNotMatch(c.instance.log(name), /40P01|deadlock/, name);
        assert.equal(await c.instance.psql(`select count(*) from pg_stat_activity where state = 'idle in transaction'`), '0');
    });
});
