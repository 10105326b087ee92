// The control plane as the JavaScript client's Admin and Queen objects call it.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { QUEUE_MODE, TIME, unique, until, useQueen, UUID } from '../lib/queen.mjs';
import { JsClient } from './javascript.mjs';

describe('control plane of the JavaScript client', { concurrency: 4 }, () => {
    const c = useQueen();
    let js;
    before(() => {
        js = new JsClient(c.instance.url);
    });
    const data = (messages) => messages.map((m) => m.data);

    it('health', async () => {
        const health = await js.admin.health();
        assert.deepEqual([health.status, health.database, typeof health.version, typeof health.engine], ['healthy', 'connected', 'string', 'string']);
    });

    it('listQueues, getQueue, getQueueDepth, getPartitions, clearQueue', async () => {
        const queue = unique();
        await js.createQueue(queue, { leaseTime: 30 }, { namespace: 'ns', task: 'tk' });
        await js.push(queue, [1, 2, 3], { partition: 'p' });
        await js.pop(queue, { consumerGroup: 'g', batch: 2 });

        const listed = (await js.admin.listQueues({ namespace: 'ns', limit: 1000, offset: 0 })).queues.find((q) => q.name === queue);
        assert.match(listed.id, UUID);
        assert.match(listed.createdAt, TIME);
        assert.deepEqual([listed.namespace, listed.task, listed.partitions, listed.messages.total], ['ns', 'tk', 1, 3]);

        const one = await js.admin.getQueue(queue);
        assert.deepEqual([one.name, one.options.leaseTime, one.partitions.length, one.partitions[0].name], [queue, 30, 1, 'p']);
        assert.deepEqual([one.totals.total, one.totals.pending, one.totals.processing], [3, 3, 2]);
        await assert.rejects(js.admin.getQueue(unique()), { status: 404, message: 'Queue not found' });

        const depth = await js.admin.getQueueDepth(queue, 'g');
        assert.deepEqual([depth.group, depth.pending, depth.processing, depth.ready, depth.conflation, depth.effectivePending], ['g', 3, 2, 1, false, 3]);
        assert.equal((await js.admin.getQueueDepth(queue)).group, null);

        const partitions = (await js.admin.getPartitions({ queue, limit: 10 })).partitions;
        assert.deepEqual(partitions.map((p) => [p.name, p.queue]), [['p', queue]]);
        const cleared = await js.admin.clearQueue(queue);
        assert.deepEqual([cleared.success, cleared.queue], [true, queue]);
        assert.equal((await js.admin.getQueueDepth(queue, 'g')).pending, 0);
    });

    it('getOverview, getNamespaces, getTasks', async () => {
        const namespace = unique('ns');
        await js.push(`${namespace}.tk.q`, [1]);
        const overview = await js.admin.getOverview();
        for (const key of ['queues', 'partitions', 'namespaces', 'tasks']) assert.ok(overview[key] >= 1, key);
        for (const key of ['messages', 'lag', 'throughput', 'timestamp', 'statsAge']) assert.ok(key in overview, key);
        assert.equal((await js.admin.getNamespaces()).namespaces.find((n) => n.namespace === namespace).queues, 1);
        assert.ok((await js.admin.getTasks()).tasks.some((t) => t.task === 'tk'));
    });

    it('listMessages and getMessage; deleteMessage refuses a live message', async () => {
        const queue = unique();
        const { results } = await js.push(queue, [{ data: { a: 1 }, transactionId: 't-1' }], { partition: 'p' });
        const { messages, total } = await js.admin.listMessages({ queue, partition: 'p', status: 'pending', limit: 10, offset: 0 });
        assert.equal(total, 1);
        assert.deepEqual([messages[0].id, messages[0].transactionId, messages[0].status, messages[0].data], [results[0].message_id, 't-1', 'pending', { a: 1 }]);
        const one = await js.admin.getMessage(messages[0].partitionId, 't-1');
        assert.deepEqual([one.transactionId, one.queue, one.partition, one.data, one.status], ['t-1', queue, 'p', { a: 1 }, 'pending']);
        await assert.rejects(js.admin.getMessage(messages[0].partitionId, 'none'), { status: 404 });
        await assert.rejects(js.admin.deleteMessage(messages[0].partitionId, 't-1'), { status: 404, message: 'Message not found' });
    });

    it('moveMessageToDLQ, dlq().get(), retryMessage, deleteMessage', async () => {
        const queue = unique();
        await js.pop(queue); // a consumer without a group has been here: its next message can be moved
        await js.push(queue, [{ data: 1, transactionId: 'a' }, { data: 2, transactionId: 'b' }]);
        const partitionId = (await js.admin.getPartitions({ queue })).partitions[0].id;
        await assert.rejects(js.admin.moveMessageToDLQ(partitionId, 'b'), { status: 409 });
        await js.admin.moveMessageToDLQ(partitionId, 'a');
        await js.admin.moveMessageToDLQ(partitionId, 'b');
        assert.equal((await js.dlq(queue)).total, 2);

        const moved = await js.admin.retryMessage(partitionId, 'a');
        assert.deepEqual([moved.success, moved.result, moved.queue, moved.consumerGroup, moved.dlqRowRemoved], [true, 'moved', queue, QUEUE_MODE, true]);
        assert.equal((await js.admin.deleteMessage(partitionId, 'b')).success, true);
        assert.equal((await js.dlq(queue)).total, 0);
        assert.deepEqual(data(await js.pop(queue, { batch: 10 })), [1]);
        await assert.rejects(js.admin.retryMessage(partitionId, 'a'), { status: 404, message: 'Message not found' });
    });

    it('dlq().get() reads a failure as an empty list', async () => {
        assert.deepEqual(await js.dlq(unique(), { from: 'not a time' }), { messages: [], total: 0 });
    });

    it('listConsumerGroups, getConsumerGroup, getLaggingConsumers', async () => {
        const queue = unique(), group = unique('g /ü');
        await js.push(queue, [1, 2]);
        await js.pop(queue, { consumerGroup: group });
        const listed = (await js.admin.listConsumerGroups()).find((g) => g.name === group);
        assert.deepEqual([listed.topics, listed.queueName, listed.totalLag, listed.members], [[queue], queue, 2, 1]);
        const detail = await js.admin.getConsumerGroup(group);
        assert.deepEqual(Object.keys(detail), [queue]);
        assert.deepEqual([detail[queue].partitions[0].offsetLag, detail[queue].partitions[0].leaseActive], [2, true]);
        assert.deepEqual(await js.admin.getConsumerGroup(unique('none')), {});
        await until(async () => (await js.admin.getLaggingConsumers(0)).some((l) => l.consumer_group === group), 'the group lags');
        assert.ok(!(await js.admin.getLaggingConsumers()).some((l) => l.consumer_group === group));
    });

    it('seekConsumerGroup by time replays, to the end skips', async () => {
        const queue = unique();
        const begin = new Date().toISOString();
        await js.push(queue, [1, 2]);
        assert.equal((await js.pop(queue, { consumerGroup: 'g', batch: 10, autoAck: true })).length, 2);
        const back = await js.admin.seekConsumerGroup('g', queue, { timestamp: begin });
        assert.deepEqual([back.success, back.seekToEnd, back.partitionsUpdated], [true, false, 1]);
        assert.deepEqual(data(await js.pop(queue, { consumerGroup: 'g', batch: 10 })), [1, 2]);
        assert.equal((await js.admin.seekConsumerGroup('g', queue, { toEnd: true })).seekToEnd, true);
        assert.deepEqual(await js.pop(queue, { consumerGroup: 'g' }), []);
        await assert.rejects(js.admin.seekConsumerGroup('g', queue, {}), { status: 400 });
        await assert.rejects(js.admin.seekConsumerGroup('g', unique(), { toEnd: true }), { status: 404 });
    });

    it('deleteConsumerGroup: with ?deleteMetadata=false the subscription stays, with true it starts over', async () => {
        const queue = unique(), group = unique('g');
        await js.push(queue, ['old']);
        assert.deepEqual(await js.pop(queue, { consumerGroup: group, subscriptionMode: 'new' }), []);
        const kept = await js.deleteConsumerGroup(group, false);
        assert.deepEqual([kept.success, kept.consumerGroup, kept.deletedPartitions, kept.metadataDeleted], [true, group, 1, false]);
        assert.deepEqual(await js.pop(queue, { consumerGroup: group, subscriptionMode: 'all' }), []);
        assert.equal((await js.deleteConsumerGroup(group)).metadataDeleted, true);
        assert.deepEqual(data(await js.pop(queue, { consumerGroup: group, subscriptionMode: 'all' })), ['old']);
        const one = await js.admin.deleteConsumerGroupForQueue(group, queue, true);
        assert.deepEqual([one.queueName, one.deletedPartitions], [queue, 1]);
        assert.equal((await js.deleteConsumerGroup(unique('none'))).deletedPartitions, 0);
    });

    it('updateConsumerGroupTimestamp moves no cursor that exists', async () => {
        const queue = unique(), group = unique('g');
        await js.push(queue, [1]);
        await js.pop(queue, { consumerGroup: group, autoAck: true });
        const timestamp = '2020-01-01T00:00:00.000Z';
        const answer = await js.updateConsumerGroupTimestamp(group, timestamp);
        assert.deepEqual([answer.success, answer.consumerGroup, answer.newTimestamp, answer.rowsUpdated], [true, group, timestamp, 1]);
        assert.deepEqual(await js.pop(queue, { consumerGroup: group }), []);
        await assert.rejects(js.updateConsumerGroupTimestamp(group, null), { status: 400 });
    });

    it('message.trace() with nulls for absent fields, and the three readers', async () => {
        const queue = unique(), name = unique('trace /');
        await js.push(queue, [1]);
        const [message] = await js.pop(queue);
        const written = await js.trace(message, { data: { step: 1 }, traceName: name, eventType: 'info' });
        assert.equal(written.success, true);
        await js.trace(message, { data: { step: 2 } });
        const { traces } = await js.admin.getTracesForMessage(message.partitionId, message.transactionId);
        assert.deepEqual(traces.map((t) => [t.data, t.consumer_group, t.event_type, t.trace_names]),
            [[{ step: 1 }, QUEUE_MODE, 'info', [name]], [{ step: 2 }, QUEUE_MODE, 'info', []]]);
        const byName = await js.admin.getTracesByName(name, { limit: 10, offset: 0 });
        assert.deepEqual([byName.total, byName.traces[0].queue_name, byName.traces[0].transaction_id], [1, queue, message.transactionId]);
        await until(async () => (await js.admin.getTraceNames({ limit: 1000 })).trace_names.some((t) => t.trace_name === name), 'the name is listed');
    });

    it('getStatus, getQueueStats, getQueueDetail, getAnalytics, refreshConsumerStats, metrics', async () => {
        const queue = unique();
        await js.push(queue, [1, 2]);
        await js.pop(queue, { autoAck: true });
        const hour = { from: new Date(Date.now() - 3600000).toISOString(), to: new Date().toISOString() };
        const status = await js.admin.getStatus({ ...hour, queue });
        for (const key of ['timeRange', 'bucketMinutes', 'pointCount', 'throughput', 'queues', 'messages', 'leases', 'deadLetterQueue', 'workers', 'errors', 'statsAge']) assert.ok(key in status, key);
        assert.ok(Array.isArray(status.throughput) && Array.isArray(status.queues) && Array.isArray(status.workers));

        const stats = await js.admin.getQueueStats({ queue, limit: 10, offset: 0 });
        assert.deepEqual(stats.queues.map((q) => [q.name, q.partitions, q.messages.total]), [[queue, 1, 2]]);
        const detail = await js.admin.getQueueDetail(queue, hour);
        assert.deepEqual([detail.queue.name, detail.partitions[0].name, detail.partitions[0].messages.total, detail.totals.messages.pending], [queue, 'Default', 2, 1]);
        await assert.rejects(js.admin.getQueueDetail(unique()), { status: 404, message: 'Queue not found' });
        const analytics = await js.admin.getAnalytics({ ...hour, interval: 'hour', queue });
        assert.equal(analytics.interval, 'hour');
        assert.ok(analytics.dataPoints.length >= 1 && analytics.dataPoints.every((p) => TIME.test(p.timestamp) && p.messages >= 0), JSON.stringify(analytics));

        assert.equal(typeof (await js.admin.refreshConsumerStats()).refreshedAt, 'string');
        const metrics = await js.admin.metrics();
        assert.ok(metrics.uptime >= 0 && metrics.requests.total >= 2 && metrics.memory.rss > 0, JSON.stringify(metrics));
    });

    it('getSystemMetrics, getWorkerMetrics, getPostgresStats', async () => {
        assert.ok(Array.isArray((await js.admin.getSystemMetrics({})).replicas));
        assert.ok(Array.isArray((await js.admin.getWorkerMetrics({})).timeSeries));
        assert.equal(typeof (await js.admin.getPostgresStats()).timestamp, 'string');
    });

    it('kv: every verb, and its results as the client demands them', async () => {
        const ns = 'clients', key = unique('k/');
        const put = { op: 'put', ns, key, value: { a: null }, ttlSeconds: 60 };
        const [written] = await js.kv(put);
        assert.deepEqual([written.applied, written.value], [true, { a: null }]);
        const [got] = await js.kv({ op: 'get', ns, key });
        assert.deepEqual([got.found, got.value, got.version], [true, { a: null }, written.version]);
        assert.equal(typeof got.expiresAt, 'string');
        // once(): one winner, the loser sees what won.
        const once = { op: 'putIfAbsent', ns, key: `${key}-once`, value: true, forever: true };
        assert.equal((await js.kv(once))[0].applied, true);
        const [lost] = await js.kv(once);
        assert.deepEqual([lost.applied, lost.reason, lost.value], [false, 'exists', true]);
        const [many] = await js.kv({ op: 'getMany', ns, keys: [key, `${key}-none`] });
        assert.deepEqual([many.rows.map((r) => r.key), many.missing], [[key], [`${key}-none`]]);
        const [page] = await js.kv({ op: 'getPrefix', ns, prefix: key, limit: 1 });
        assert.deepEqual([page.rows.length, page.truncated, page.nextAfter], [1, true, key]);
        assert.deepEqual((await js.kv({ op: 'getPrefix', ns, prefix: key, after: page.nextAfter }))[0].rows.map((r) => r.key), [`${key}-once`]);
        assert.deepEqual((await js.kv({ op: 'incr', ns, key: `${key}-n`, delta: 2, forever: true, max: 3 })).map((r) => [r.applied, r.value]), [[true, 2]]);
        assert.deepEqual((await js.kv({ op: 'incr', ns, key: `${key}-n`, delta: 2, forever: true, max: 3 })).map((r) => [r.applied, r.reason, r.value]), [[false, 'limit', 2]]);
        assert.equal((await js.kv({ op: 'delete', ns, key, expect: written.version + 1 }))[0].reason, 'version');
        assert.equal((await js.kv({ op: 'delete', ns, key }))[0].applied, true);
        const required = await js.kv({ ...once, required: true });
        assert.deepEqual([required.reason, required.kvReason], ['kv_precondition', 'exists']);
        await assert.rejects(js.kv({ op: 'put', ns, key, value: 1 }), { status: 400, message: 'kv_bad_request' });
    });

    it('timer(): schedule, peek, list, reschedule, cancel; the promised id is delivered', async () => {
        const queue = unique(), key = 'k /ü';
        const planned = await js.schedule(queue, key, 3600000, { late: true });
        assert.deepEqual([planned.ok, planned.status], [true, 'scheduled']);
        assert.match(planned.deliverAt, TIME);
        const peeked = await js.peekTimer(queue, key);
        assert.deepEqual([peeked.found, peeked.messageId, JSON.parse(Buffer.from(peeked.payload, 'base64'))], [true, planned.messageId, { late: true }]);
        assert.deepEqual((await js.listTimers(queue)).rows.map((r) => r.timerKey), [key]);
        const moved = await js.schedule(queue, key, 7200000, 1);
        assert.equal(moved.status, 'rescheduled');
        assert.equal((await js.cancelTimer(queue, key, moved.txn)).status, 'cancelled');
        assert.equal((await js.peekTimer(queue, key)).found, false);
        const absent = await js.cancelTimer(queue, key, 'my-txn');
        assert.deepEqual([absent.ok, absent.status, absent.txn], [false, 'absent', 'my-txn']);

        const due = await js.schedule(queue, 'now', -5, { now: true });
        const [message] = await js.pop(queue, { wait: true, timeoutMs: 20000 });
        assert.deepEqual([message.id, message.transactionId, message.data], [due.messageId, due.txn, { now: true }]);
    });

    it('a streams runner: register, state, cycle with the batch it popped', async () => {
        const source = unique(), sink = unique(), name = unique('query');
        const register = (config_hash, more) => js.post('/streams/v1/queries', { name, source_queue: source, sink_queue: sink, config_hash, ...more });
        const query = await register('h1');
        assert.deepEqual([query.success, query.fresh], [true, true]);
        await assert.rejects(register('h2'), { status: 409 });

        await js.push(source, [1, 2]);
        const group = `streams.${name}`;
        const messages = await js.pop(source, { consumerGroup: group, batch: 10, subscriptionMode: 'all' });
        const { partitionId, leaseId } = messages[0];
        const cycle = (lease) => js.post('/streams/v1/cycle', {
            query_id: query.query_id, partition_id: partitionId, consumer_group: group,
            state_ops: [{ type: 'upsert', key: 'sum', value: { sum: 3 } }],
            push_items: [{ queue: sink, partition: 'Default', payload: { sum: 3 } }],
            ack: { transactionId: messages.at(-1).transactionId, leaseId: lease, status: 'completed', count: 2 },
            release_lease: true,
        });
        const done = await cycle(leaseId);
        assert.deepEqual([done.success, done.state_ops_applied, done.ack_result.success], [true, 1, true], JSON.stringify(done));
        assert.equal((await cycle(leaseId)).success, false);
        const state = await js.post('/streams/v1/state/get', { query_id: query.query_id, partition_id: partitionId, keys: [] });
        assert.deepEqual(state.rows.map((r) => [r.key, r.value]), [['sum', { sum: 3 }]]);
        assert.deepEqual(data(await js.pop(sink, { batch: 10 })), [{ sum: 3 }]);
        assert.deepEqual(await js.pop(source, { consumerGroup: group }), []);
    });
});

