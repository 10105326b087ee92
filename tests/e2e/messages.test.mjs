// /api/v1/messages: listing, filters, status, paging; detail; deletion of dead letters; dead-lettering.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, Batch, query, TIME, unique, useQueen, UUID } from './lib/queen.mjs';

const KEYS = ['id', 'transactionId', 'txnHash', 'partitionId', 'queuePath', 'queue', 'partition', 'namespace', 'task', 'status', 'queueStatus',
    'busStatus', 'traceId', 'producerSub', 'payloadAvailable', 'segment', 'createdAt', 'leaseExpiresAt', 'data', 'payload'];
const DETAIL_KEYS = [...KEYS, 'isEncrypted', 'errorMessage', 'retryCount', 'consumerGroups', 'queueConfig', 'mode'];
const NOBODY = '00000000-0000-7000-8000-000000000000';

describe('messages', { concurrency: 4 }, () => {
    const c = useQueen();
    const list = async (parameters) => {
        const answer = await c.queen.get(`/api/v1/messages${query(parameters)}`);
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.json.total, answer.json.messages.length);
        return answer.json;
    };
    const marks = async (parameters) => (await list(parameters)).messages.map((m) => `${m.transactionId}:${m.status}`);
    const ids = async (parameters) => (await list(parameters)).messages.map((m) => m.transactionId);
    const path = (partitionId, t, more = '') => `/api/v1/messages/${partitionId}/${encodeURIComponent(t)}${more}`;
    const place = async (queue) => (await list({ queue, limit: 1 })).messages[0].partitionId;
    const letter = async (queue, t, group) => {
        await c.queen.push(queue, [t], 'p');
        const answer = await c.queen.popPartition(queue, 'p', group === undefined ? {} : { consumerGroup: group });
        const batch = new Batch(c.queen, answer.json);
        const [r] = await batch.ack([[t, 'dlq', `why ${t}`]]);
        assert.equal(r.dlq, true);
        return batch.partitionId;
    };

    it('lists with the keys of the contract, payload bytes as sent', async () => {
        const queue = unique('ns.task.q');
        const payload = '{"b":1.0,"a":1e400,"a":"\\u0000"}';
        const pushed = await c.queen.post('/api/v1/push', `{"items":[{"queue":"${queue}","partition":"p","transactionId":"a","payload":${payload}}]}`);
        assert.equal(pushed.status, 201);
        const answer = await c.queen.get(`/api/v1/messages?queue=${queue}`);
        assert.deepEqual(Object.keys(answer.json), ['messages', 'mode', 'total']);
        const [m] = answer.json.messages;
        assert.deepEqual(Object.keys(m), KEYS);
        assert.ok(answer.text.includes(`"data":${payload},"payload":${payload}}`), answer.text);
        assert.equal(m.id, pushed.json[0].message_id ?? pushed.json[0].messageId);
        assert.match(m.txnHash, /^[0-9a-f]{32}$/);
        assert.match(m.createdAt, TIME);
        assert.deepEqual([m.transactionId, m.queuePath, m.queue, m.partition, m.namespace, m.task, m.status, m.queueStatus, m.payloadAvailable],
            ['a', `${queue}/p`, queue, 'p', 'ns', 'task', 'pending', 'pending', true]);
        assert.deepEqual([m.busStatus, m.segment, m.leaseExpiresAt, m.traceId], [{ consumedBy: 0, totalGroups: 0 }, { seq: 0, frameIdx: 0 }, null, null]);
        assert.deepEqual(answer.json.mode, { hasQueueMode: false, busGroupsCount: 0, type: 'none' });
    });

    it('newest first, over partitions, by pages', async () => {
        const queue = unique();
        for (const [t, p] of [['a', 'x'], ['b', 'y'], ['c', 'x'], ['d', 'z'], ['e', 'y']]) await c.queen.push(queue, [t], p);
        await c.queen.push(queue, ['f', 'g', 'h'], 'x');
        assert.deepEqual(await ids({ queue }), ['h', 'g', 'f', 'e', 'd', 'c', 'b', 'a']);
        for (let offset = 0; offset < 9; offset++)
            for (const limit of [1, 3, 8])
                assert.deepEqual(await ids({ queue, limit, offset }), ['h', 'g', 'f', 'e', 'd', 'c', 'b', 'a'].slice(offset, offset + limit));
        assert.deepEqual(await ids({ queue, partition: 'x' }), ['h', 'g', 'f', 'c', 'a']);
        assert.deepEqual((await list({ queue, partition: 'x' })).messages.map((m) => `${m.segment.seq}.${m.segment.frameIdx}`), ['2.2', '2.1', '2.0', '1.0', '0.0']);
        assert.deepEqual(await ids({ queue, partition: 'none' }), []);
        assert.deepEqual(await ids({ queue: unique() }), []);
    });

    it('filters by namespace, ns and task', async () => {
        const ns = unique('n');
        for (const [t, task] of [['a', 't1'], ['b', 't2']]) await c.queen.push(`${ns}.${task}.q`, [t]);
        assert.deepEqual(await ids({ namespace: ns }), ['b', 'a']);
        assert.deepEqual(await ids({ ns, task: 't1' }), ['a']);
        assert.deepEqual(await ids({ ns, queue: '' }), ['b', 'a'], 'an empty filter is none');
    });

    it('the status follows cursor, lease and dead letters, and filters', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b', 'c', 'd', 'e', 'f'], 'p');
        const batch = await c.queen.take(queue, ['a', 'b'], { batch: 2 });
        assert.deepEqual(await marks({ queue }), ['f:pending', 'e:pending', 'd:pending', 'c:pending', 'b:processing', 'a:processing']);
        const leased = (await list({ queue })).messages[0];
        assert.match(leased.leaseExpiresAt, TIME);
        await batch.ack([['a', 'completed'], ['b', 'dlq', 'broken']]);
        await c.queen.take(queue, ['c', 'd'], { batch: 2 });
        assert.deepEqual(await marks({ queue }), ['f:pending', 'e:pending', 'd:processing', 'c:processing', 'b:dead_letter', 'a:completed']);
        assert.deepEqual((await list({ queue })).mode, { hasQueueMode: true, busGroupsCount: 0, type: 'queue' });
        for (const [status, expected] of [['pending', 'fe'], ['processing', 'dc'], ['dead_letter', 'b'], ['completed', 'a'], ['nonsense', '']]) {
            assert.equal((await ids({ queue, status })).join(''), expected, status);
            assert.equal((await ids({ queue, status, limit: 1, offset: 1 })).join(''), expected.slice(1, 2), status);
        }
    });

    it('named groups decide where there is no queue mode', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b']);
        const first = await c.queen.take(queue, ['a', 'b'], { consumerGroup: 'g1', batch: 2, subscriptionMode: 'all' });
        const second = await c.queen.take(queue, ['a'], { consumerGroup: 'g2', batch: 1, subscriptionMode: 'all' });
        await first.complete();
        assert.deepEqual(await marks({ queue }), ['b:pending', 'a:processing']);
        assert.deepEqual((await list({ queue })).messages.map((m) => m.busStatus.consumedBy), [1, 1]);
        await second.complete();
        const { messages, mode } = await list({ queue });
        assert.deepEqual(messages.map((m) => [m.status, m.busStatus]), [['pending', { consumedBy: 1, totalGroups: 2 }], ['completed', { consumedBy: 2, totalGroups: 2 }]]);
        assert.deepEqual(mode, { hasQueueMode: false, busGroupsCount: 2, type: 'bus' });
    });

    it('the window: the last hour, or from and to', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.queen.push(queue, ['b']);
        const [b, a] = (await list({ queue })).messages;
        assert.deepEqual(await ids({ queue, from: b.createdAt }), ['b']);
        assert.deepEqual(await ids({ queue, to: a.createdAt }), ['a']);
        assert.deepEqual(await ids({ queue, from: a.createdAt, to: b.createdAt }), ['b', 'a']);
        await c.instance.psql(`update queen.log_segments set created_at = created_at - interval '2 hours' where partition_id = '${a.partitionId}' and base_offset = 0`);
        assert.deepEqual(await ids({ queue }), ['b']);
        assert.deepEqual(await ids({ queue, from: new Date(Date.now() - 3 * 3600e3).toISOString() }), ['b', 'a']);
    });

    it('bad parameters are refused by name', async () => {
        for (const name of ['limit', 'offset', 'from', 'to']) assertError(await c.queen.get(`/api/v1/messages?${name}=abc`), 400, new RegExp(name));
        assertError(await c.queen.get(`/api/v1/messages?queue=${'x'.repeat(513)}`), 413, /queue/);
        assert.equal((await c.queen.request('PUT', '/api/v1/messages')).status, 405);
    });

    it('shows one message', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b/%ü']);
        const pid = await place(queue);
        await c.queen.take(queue, ['a', 'b/%ü'], { consumerGroup: 'g', batch: 2, subscriptionMode: 'all' });
        const answer = await c.queen.get(path(pid, 'b/%ü'));
        assert.equal(answer.status, 200, answer.text);
        const m = answer.json;
        assert.deepEqual(Object.keys(m), DETAIL_KEYS);
        assert.deepEqual([m.transactionId, m.data, m.status, m.isEncrypted, m.errorMessage, m.retryCount, m.segment],
            ['b/%ü', { t: 'b/%ü' }, 'processing', false, null, 0, { seq: 0, frameIdx: 1 }]);
        assert.deepEqual(m.queueConfig, { leaseTime: 60, retryLimit: 3, retryDelay: 1000, ttl: 3600, priority: 0 });
        assert.deepEqual(m.mode, { hasQueueMode: false, busGroupsCount: 1, type: 'bus' });
        assert.equal(m.consumerGroups.length, 1);
        assert.deepEqual(Object.keys(m.consumerGroups[0]), ['name', 'group', 'consumed', 'leaseExpiresAt']);
        assert.deepEqual([m.consumerGroups[0].name, m.consumerGroups[0].group, m.consumerGroups[0].consumed], ['g', 'g', false]);
        assert.match(m.consumerGroups[0].leaseExpiresAt, TIME);
        for (const [p, t] of [[pid, 'none'], [NOBODY, 'a'], ['no-uuid', 'a']]) assertError(await c.queen.get(path(p, t)), 404, /^Message not found$/);
    });

    it('finds a message whose hash is purged, and none whose segment is', async () => {
        const queue = unique();
        for (let i = 0; i < 80; i++) await c.queen.push(queue, [`m${i}`, `n${i}`]);
        const pid = await place(queue);
        await c.instance.psql(`delete from queen.log_txns where partition_id = '${pid}' and base_offset < 150;
            update queen.log_partitions set txns_start = 150 where id = '${pid}'`);
        for (const t of ['m79', 'n74', 'n30', 'm0']) {
            const answer = await c.queen.get(path(pid, t));
            assert.equal(answer.status, 200, answer.text);
            assert.deepEqual(answer.json.data, { t });
        }
        assertError(await c.queen.get(path(pid, 'none')), 404);
        await c.instance.psql(`delete from queen.log_segments where partition_id = '${pid}' and base_offset = 158`);
        assertError(await c.queen.get(path(pid, 'm79')), 404);
    });

    it('deletes the dead letters of a message, of every group', async () => {
        const queue = unique();
        const pid = await letter(queue, 'a', 'g1');
        await c.queen.push(queue, ['other'], 'p');
        const found = await c.queen.get(path(pid, 'a'));
        assert.deepEqual([found.json.status, found.json.errorMessage, found.json.retryCount], ['dead_letter', 'why a', 0]);
        await c.instance.psql(`insert into queen.log_dlq (partition_id, consumer_group, "offset", transaction_id, error) values ('${pid}', 'g2', 0, 'a', 'x')`);
        const answer = await c.queen.request('DELETE', path(pid, 'a'));
        assert.equal(answer.status, 200);
        assert.deepEqual(answer.json, { success: true, partitionId: pid, transactionId: 'a', message: 'Message deleted successfully' });
        assert.deepEqual((await c.queen.dlq({ queue })).json.messages, []);
        for (const [p, t] of [[pid, 'a'], [pid, 'other'], [NOBODY, 'a'], ['no-uuid', 'a']]) {
            const missing = await c.queen.request('DELETE', path(p, t));
            assertError(missing, 404, /^Message not found$/);
            assert.deepEqual([missing.json.success, missing.json.partitionId, missing.json.transactionId], [false, p, t]);
        }
    });

    it('dead-letters the next message of queue mode, and no other', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b', 'c', 'd']);
        const pid = await place(queue);
        const move = (t, body) => c.queen.post(path(pid, t, '/dlq'), body ?? '');
        const refused = async (t, pattern) => {
            const answer = await move(t);
            assertError(answer, 409, pattern);
            assert.deepEqual([answer.json.success, answer.json.partitionId, answer.json.transactionId], [false, pid, t]);
        };
        await refused('a', /no queue-mode consumer/);
        const batch = await c.queen.take(queue, ['a'], { batch: 1 });
        await refused('b', /leased/);
        await batch.complete();
        await refused('a', /past/);
        await refused('c', /another message is next/);
        const moved = await move('b', { error: 'by hand' });
        assert.equal(moved.status, 200, moved.text);
        assert.deepEqual([moved.json.success, moved.json.partitionId, moved.json.transactionId], [true, pid, 'b']);
        assert.match(moved.json.dlqId, UUID);
        const [row] = (await c.queen.dlq({ queue })).json.messages;
        assert.deepEqual([row.id, row.transactionId, row.errorMessage, row.consumerGroup, row.data], [moved.json.dlqId, 'b', 'by hand', '__QUEUE_MODE__', { t: 'b' }]);
        assert.equal((await move('c', '{}')).status, 200);
        await c.queen.take(queue, ['d'], { batch: 10 });
        assertError(await move('none'), 404, /^Message not found$/);
        assertError(await move('d', '[1'), 400, /bad body/);
        assertError(await move('d', { error: 7 }), 400, /bad body/);
    });
});
