// Queues, partitions, depth, overview, namespaces, tasks, clear (control plane, section 1).
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, Batch, ERROR_LEASE, TIME, unique, useQueen, UUID } from './lib/queen.mjs';

const STATS = ['total', 'pending', 'processing', 'completed', 'failed', 'deadLetter'];
const path = (queue, rest = '') => `/api/v1/resources/queues/${encodeURIComponent(queue)}${rest}`;

describe('resources', { concurrency: 4 }, () => {
    const c = useQueen();
    const get = async (target) => {
        const answer = await c.queen.get(target);
        assert.equal(answer.status, 200, answer.text);
        assert.match(answer.headers['content-type'], /^application\/json/);
        return answer.json;
    };
    const clear = (queue, rest = '') => c.queen.request('DELETE', `/api/v1/queues/${encodeURIComponent(queue)}/clear${rest}`);

    it('queue list', async () => {
        const queue = unique();
        const { queueId } = await c.queen.configure(queue, {}, { namespace: 'n', task: 't' });
        await c.queen.push(queue, ['a', 'b'], 'p1');
        await c.queen.push(queue, ['c'], 'p2');
        await c.queen.popPartition(queue, 'p1', { consumerGroup: 'g', batch: 1 });
        const { queues } = await get('/api/v1/resources/queues?stats=live');
        const entry = queues.find((q) => q.name === queue);
        assert.deepEqual(Object.keys(entry), ['id', 'name', 'namespace', 'task', 'createdAt', 'partitions', 'retainedBytes', 'segments', 'messages']);
        assert.deepEqual([entry.id, entry.namespace, entry.task, entry.partitions], [queueId, 'n', 't', 2]);
        assert.match(entry.createdAt, TIME);
        assert.deepEqual(entry.messages, { total: 3, pending: 3, processing: 1 });
        assert.equal(entry.segments.messages, 3);
        assert.deepEqual(queues.map((q) => q.name), [...queues.map((q) => q.name)].sort());
        assert.equal((await get('/api/v1/resources/queues?limit=1')).queues.length, 1);
        assert.deepEqual(await get('/api/v1/resources/queues?offset=1000000'), { queues: [] });
        assertError(await c.queen.get('/api/v1/resources/queues?offset=x'), 400, /offset/);
    });

    it('queue detail', async () => {
        const queue = `${unique()}/é 100%`;
        const configured = await c.queen.configure(queue, { leaseTime: 17, retryLimit: 0 }, { namespace: 'n' });
        await c.queen.push(queue, ['a', 'b', 'c'], 'p2');
        await c.queen.push(queue, ['d'], 'p1');
        const popped = await c.queen.popPartition(queue, 'p2', { consumerGroup: 'g', batch: 2 });
        const marks = await new Batch(c.queen, popped.json).ack([['a', 'completed'], ['b', 'dlq', 'no']]);
        assert.equal(marks[1].dlq, true);
        const json = await get(path(queue));
        assert.deepEqual(Object.keys(json), ['id', 'name', 'namespace', 'task', 'createdAt', 'options', 'partitions', 'totals', 'retainedBytes', 'segments']);
        assert.deepEqual([json.id, json.name, json.namespace, json.task], [configured.queueId, queue, 'n', '']);
        assert.deepEqual(json.options, { namespace: 'n', task: '', ...configured.options });
        assert.equal(json.options.leaseTime, 17);
        assert.deepEqual(json.partitions.map((p) => p.name), ['p1', 'p2']);
        const [p1, p2] = json.partitions;
        assert.deepEqual(Object.keys(p1), ['id', 'name', 'createdAt', 'stats', 'oldestMessage', 'newestMessage']);
        assert.match(p1.id, UUID);
        assert.deepEqual(Object.keys(p1.stats), STATS);
        assert.deepEqual(p1.stats, { total: 1, pending: 1, processing: 0, completed: 0, failed: null, deadLetter: 0 });
        assert.deepEqual(p2.stats, { total: 3, pending: 1, processing: 0, completed: 1, failed: null, deadLetter: 1 });
        assert.deepEqual(json.totals, { total: 4, pending: 2, processing: 0, completed: 1, failed: null, deadLetter: 1 });
        assert.match(p2.oldestMessage, TIME);
        assert.match(p2.newestMessage, TIME);
        assert.deepEqual((await get(path(queue, '?limit=1&offset=1'))).partitions.map((p) => p.name), ['p2']);
        const unknown = await c.queen.get(path(unique()));
        assert.deepEqual([unknown.status, unknown.json], [404, { error: 'Queue not found' }]);
        assertError(await c.queen.get(path('q'.repeat(513))), 413, /queue/);
    });

    it('depth', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b', 'c'], 'p1');
        await c.queen.push(queue, ['d'], 'p2');
        const popped = await c.queen.popPartition(queue, 'p1', { consumerGroup: 'g', batch: 2 });
        assert.deepEqual(await get(path(queue, '/depth')), {
            queue, group: null, pending: 4, processing: 2, ready: 2, partitionsPending: 2, partitionsReady: 2, conflation: false, effectivePending: 4, effectiveReady: 2,
            partitions: [{ partition: 'p1', pending: 3, processing: 2, ready: 1 }, { partition: 'p2', pending: 1, processing: 0, ready: 1 }],
        });
        await new Batch(c.queen, popped.json).complete();
        const g = await get(path(queue, '/depth?group=g'));
        assert.deepEqual([g.group, g.pending, g.processing, g.ready], ['g', 2, 0, 2]);
        const other = await get(path(queue, '/depth?group=other'));
        assert.deepEqual([other.group, other.pending, other.ready], ['other', 4, 4]);
        assert.deepEqual((await get(path(queue, '/depth?limit=1'))).partitions.length, 1);
        const unknown = await c.queen.get(path(unique(), '/depth'));
        assert.deepEqual([unknown.status, unknown.json], [404, { error: 'Queue not found' }]);
    });

    it('the empty queue name is one', async () => {
        await c.queen.configure('');
        assert.equal((await get('/api/v1/resources/queues/')).name, '');
        assert.equal((await get('/api/v1/resources/queues//depth')).queue, '');
        assert.deepEqual((await clear('')).json, { success: true, queue: '', cleared: 0 });
    });

    it('overview', async () => {
        const queue = unique();
        await c.queen.configure(queue, {}, { namespace: unique('n'), task: unique('t') });
        await c.queen.push(queue, ['a', 'b']);
        await c.queen.take(queue, ['a', 'b'], { consumerGroup: 'g' });
        assert.equal((await c.queen.post('/api/v1/stats/refresh', {})).status, 200);
        const json = await get('/api/v1/resources/overview');
        assert.deepEqual(Object.keys(json), ['queues', 'partitions', 'namespaces', 'tasks', 'messages', 'lag', 'throughput', 'timestamp', 'statsAge']);
        assert.deepEqual(Object.keys(json.messages), STATS);
        assert.deepEqual(Object.keys(json.lag), ['time', 'offset']);
        for (const lag of Object.values(json.lag)) assert.deepEqual(Object.keys(lag).sort(), ['avg', 'max', 'median', 'min']);
        assert.deepEqual(Object.keys(json.throughput), ['ingestedPerSecond', 'processedPerSecond']);
        assert.ok(json.queues >= 1 && json.partitions >= 1 && json.namespaces >= 1 && json.tasks >= 1);
        assert.ok(json.messages.total >= 2 && json.messages.pending >= 2 && json.messages.processing >= 1 && json.lag.offset.max >= 2);
        assert.match(json.timestamp, TIME);
        assert.ok(json.statsAge >= -1);
    });

    it('namespaces and tasks', async () => {
        const [namespace, task] = [unique('n'), unique('t')];
        for (const [q, t] of [['a', task], ['b', '']]) {
            const queue = unique(q);
            await c.queen.configure(queue, {}, { namespace, task: t });
            await c.queen.push(queue, ['x'], 'p1');
            await c.queen.push(queue, ['y'], 'p2');
        }
        const { namespaces } = await get('/api/v1/resources/namespaces');
        assert.deepEqual(namespaces.find((n) => n.namespace === namespace), { namespace, queues: 2, partitions: 4, messages: { total: 4, pending: 4 } });
        const { tasks } = await get('/api/v1/resources/tasks');
        assert.deepEqual(tasks.find((t) => t.task === task), { task, queues: 1, partitions: 2, messages: { total: 2, pending: 2 } });
        assert.ok(!tasks.some((t) => t.task === ''));
    });

    it('partitions', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b'], 'p2');
        await c.queen.push(queue, ['c'], 'p1');
        const { partitions } = await get(`/api/v1/resources/partitions?queue=${queue}`);
        assert.deepEqual(Object.keys(partitions[0]), ['id', 'name', 'queue', 'lastOffset', 'logStart', 'lastWriteAt']);
        assert.deepEqual(partitions.map((p) => [p.name, p.queue, p.lastOffset, p.logStart]), [['p1', queue, 0, 0], ['p2', queue, 1, 0]]);
        assert.match(partitions[0].lastWriteAt, TIME);
        assert.deepEqual((await get(`/api/v1/resources/partitions?queue=${queue}&limit=1&offset=1`)).partitions.map((p) => p.name), ['p2']);
        assert.deepEqual(await get(`/api/v1/resources/partitions?queue=${unique()}`), { partitions: [] });
        assert.ok((await get('/api/v1/resources/partitions')).partitions.length >= 2);
    });

    it('clear: messages and leases go, configuration and groups stay', async () => {
        const queue = unique();
        await c.queen.configure(queue, { leaseTime: 33 });
        await c.queen.push(queue, ['a', 'b'], 'p1');
        await c.queen.push(queue, ['c'], 'p2');
        const held = new Batch(c.queen, (await c.queen.popPartition(queue, 'p1', { consumerGroup: 'g', batch: 1 })).json);
        let answer = await clear(queue, '?partition=p1');
        assert.deepEqual([answer.status, answer.json], [200, { success: true, queue, cleared: 2 }]);
        const [late] = await held.ack([['a', 'completed']]);
        assert.deepEqual([late.success, late.error], [false, ERROR_LEASE]);
        await c.queen.take(queue, ['c'], { consumerGroup: 'g', batch: 10, partitions: 10 });
        answer = await clear(queue);
        assert.deepEqual(answer.json, { success: true, queue, cleared: 1 });
        await c.queen.nothing(queue, { consumerGroup: 'g' });
        await c.queen.nothing(queue, { consumerGroup: 'new' });
        const json = await get(path(queue));
        assert.deepEqual([json.options.leaseTime, json.totals.total, json.partitions.length], [33, 0, 2]);
        assert.equal((await c.queen.pushItems([{ queue, partition: 'p1', transactionId: 'a', payload: 1 }])).json[0].status, 'duplicate');
        await c.queen.push(queue, ['d'], 'p1');
        await c.queen.take(queue, ['d'], { consumerGroup: 'g' });

        assert.deepEqual([(await clear(unique())).status, (await clear(unique())).json], [404, { error: 'Queue not found' }]);
        assert.equal((await clear(queue, '?partition=none')).status, 404);
        assert.equal((await c.queen.get(`/api/v1/queues/${queue}/clear`)).status, 405);
    });
});