// The switches hold for a whole host, so this suite has an instance of its own.
describe('maintenance switches of the JavaScript client', () => {
    const c = useQueen({ workers: 2 });

    it('pushes go to the buffer and are delivered after it; pops read empty', async () => {
        const js = new JsClient(c.instance.url), queue = unique();
        assert.equal((await js.admin.getMaintenanceMode()).maintenanceMode, false);
        const on = await js.admin.setMaintenanceMode(true);
        assert.deepEqual([on.maintenanceMode, on.message], [true, 'Maintenance mode ENABLED. All PUSHes routing to file buffer.']);
        const pushed = await js.push(queue, [1, 2, 3]);
        assert.deepEqual(pushed.results.map((r) => r.status), ['buffered', 'buffered', 'buffered']);
        await until(async () => (await js.admin.getMaintenanceMode()).bufferedMessages >= 1, 'the buffer is counted');
        await js.admin.setMaintenanceMode(false);
        const got = [];
        await until(async () => got.push(...(await js.pop(queue, { batch: 10, autoAck: true, wait: true, timeoutMs: 1000 }))) >= 3, 'the buffer is drained', 60000);
        assert.deepEqual(got.map((m) => [m.data, m.transactionId]), pushed.sent.map((s) => [s.payload, s.transactionId]));

        assert.equal((await js.admin.setPopMaintenanceMode(true)).popMaintenanceMode, true);
        assert.equal((await js.admin.getPopMaintenanceMode()).popMaintenanceMode, true);
        await js.push(queue, [4]);
        await until(async () => (await js.pop(queue, { consumerGroup: 'other' })).length === 0, 'pops are paused');
        await js.admin.setPopMaintenanceMode(false);
        await until(async () => (await js.pop(queue, { wait: true, timeoutMs: 1000 })).length === 1, 'pops go on');
    });
});
