// Status pages, time series, metrics, shared state (control plane, section 8).
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, query, TIME, unique, until, useQueen } from './lib/queen.mjs';

describe('status', { concurrency: 4 }, () => {
    const c = useQueen({ workers: 2 });
    const get = async (target, parameters = {}) => {
        const answer = await c.queen.get(`${target}${query(parameters)}`);
        assert.equal(answer.status, 200, answer.text);
        assert.match(answer.headers['content-type'], /^application\/json/);
        return answer.json;
    };
    const refresh = async () => {
        const answer = await c.queen.request('POST', '/api/v1/stats/refresh');
        assert.equal(answer.status, 200, answer.text);
        return answer.json;
    };
    /* A refresh that was not passed over because another one was under way. */
    const refreshed = () => until(async () => (await refresh()).system.systemUpdated === 1, 'a refresh');
    const refuses = async (target, cases) => {
        for (const [parameters, status, pattern] of cases) assertError(await c.queen.get(`${target}${query(parameters)}`), status, pattern);
    };
    const TIMES = [[{ from: 'soon' }, 400, /from.*soon/], [{ to: 'x' }, 400, /to.*x/], [{ from: '1970-01-01' }, 400, /ten years/]];

    /* A queue with n messages, all but one consumed. */
    const worked = async (n = 3) => {
        const queue = unique();
        const ids = Array.from({ length: n }, (_, i) => `m${i}`);
        await c.queen.configure(queue, { priority: 4 }, { namespace: `ns-${queue}`, task: `t-${queue}` });
        await c.queen.push(queue, ids);
        await (await c.queen.take(queue, ids.slice(0, -1), { consumerGroup: 'g', batch: n - 1 })).complete();
        return queue;
    };

    it('the refresh of figures says what it measured', async () => {
        await worked();
        await refreshed();
        const json = await refresh();
        assert.deepEqual(Object.keys(json), ['engine', 'queuesUpdated', 'segPartitions', 'namespaces', 'tasks', 'system', 'refreshedAt']);
        assert.equal(json.engine, 'segments');
        assert.match(json.refreshedAt, TIME);
        assert.ok((await get('/api/v1/resources/overview')).statsAge >= 0);
        const { queues } = await get('/api/v1/resources/queues');
        assert.ok(queues.some((q) => q.retainedBytes > 0 && q.segments.segments > 0));
    });

    it('status: shape, and one queue of it', async () => {
        const queue = await worked();
        await refreshed();
        const all = await get('/api/v1/status');
        assert.deepEqual(Object.keys(all), ['timeRange', 'bucketMinutes', 'pointCount', 'throughput', 'queues', 'messages', 'leases', 'deadLetterQueue', 'workers', 'errors', 'statsAge']);
        assert.equal(all.bucketMinutes, 1);
        assert.match(all.timeRange.from, TIME);
        for (const filter of [{ queue }, { namespace: `ns-${queue}` }, { task: `t-${queue}` }]) {
            const json = await get('/api/v1/status', filter);
            assert.deepEqual(json.queues.map((q) => [q.name, q.partitions, q.totalConsumed]), [[queue, 1, 2]]);
            assert.deepEqual([json.messages.total, json.messages.pending, json.messages.completed], [3, 1, 2]);
            assert.equal(json.pointCount, json.throughput.length);
            const sum = (key) => json.throughput.reduce((n, p) => n + p[key], 0);
            assert.deepEqual([sum('ingested'), sum('processed')], [3, 2]);
            assert.deepEqual(Object.keys(json.throughput[0]), ['timestamp', 'ingested', 'processed', 'popMessages', 'ingestedPerSecond', 'processedPerSecond', 'popPerSecond', 'avgLagMs', 'maxLagMs', 'avgEventLoopLagMs', 'maxEventLoopLagMs',
                'minFreeSlots', 'dbErrors', 'ackFailed', 'dlqCount', 'queenCpuUserPct', 'queenCpuSysPct', 'queenRssMb', 'dbPoolActive', 'dbPoolIdle', 'dbPoolSize']);
        }
        const now = Date.now();
        for (const [hours, minutes] of [[1, 1], [5, 5], [20, 15], [100, 60], [1000, 360]]) {
            const json = await get('/api/v1/status', { from: new Date(now - hours * 3600000).toISOString(), to: new Date(now).toISOString() });
            assert.equal(json.bucketMinutes, minutes);
        }
        await refuses('/api/v1/status', TIMES);
    });

    it('status/queues and status/queues/:queue', async () => {
        const queue = await worked();
        const list = await get('/api/v1/status/queues', { queue });
        assert.deepEqual(list.pagination, { limit: 100, offset: 0 });
        const [entry] = list.queues;
        assert.deepEqual(Object.keys(entry), ['id', 'name', 'namespace', 'task', 'createdAt', 'partitions', 'messages']);
        assert.deepEqual(entry.messages, { total: 3, pending: 1, processing: 0, completed: 2, deadLetter: 0 });
        assert.deepEqual((await get('/api/v1/status/queues', { queue, limit: 1, offset: 1 })), { queues: [], pagination: { limit: 1, offset: 1 } });
        const one = await get(`/api/v1/status/queues/${queue}`);
        assert.deepEqual(one.queue, { id: entry.id, name: queue, namespace: `ns-${queue}`, task: `t-${queue}`, priority: 4, createdAt: entry.createdAt,
            config: { leaseTime: 300, retryLimit: 3, retryDelay: 1000, ttl: 3600, maxQueueSize: 0, deadLetterQueue: true } });
        assert.deepEqual(Object.keys(one.partitions[0]), ['id', 'name', 'createdAt', 'messages', 'stats', 'cursor', 'lastActivity', 'oldestMessage', 'newestMessage']);
        assert.deepEqual(one.partitions[0].cursor, { totalConsumed: 2, batchesConsumed: 0 });
        assert.match(one.partitions[0].lastActivity, TIME);
        assert.deepEqual(one.totals.messages, { total: 3, pending: 1, processing: 0, completed: 2, failed: null, deadLetter: 0 });
        const unknown = await c.queen.get(`/api/v1/status/queues/${unique()}`);
        assert.deepEqual([unknown.status, unknown.json], [404, { error: 'Queue not found' }]);
    });

    it('status/analytics', async () => {
        const queue = await worked(5);
        await refreshed();
        const json = await get('/api/v1/status/analytics', { queue });
        assert.deepEqual(Object.keys(json), ['dataPoints', 'interval', 'from', 'to']);
        assert.equal(json.interval, 'hour');
        assert.equal(json.dataPoints.length, 25);
        assert.equal(json.dataPoints.reduce((n, p) => n + p.messages, 0), 5);
        assert.equal((await get('/api/v1/status/analytics', { queue, interval: 'day' })).dataPoints.reduce((n, p) => n + p.messages, 0), 5);
        await refuses('/api/v1/status/analytics', [...TIMES, [{ interval: 'week' }, 400, /interval.*week/], [{ interval: 'minute', from: '2026-01-01', to: '2026-03-01' }, 400, /points/]]);
    });

    it('status/buffers', async () => {
        assert.deepEqual(await get('/api/v1/status/buffers'), { pending: 0, failed: 0, dbHealthy: true, worker: 0 });
    });

    it('queue-lag, queue-ops, retention', async () => {
        const queue = await worked();
        await refreshed();
        const lag = await get('/api/v1/analytics/queue-lag', { queue });
        assert.deepEqual(Object.keys(lag[0]), ['queueName', 'popCount', 'avgLagMs', 'maxLagMs', 'bucketMinutes', 'bucketTime']);
        assert.equal(lag.reduce((n, p) => n + p.popCount, 0), 2);
        const ops = await get('/api/v1/analytics/queue-ops', { queue });
        assert.deepEqual(Object.keys(ops), ['timeRange', 'bucketMinutes', 'series', 'queues']);
        assert.deepEqual([ops.series.reduce((n, p) => n + p.pushMessages, 0), ops.series.reduce((n, p) => n + p.popMessages, 0), ops.queues], [3, 2, [queue]]);
        const none = await get('/api/v1/analytics/queue-ops', { queue: unique() });
        assert.deepEqual([none.series, none.queues], [[], []]);
        const retention = await get('/api/v1/analytics/retention', { queue });
        assert.deepEqual(retention.totals, { retentionMsgs: 0, completedRetentionMsgs: 0, evictionMsgs: 0, totalMsgs: 0, eventCount: 0 });
        for (const route of ['queue-lag', 'queue-ops', 'retention']) await refuses(`/api/v1/analytics/${route}`, TIMES);
    });

    it('system-metrics and worker-metrics: what the keeper rolled up', async () => {
        await worked();
        /* The keeper rolls up once a minute, and when it starts: so it is started anew. */
        await until(async () => (await get('/metrics')).database.poolSize > 0, 'heartbeats of workers that are connected');
        await until(async () => (await c.instance.psql('select count(*) from queen.metrics_last')) === '1', 'the mark');
        for (const pid of c.instance.pids().keeper) process.kill(pid, 'SIGKILL');
        const system = await until(async () => {
            const json = await get('/api/v1/analytics/system-metrics');
            return json.replicaCount > 0 && json;
        }, 'a row of the time series');
        assert.deepEqual(Object.keys(system), ['timeRange', 'replicas', 'replicaCount', 'bucketMinutes', 'pointCount']);
        const [replica] = system.replicas;
        assert.deepEqual([replica.workerId, system.replicaCount], [c.instance.runDir, 1]);
        const { metrics } = replica.timeSeries.at(-1);
        assert.ok(metrics.memory.rss_bytes.last > 1000000 && metrics.database.pool_size.max >= 1);
        const workers = await get('/api/v1/analytics/worker-metrics');
        assert.deepEqual(Object.keys(workers), ['timeRange', 'bucketMinutes', 'pointCount', 'timeSeries', 'workers', 'queues', 'summary']);
        const counters = await c.queen.counters();
        assert.ok(workers.summary.totalPushMessages >= 3 && workers.summary.totalPushMessages <= counters.push_messages, JSON.stringify(workers.summary));
        assert.ok(workers.workers.some((x) => x.hostname === replica.hostname && x.workerId === c.instance.runDir));
        assert.equal((await get('/api/v1/analytics/system-metrics', { hostname: 'elsewhere' })).replicaCount, 0);
        for (const route of ['system-metrics', 'worker-metrics']) await refuses(`/api/v1/analytics/${route}`, TIMES);
    });

    it('postgres-stats', async () => {
        assert.deepEqual(Object.keys(await get('/api/v1/analytics/postgres-stats')), ['timestamp', 'database', 'databaseCache', 'tableCache', 'indexCache', 'cacheSummary', 'deadTuples', 'hotUpdates', 'activeQueries', 'autovacuumStatus', 'bufferConfig', 'bufferUsage', 'tableSizes']);
    });

    it('metrics: sums over the host, whichever worker answers', async () => {
        const before = await get('/metrics');
        assert.deepEqual(Object.keys(before), ['uptime', 'requests', 'messages', 'database', 'memory', 'cpu']);
        await worked(4);
        const after = await get('/metrics');
        assert.ok(after.requests.total >= before.requests.total + 3);
        assert.ok(after.messages.total >= before.messages.total + 10);
        await until(async () => {
            const { database, memory, cpu } = await get('/metrics');
            return database.poolSize >= 2 * 8 && database.idleConnections > 0 && memory.rss > 4 * 1000000 && cpu.user + cpu.system > 0;
        }, 'heartbeats of all processes');
        assert.ok(after.uptime >= 0 && after.uptime < 3600);
    });

    it('rates are those of the last seconds', async () => {
        await until(async () => {
            await worked();
            const { requests, messages } = await get('/metrics');
            return requests.rate > 0 && messages.rate > 0;
        }, 'rates');
    });

    it('prometheus has the figures of processes', async () => {
        const answer = await c.queen.get('/metrics/prometheus');
        for (const family of ['queen_resident_memory_bytes', 'queen_cpu_user_microseconds_total', 'queen_database_connections', 'queen_ack_failed_total', 'queen_pop_lag_milliseconds_total']) assert.match(answer.text, new RegExp(`^${family} \\d+$`, 'm'));
    });

    it('failed acks and the age of delivered messages are counted', async () => {
        const before = await c.queen.counters();
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.instance.psql(`update queen.log_segments s set created_at = s.created_at - interval '5 seconds' from queen.log_partitions p join queen.queues q on q.id = p.queue_id where q.name = '${queue}' and s.partition_id = p.id`);
        const batch = await c.queen.take(queue, ['a'], { consumerGroup: 'g' });
        await c.queen.ackBatch([{ transactionId: 'nobody', partitionId: batch.partitionId, leaseId: batch.leaseId, status: 'completed' }], 'g');
        const after = await c.queen.counters();
        assert.ok(after.ack_failed > before.ack_failed);
        assert.ok(after.pop_lag_ms >= before.pop_lag_ms + 5000);
    });

    it('shared state', async () => {
        const json = await get('/api/v1/system/shared-state');
        assert.deepEqual(Object.keys(json), ['enabled', 'runDirectory', 'maintenance', 'slots', 'counters', 'registry', 'dedup']);
        assert.equal(json.runDirectory, c.instance.runDir);
        assert.deepEqual(json.maintenance, { push: false, pop: false });
        assert.equal(json.slots.filter((s) => s.kind === 'worker' && s.alive).length, 2);
        assert.ok(json.counters.requests > 0 && json.registry.capacity > 0);
    });

    it('methods', async () => {
        for (const route of ['/api/v1/status', '/api/v1/status/queues', '/api/v1/analytics/queue-lag', '/metrics']) assert.equal((await c.queen.post(route, {})).status, 405);
        assert.equal((await c.queen.get('/api/v1/stats/refresh')).status, 405);
    });
});
