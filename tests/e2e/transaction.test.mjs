// POST /api/v1/transaction: pushes, acks and riders in one transaction; fan-in; every reason to roll back,
// with nothing left of it; leases; nacks and dead letters.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ERROR_LEASE, ERROR_UNRESOLVABLE, TIME, UUID_V7, unique, useQueen } from './lib/queen.mjs';

const base64 = (text) => Buffer.from(text).toString('base64');
const pushOp = (queue, transactionId, more = {}) => ({ type: 'push', queue, transactionId, payload: { t: transactionId }, ...more });
const ackOp = (message, more = {}) => ({ type: 'ack', transactionId: message.transactionId, partitionId: message.partitionId, ...more });
const put = (key, value, more = {}) => ({ op: 'put', ns: 'txn', key, value, forever: true, ...more });

describe('transaction', () => {
    const c = useQueen();
    const post = (body, options) => c.queen.post('/api/v1/transaction', body, options);

    async function committed(body) {
        const answer = await post(body);
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.json.success, true, answer.text);
        assert.deepEqual(Object.keys(answer.json), ['transactionId', 'success', 'results']);
        assert.match(answer.json.transactionId, UUID_V7);
        answer.json.results.forEach((r, i) => assert.equal(r.index, i));
        return answer.json.results;
    }

    async function refused(body, reason, error, status = 200) {
        const answer = await post(body);
        assert.equal(answer.status, status, answer.text);
        assert.match(answer.headers['content-type'], /^application\/json/);
        assert.deepEqual([answer.json.success, answer.json.reason, answer.json.results], [false, reason, []], answer.text);
        assert.match(answer.json.transactionId, UUID_V7);
        assert.equal(typeof answer.json.error, 'string');
        if (error instanceof RegExp) assert.match(answer.json.error, error);
        else if (error) assert.ok(answer.json.error.includes(error), answer.json.error);
        return answer.json;
    }

    const kvGet = async (key) => (await c.queen.get(`/api/v1/kv/txn/${key}`)).json;
    const sql = (text) => c.instance.psql(text);
    /* Pushes and pops; the batch. */
    async function batch(queue, ids, parameters = {}) {
        await c.queen.push(queue, ids);
        return c.queen.take(queue, ids, { batch: 100, ...parameters });
    }

    describe('commits', () => {
        it('a push with all its fields, an ack, a key and a timer; results in one index space', async () => {
            const [source, target] = [unique('src'), unique('dst')];
            const b = await batch(source, ['m1', 'm2'], { consumerGroup: 'g' });
            const trace = '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90';
            const body = `{"operations":[
                {"type":"push","items":[{"queue":"${target}","partition":"p","payload": {"a":1.0,"a":12345678901234567890123} ,"transactionId":"t1","traceId":"${trace}"},
                                        {"queue":"${target}","partition":"p","data":"\\u0041","traceId":"no uuid"}]},
                {"type":"ack","transactionId":"m1","partitionId":"${b.partitionId}","consumerGroup":"g","leaseId":"${b.leaseId}","error":null},
                {"type":"push","queue":"${target}","partition":null,"transactionId":""},
                {"type":"ack","transactionId":"m2","partitionId":"${b.partitionId}","consumerGroup":"g","status":"ok"}],
                "requiredLeases":["${b.leaseId}"],
                "kv":[${JSON.stringify(put(`${source}-k`, { v: 1 }))},{"op":"get","ns":"txn","key":"nothing"}],
                "timers":[{"op":"schedule","queue":"${target}","key":"k","delaySeconds":3600,"txn":"later","payload":{"n":1}}]}`;
            const r = await committed(body);
            assert.deepEqual(r.map((x) => x.type), ['push', 'push', 'ack', 'push', 'ack', 'kv', 'kv', 'timer']);
            assert.deepEqual(Object.keys(r[0]), ['index', 'type', 'success', 'transactionId', 'messageId', 'queueName']);
            assert.deepEqual([r[0].transactionId, r[0].queueName, r[0].success], ['t1', target, true]);
            assert.match(r[0].messageId, UUID_V7);
            assert.equal(r[1].transactionId, r[1].messageId);
            assert.equal(r[3].transactionId, r[3].messageId);
            assert.deepEqual(r[2], { index: 2, type: 'ack', success: true, transactionId: 'm1', error: null, dlq: false });
            assert.deepEqual([r[5].opIndex, r[5].op, r[5].applied, r[5].value], [0, 'put', true, { v: 1 }]);
            assert.deepEqual(r[6], { index: 6, opIndex: 1, type: 'kv', op: 'get', found: false, key: 'nothing' });
            assert.deepEqual([r[7].opIndex, r[7].ok, r[7].status, r[7].queue, r[7].timerKey, r[7].txn], [0, true, 'scheduled', target, 'k', 'later']);
            assert.match(r[7].deliverAt, TIME);

            await c.queen.nothing(source, { consumerGroup: 'g' });
            assert.equal((await kvGet(`${source}-k`)).found, true);
            const popped = await c.queen.popPartition(target, 'p', { batch: 10 });
            assert.ok(popped.text.includes('"data":{"a":1.0,"a":12345678901234567890123}'), popped.text);
            assert.ok(popped.text.includes('"data":"\\u0041"'), popped.text);
            assert.deepEqual(popped.json.messages.map((m) => [m.id, m.transactionId, m.traceId]),
                [[r[0].messageId, 't1', trace], [r[1].messageId, r[1].transactionId, null]]);
            const [other] = (await c.queen.popPartition(target, 'Default')).json.messages;
            assert.deepEqual([other.id, other.data], [r[3].messageId, {}]);
            assert.equal((await c.queen.get(`/api/v1/timers/${target}/k`)).json.found, true);
        });

        it('an empty list of operations', async () => {
            assert.deepEqual(await committed({ operations: [] }), []);
            assert.deepEqual(await committed({ operations: [], kv: null, timers: null, requiredLeases: null }), []);
            assert.deepEqual(await committed({ operations: [{ type: 'push', items: [] }] }), []);
        });

        it('riders without operations', async () => {
            const key = unique('k');
            const r = await committed({ kv: [put(key, [1])], operations: null });
            assert.deepEqual([r[0].type, r[0].applied], ['kv', true]);
            const [t] = await committed({ timers: [{ op: 'cancel', queue: 'q', timerKey: key, txn: 'mine' }] });
            assert.deepEqual(t, { index: 0, opIndex: 0, type: 'timer', ok: false, status: 'absent', queue: 'q', timerKey: key, txn: 'mine' });
            const [u] = await committed({ timers: [{ op: 'schedule', queue: key, timerKey: 'k', delayMs: 3600000, txn: 'ä\u0000b', payload: base64('[1]') }] });
            assert.deepEqual([u.status, u.txn], ['scheduled', 'ä\u0000b']);
            const [v] = await committed({ timers: [{ op: 'cancel', queue: key, timerKey: 'k' }] });
            assert.deepEqual([v.status, v.txn], ['cancelled', 'ä\u0000b']);
        });

        it('a lost condition without required does not roll back', async () => {
            const key = unique('k');
            await committed({ kv: [put(key, 1)] });
            const r = await committed({ operations: [], kv: [{ ...put(key, 2), op: 'putIfAbsent' }] });
            assert.deepEqual([r[0].applied, r[0].reason, r[0].value], [false, 'exists', 1]);
        });

        it('values of keys byte for byte', async () => {
            const key = unique('k');
            const answer = await post(`{"kv":[{"op":"put","ns":"txn","key":"${key}","value":{"n":1.0,"u":"\\u0000","n":1e400},"forever":true},{"op":"get","ns":"txn","key":"${key}"}]}`);
            assert.equal(answer.text.split('"value":{"n":1.0,"u":"\\u0000","n":1e400}').length, 3, answer.text);
        });

        it('an id twice in the bundle: the first wins', async () => {
            const queue = unique();
            const r = await committed({ operations: [pushOp(queue, 'a'), pushOp(queue, 'b'), pushOp(queue, 'a', { payload: 2 }), pushOp(queue, 'a', { partition: 'other' })] });
            assert.deepEqual(r.map((x) => x.duplicate), [undefined, undefined, true, undefined]);
            assert.equal(r[2].messageId, r[0].messageId);
            const { json } = await c.queen.popPartition(queue, 'Default', { batch: 10 });
            assert.deepEqual(json.messages.map((m) => m.data), [{ t: 'a' }, { t: 'b' }]);
            assert.equal((await c.queen.popPartition(queue, 'other', { batch: 10 })).json.messages[0].transactionId, 'a');
        });

        it('fan-in: acks of many partitions and queues, recognised and by hash, and one push', async () => {
            const queues = [unique('f1'), unique('f2'), unique('f3')];
            const operations = [];
            const leases = new Set();
            for (const queue of queues) {
                for (let p = 0; p < 20; p++) await c.queen.push(queue, [`${p}-a`, `${p}-b`], `p${p}`);
                const { json } = await c.queen.pop(queue, { batch: 1000, partitions: 100 });
                assert.equal(json.messages.length, 40);
                leases.add(json.leaseId);
                // of every third partition only the last message: the seed's "ack the last of the batch"
                for (const m of json.messages) if (Number(m.partition.slice(1)) % 3 !== 0 || m.transactionId.endsWith('b')) operations.push(ackOp(m));
            }
            const target = unique('out');
            const r = await committed({ operations: [...operations, pushOp(target, 'sum')], requiredLeases: [...leases] });
            assert.equal(r.length, operations.length + 1);
            for (const queue of queues) {
                await c.queen.nothing(queue, { batch: 1000, partitions: 100 });
                assert.equal(await sql(`select count(*), min(committed), max(committed), count(worker_id) from queen.log_consumers c join queen.log_partitions p on p.id = c.partition_id
                    join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`), '20|1|1|0');
            }
            await c.queen.take(target, ['sum']);
        });

        it('a duplicate is one only inside its window', async () => {
            const queue = unique();
            await c.queen.configure(queue, { dedupWindowSeconds: 0 });
            await committed({ operations: [pushOp(queue, 'a')] });
            await committed({ operations: [pushOp(queue, 'a')] });
            await c.queen.take(queue, ['a', 'a'], { batch: 10 });
        });

        it('what a transaction pushed is a duplicate for pushes, and the other way round', async () => {
            const queue = unique();
            await committed({ operations: [pushOp(queue, 'a')] });
            const [again] = (await c.queen.pushItems([{ queue, transactionId: 'a', payload: 1 }])).json;
            assert.equal(again.status, 'duplicate');
            await c.queen.push(queue, ['b']);
            const { error } = await refused({ operations: [pushOp(queue, 'c'), pushOp(queue, 'b')] }, 'duplicate', 'operation 1: duplicate: transactionId "b"');
            assert.ok(error.includes(queue), error);
            await c.queen.take(queue, ['a', 'b'], { batch: 10 });
        });
    });

    describe('leases of acks', () => {
        it('the holder is used when it is named, as existing clients do', async () => {
            const b = await batch(unique(), ['a', 'b']);
            await committed({ operations: [ackOp(b.messages[0])], requiredLeases: [b.leaseId] });
            await committed({ operations: [ackOp(b.messages[1])], requiredLeases: [b.leaseId, b.leaseId] });
            await c.queen.nothing(b.json.queue);
        });

        it('without any lease named, acks are lease-less', async () => {
            const b = await batch(unique(), ['a', 'b']);
            await committed({ operations: [ackOp(b.messages[1])], requiredLeases: [] });
            await c.queen.nothing(b.json.queue);
        });

        for (const [what, make] of [
            ['of its own', (b, lease) => ({ operations: [ackOp(b.messages[0], { leaseId: lease })] })],
            ['named', (b, lease) => ({ operations: [ackOp(b.messages[0])], requiredLeases: [lease] })],
        ]) {
            it(`a foreign lease ${what} rolls back`, async () => {
                const queue = unique('out');
                const b = await batch(unique(), ['a']);
                for (const lease of ['0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90', 'x'.repeat(1000), 'nul\u0000']) {
                    const body = make(b, lease);
                    body.operations.unshift(pushOp(queue, 'p'));
                    await refused(body, 'ack_rejected', `operation 1: ${ERROR_LEASE}`);
                }
                await c.queen.nothing(queue);
                await b.complete();
            });

            it(`an expired lease ${what} rolls back`, async () => {
                const b = await batch(unique(), ['a'], { leaseSeconds: 1 });
                await b.expired();
                await refused(make(b, b.leaseId), 'ack_rejected', ERROR_LEASE);
                const again = await c.queen.take(b.json.queue, ['a']);
                await refused(make(b, b.leaseId), 'ack_rejected', ERROR_LEASE);
                await committed(make(again, again.leaseId));
            });

            it(`after a nack released the lease ${what}, the rest of the batch cannot be committed`, async () => {
                const b = await batch(unique(), ['a', 'b']);
                await b.ack([['a', 'failed']]);
                const body = make(b, b.leaseId);
                body.operations[0].transactionId = 'b';
                await refused(body, 'ack_rejected', ERROR_LEASE);
                await c.queen.take(b.json.queue, ['a', 'b'], { batch: 10 });
            });
        }

        it('two leases for one cursor: one of them is stale', async () => {
            const b = await batch(unique(), ['a', 'b']);
            await refused({ operations: [ackOp(b.messages[0], { leaseId: b.leaseId }), ackOp(b.messages[1], { leaseId: 'other' })] }, 'ack_rejected', `operation 1: ${ERROR_LEASE}`);
            await b.complete();
        });

        it('the same acks again find their lease released', async () => {
            const b = await batch(unique(), ['a']);
            const body = { operations: [ackOp(b.messages[0], { leaseId: b.leaseId })] };
            await committed(body);
            await refused(body, 'ack_rejected', ERROR_LEASE);
        });

        it('what is at or below the cursor is tolerated', async () => {
            const b = await batch(unique(), ['a', 'b', 'c']);
            await b.ack([['b', 'completed']]);
            const r = await committed({ operations: [ackOp(b.messages[0]), ackOp(b.messages[1], { status: 'failed' })], requiredLeases: [b.leaseId] });
            assert.deepEqual(r.map((x) => [x.success, x.dlq]), [[true, false], [true, false]]);
            await b.ack([['c', 'completed']]);
            await committed({ operations: b.messages.map((m) => ackOp(m)), requiredLeases: [b.leaseId] });
        });

        it('a position above the leased batch rolls back', async () => {
            const queue = unique();
            await c.queen.push(queue, ['a', 'b', 'c']);
            const b = await c.queen.take(queue, ['a', 'b'], { batch: 2 });
            await refused({ operations: [ackOp({ transactionId: 'c', partitionId: b.partitionId }, { leaseId: b.leaseId })] }, 'ack_rejected', ERROR_UNRESOLVABLE);
            await refused({ operations: [ackOp({ transactionId: 'c', partitionId: b.partitionId })] }, 'ack_rejected', ERROR_UNRESOLVABLE);
            await b.complete();
        });

        it('acks that resolve nowhere roll back', async () => {
            const b = await batch(unique(), ['a']);
            for (const [transactionId, partitionId] of [['never', b.partitionId], [undefined, b.partitionId], ['a', '0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90'], ['a', 'no uuid'], ['a', undefined], ['a', null]])
                await refused({ operations: [ackOp(b.messages[0]), { type: 'ack', transactionId, partitionId }] }, 'ack_rejected', /^operation 1: unresolvable/);
            await refused({ operations: [ackOp(b.messages[0], { consumerGroup: 'nobody' })] }, 'ack_rejected', /^operation 0: unresolvable/);
            await b.complete();
        });
    });

    describe('nacks', () => {
        it('failed charges the budget, retry does not, the lowest signal clamps', async () => {
            const queue = unique();
            const cursor = () => sql(`select committed, batch_retry_count, worker_id is null from queen.log_consumers c join queen.log_partitions p on p.id = c.partition_id
                join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`);
            let b = await batch(queue, ['a', 'b', 'c']);
            await committed({ operations: [ackOp(b.messages[0]), ackOp(b.messages[1], { status: 'oops' }), ackOp(b.messages[2])], requiredLeases: [b.leaseId] });
            assert.equal(await cursor(), '0|1|t');
            b = await c.queen.take(queue, ['b', 'c'], { batch: 10 });
            await committed({ operations: [ackOp(b.messages[0], { status: 'retry', leaseId: b.leaseId })] });
            assert.equal(await cursor(), '0|1|t');
        });

        it('a dead letter is filed with the transaction, with its payload and reason', async () => {
            const [queue, target] = [unique(), unique('out')];
            await c.queen.post('/api/v1/push', `{"items":[{"queue":"${queue}","transactionId":"a","payload":1},{"queue":"${queue}","transactionId":"b","payload":{"n":1.0,"u":"\\u0000"}},{"queue":"${queue}","transactionId":"c","payload":3}]}`);
            const b = await c.queen.take(queue, ['a', 'b', 'c'], { batch: 10 });
            const r = await committed({ operations: [ackOp(b.messages[0]), ackOp(b.messages[1], { status: 'dlq', error: 'poisoned' }), pushOp(target, 'x'), ackOp(b.messages[2])], requiredLeases: [b.leaseId] });
            assert.deepEqual(r.map((x) => x.dlq), [false, true, undefined, false]);
            const dlq = await c.queen.dlq({ queue });
            assert.deepEqual(dlq.json.messages.map((m) => [m.transactionId, m.errorMessage]), [['b', 'poisoned']]);
            assert.ok(dlq.text.includes('{"n":1.0,"u":"\\u0000"}'), dlq.text);
            await c.queen.take(target, ['x']);
            await c.queen.take(queue, ['c'], { batch: 10 });
        });

        it('an exhausted budget dead-letters, or drops when dead-lettering is off', async () => {
            for (const off of [false, true]) {
                const queue = unique();
                await c.queen.configure(queue, { retryLimit: 0, ...(off ? { deadLetterQueue: false, dlqAfterMaxRetries: false } : {}) });
                const b = await batch(queue, ['a', 'b']);
                const [r] = await committed({ operations: [ackOp(b.messages[0], { status: 'failed', error: 'no\u0000more' })], requiredLeases: [b.leaseId] });
                assert.equal(r.dlq, !off);
                assert.deepEqual((await c.queen.dlq({ queue })).json.messages.map((m) => m.errorMessage), off ? [] : ['no']);
                await c.queen.take(queue, ['b'], { batch: 10 });
            }
        });

        it('several dead letters of several partitions, and one whose segment is gone', async () => {
            const queue = unique();
            for (let p = 0; p < 3; p++) await c.queen.push(queue, ['a', 'b'], `p${p}`);
            const { json } = await c.queen.pop(queue, { batch: 100, partitions: 10 });
            const gone = json.messages.find((m) => m.partition === 'p1').partitionId;
            await sql(`delete from queen.log_segments where partition_id = '${gone}'`);
            const r = await committed({ operations: json.messages.filter((m) => m.transactionId === 'a').map((m) => ackOp(m, { status: 'dlq' })), requiredLeases: [json.leaseId] });
            assert.deepEqual(r.map((x) => x.dlq), [true, true, true]);
            assert.equal(await sql(`select count(*), count(payload), min("offset"), max("offset") from queen.log_dlq d join queen.log_partitions p on p.id = d.partition_id
                join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`), '3|2|0|0');
        });

        it('a rollback after them leaves no dead letter and no charge', async () => {
            const queue = unique();
            await c.queen.push(queue, ['dup']);
            const b = await batch(unique(), ['a', 'b']);
            await refused({ operations: [ackOp(b.messages[0], { status: 'dlq' }), pushOp(queue, 'dup')], requiredLeases: [b.leaseId] }, 'duplicate');
            const other = await batch(unique(), ['a']);
            await refused({ operations: [ackOp(b.messages[0], { status: 'dlq' }), ackOp(other.messages[0], { transactionId: 'ghost' })], requiredLeases: [b.leaseId] }, 'ack_rejected');
            assert.deepEqual((await c.queen.dlq({ queue: b.json.queue })).json.messages, []);
            await b.complete();
        });
    });

    describe('rollbacks leave nothing', () => {
        /* Everything a transaction can write, beside what makes it fail. */
        async function nothingOf(reason, spoil, status = 200, error) {
            const [source, target, key] = [unique('src'), unique('dst'), unique('k')];
            const b = await batch(source, ['m']);
            const body = {
                operations: [pushOp(target, 'new'), ackOp(b.messages[0])], requiredLeases: [b.leaseId],
                kv: [put(key, 1)], timers: [{ op: 'schedule', queue: target, timerKey: 'k', delayMs: 3600000, txn: 't', payload: base64('1') }],
            };
            await spoil(body, { source, target, key, b });
            const answer = await refused(body, reason, error, status);
            assert.equal((await kvGet(key)).found, false);
            assert.equal((await c.queen.get(`/api/v1/timers/${target}/k`)).json.found, false);
            assert.equal(await sql(`select count(*) from queen.queues where name = '${target}'`), '0');
            await c.queen.nothing(source);
            await b.complete();
            return answer;
        }

        it('duplicate', async () => {
            const taken = unique('taken');
            await c.queen.push(taken, ['x']);
            await nothingOf('duplicate', (body) => body.operations.push(pushOp(taken, 'x')), 200, 'operation 2: duplicate');
        });
        it('ack_rejected', () => nothingOf('ack_rejected', (body, { b }) => body.operations.push(ackOp({ transactionId: 'ghost', partitionId: b.partitionId })), 200, 'operation 2: unresolvable'));
        it('kv_precondition, with the winner', async () => {
            const held = unique('held');
            await committed({ kv: [put(held, { by: 'other', n: 1.5 })] });
            const { version } = await kvGet(held);
            const answer = await nothingOf('kv_precondition', (body) => body.kv.push({ ...put(held, 2), op: 'putIfAbsent', required: true }));
            assert.deepEqual([answer.ok, answer.failedIndex, answer.kvReason, answer.version, answer.value], [false, 3, 'exists', version, { by: 'other', n: 1.5 }]);
            const absent = await nothingOf('kv_precondition', (body) => body.kv.push({ op: 'delete', ns: 'txn', key: unique(), required: true }));
            assert.deepEqual([absent.kvReason, absent.version, absent.value], ['absent', 0, null]);
        });
        it('kv_precondition with a large value', async () => {
            const held = unique('held');
            const value = 'v'.repeat(60000);
            await committed({ kv: [put(held, value)] });
            assert.equal((await refused({ kv: [put(held, 1, { expect: 0, required: true })] }, 'kv_precondition')).value, value);
        });
        it('timer_horizon_exceeded', () => nothingOf('timer_horizon_exceeded', (body) => { body.timers[0].delayMs = 91 * 86400000; }, 403));
        it('payload_too_large: a value', () => nothingOf('payload_too_large', (body) => { body.kv[0].value = 'x'.repeat(65536); }, 413));
        it('payload_too_large: the payload of a timer', () => nothingOf('payload_too_large', (body) => { body.timers[0].payload = base64(`"${'x'.repeat(1 << 20)}"`); }, 413));
        it('bad_request: found by SQL', async () => {
            await nothingOf('bad_request', (body) => { delete body.kv[0].forever; }, 400, 'kv_expiry_not_specified');
            await nothingOf('bad_request', (body) => { body.timers.push(body.timers[0]); }, 400, 'appears more than once');
            await nothingOf('bad_request', (body) => { body.kv.push(body.kv[0]); }, 400, 'kv_duplicate_key_in_call');
        });
        it('db_error', async () => {
            const trap = unique('trap');
            await sql(`create function public.trap() returns trigger language plpgsql as $$ begin if new.name = '${trap}' then raise 'sprung'; end if; return new; end $$;
                create trigger trap before insert on queen.queues for each row execute function public.trap()`);
            try {
                await nothingOf('db_error', (body) => body.operations.push(pushOp(trap, 'x')), 200, 'sprung');
            } finally {
                await sql('drop trigger trap on queen.queues; drop function public.trap()');
            }
        });
        it('a switched-off rider', async () => {
            await sql(`insert into queen.system_state (key, value) values ('kv_enabled', '{"enabled":false}') on conflict (key) do update set value = excluded.value`);
            try {
                const b = await batch(unique(), ['m']);
                const queue = unique();
                const answer = await refused({ operations: [pushOp(queue, 'x'), ackOp(b.messages[0])], kv: [put('k', 1)] }, 'kv_disabled', undefined, 403);
                assert.match(answer.error, /switched off/);
                await c.queen.nothing(queue);
                await b.complete();
            } finally {
                await sql(`delete from queen.system_state where key = 'kv_enabled'`);
            }
        });
    });

    describe('refuses before anything is begun', () => {
        const cases = [
            ['no JSON', 'nonsense', /bad body/], ['an array', '[]', /bad body: expected an object/], ['nothing', '', /bad body/],
            ['no operations', '{}', /^transaction requires an operations array/], ['empty riders', '{"kv":[],"timers":[]}', /requires an operations array/],
            ['operations that are no array', '{"operations":{}}', /requires an operations array/], ['the same with a rider', '{"operations":1,"kv":[{"op":"get","ns":"n","key":"k"}]}', /requires an operations array/],
            ['a key twice', '{"operations":[],"operations":[]}', /operations/],
            ['no type', '{"operations":[{}]}', 'every transaction operation needs a `type` of push or ack'],
            ['a null type', '{"operations":[{"type":null}]}', 'every transaction operation needs a `type`'],
            ['another type', '{"operations":[{"type":"pop"}]}', 'supports only push and ack operations, got `pop`'],
            ['kv as an operation', '{"operations":[{"type":"kv"}]}', 'TOP-LEVEL arrays'], ['a timer as an operation', '{"operations":[{"type":"timer"}]}', 'TOP-LEVEL arrays'],
            ['an operation that is none', '{"operations":[1]}', /operations\[0\] must be an object/],
            ['items that are no array', '{"operations":[{"type":"push","items":{}}]}', /operations\[0\]\.items must be an array/],
            ['an item that is none', '{"operations":[{"type":"push","items":[7]}]}', /operations\[0\]\.items\[0\]: must be an object/],
            ['no queue', '{"operations":[{"type":"push","payload":1}]}', /operations\[0\]: queue is required/],
            ['an empty queue', '{"operations":[{"type":"push","queue":"","payload":1}]}', /queue is empty/],
            ['a number as transactionId', '{"operations":[{"type":"push","queue":"q","transactionId":1}]}', /transactionId must be a string/],
            ['a long transactionId', `{"operations":[{"type":"push","queue":"q","transactionId":"${'x'.repeat(1025)}"}]}`, /1025 bytes/],
            ['a number as partitionId', '{"operations":[{"type":"ack","transactionId":"a","partitionId":1}]}', /partitionId must be a string/],
            ['a NUL in the group', '{"operations":[{"type":"ack","transactionId":"a","partitionId":"p","consumerGroup":"\\u0000"}]}', /consumerGroup/],
            ['leases that are no array', '{"operations":[],"requiredLeases":"x"}', /requiredLeases must be an array/],
            ['a lease that is no string', '{"operations":[],"requiredLeases":[1]}', /requiredLeases must be a string/],
            ['kv that is no array', '{"operations":[],"kv":{}}', '`kv` must be an array at the TOP LEVEL'],
            ['timers that are no array', '{"operations":[],"timers":"x"}', '`timers` must be an array at the TOP LEVEL'],
            ['a kv operation that is none', '{"kv":[1]}', 'kv operation at index 0 is not an object'],
            ['getPrefix', '{"kv":[{"op":"get","ns":"n","key":"k"},{"op":"getPrefix","ns":"n","prefix":"k"}]}', 'kv operation at index 1: getPrefix is not available inside a transaction'],
            ['an unknown kv operation', '{"kv":[{"op":"mystery","ns":"n","key":"k"}]}', 'kv_unknown_op'],
            ['65 kv operations', JSON.stringify({ kv: Array(65).fill({ op: 'get', ns: 'n', key: 'k' }) }), '65 kv operations in one transaction, the ceiling on this wire is 64'],
            ['257 keys', JSON.stringify({ kv: [{ op: 'getMany', ns: 'n', keys: Array(256).fill('k') }, { op: 'get', ns: 'n', key: 'k' }] }), '257 kv keys in one transaction, the ceiling on this wire is 256'],
            ['257 timers', JSON.stringify({ timers: Array.from({ length: 257 }, (_, i) => ({ op: 'cancel', queue: 'q', timerKey: `${i}` })) }), 'timers_too_many_ops'],
            ['a timer with a field of the server', '{"timers":[{"op":"cancel","queue":"q","timerKey":"k","messageId":"x"}]}', 'server-owned'],
            ['a raw control character', '{"operations":[{"type":"push","queue":"q","payload":"\u0001"}]}', /bad body/],
        ];
        for (const [what, body, error] of cases)
            it(what, async () => {
                await refused(body, 'bad_request', error, 400);
            });
        it('a name that is too long', () => refused({ operations: [{ type: 'push', queue: 'x'.repeat(513) }] }, 'bad_request', /512/, 413));
        it('256 keys in 64 operations are fine', async () => {
            const kv = [{ op: 'getMany', ns: 'n', keys: Array.from({ length: 193 }, (_, i) => `k${i}`) }, ...Array(63).fill({ op: 'get', ns: 'n', key: 'k' })];
            assert.equal((await committed({ kv })).length, 64);
        });
        it('another method', async () => {
            const answer = await c.queen.get('/api/v1/transaction');
            assert.deepEqual([answer.status, answer.headers.allow], [405, 'POST']);
        });
        it('a lease or reason of any text is no reason', async () => {
            const b = await batch(unique(), ['a']);
            await committed({ operations: [ackOp(b.messages[0], { leaseId: '', error: 'é\u0000"' })], requiredLeases: ['', b.leaseId, 'ü'] });
        });
    });

    it('recognised batches are taken by position, others by hash, with the same outcome', async () => {
        const before = await c.queen.counters();
        const b = await batch(unique(), ['a', 'b', 'c']);
        await committed({ operations: b.messages.map((m) => ackOp(m)), requiredLeases: [b.leaseId] });
        assert.equal(await sql(`select committed, total_consumed, released_worker = '${b.leaseId}' from queen.log_consumers where partition_id = '${b.partitionId}'`), '2|3|t');
        const after = await c.queen.counters();
        assert.equal(after.transactions - before.transactions, 1);
        assert.equal(after.ack_items - before.ack_items, 3);
    });
});
