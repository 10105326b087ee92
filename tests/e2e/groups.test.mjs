// Consumer groups: list, lagging, detail, subscription, seek, delete (control plane, section 2).
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, Batch, ERROR_LEASE, QUEUE_MODE, query, sleep, TIME, unique, until, useQueen, UUID } from './lib/queen.mjs';

const LIST_KEYS = ['name', 'topics', 'queueName', 'members', 'partitionCursors', 'partitionsWithLag', 'totalLag', 'maxTimeLag', 'state', 'storage', 'subscriptionMode', 'subscriptionTimestamp', 'subscriptionCreatedAt', 'conflation'];
const LAGGING_KEYS = ['consumer_group', 'queue_name', 'partition_name', 'partition_id', 'worker_id', 'offset_lag', 'time_lag_seconds', 'lag_hours', 'oldest_unconsumed_at', 'last_consumed_at'];
const DETAIL_KEYS = ['partition', 'workerId', 'lastConsumedAt', 'totalConsumed', 'offsetLag', 'timeLagSeconds', 'leaseActive'];

const group = (name, rest = '') => `/api/v1/consumer-groups/${encodeURIComponent(name)}${rest}`;
const onQueue = (name, queue, rest = '') => group(name, `/queues/${encodeURIComponent(queue)}${rest}`);
const onPartition = (name, queue, partition) => onQueue(name, queue, `/partitions/${encodeURIComponent(partition)}/seek`);

describe('consumer groups', { concurrency: 4 }, () => {
    const c = useQueen();
    const seek = (name, queue, body) => c.queen.post(onQueue(name, queue, '/seek'), body);
    const list = async (queue) => {
        const answer = await c.queen.get('/api/v1/consumer-groups');
        assert.equal(answer.status, 200, answer.text);
        return answer.json.filter((g) => g.queueName === queue);
    };
    const detail = async (name, parameters = {}) => {
        const answer = await c.queen.get(`${group(name)}${query(parameters)}`);
        assert.equal(answer.status, 200, answer.text);
        return answer.json;
    };
    const consume = async (queue, ids, consumerGroup) => (await c.queen.take(queue, ids, { consumerGroup, batch: ids.length })).complete();
    const age = (queue, interval) => c.instance.psql(`update queen.log_segments s set created_at = s.created_at - interval '${interval}'
        from queen.log_partitions p, queen.queues q where p.id = s.partition_id and q.id = p.queue_id and q.name = '${queue}'`);

    it('list: shape, lag, states', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b', 'c'], 'p1');
        await c.queen.push(queue, ['d'], 'p2');
        await c.queen.nothing(queue, { consumerGroup: 'new', subscriptionMode: 'new' });
        const answer = await c.queen.popPartition(queue, 'p1', { consumerGroup: 'old', batch: 2 });
        let [fresh, old] = await list(queue);
        assert.deepEqual(Object.keys(old), LIST_KEYS);
        assert.deepEqual([old.name, old.topics, old.queueName, old.members, old.partitionCursors, old.partitionsWithLag, old.totalLag, old.state, old.storage, old.subscriptionMode, old.conflation],
            ['old', [queue], queue, 2, 2, 2, 4, 'Dead', 'segments', 'all', false]);
        assert.match(old.subscriptionCreatedAt, TIME);
        assert.equal(Date.parse(old.subscriptionTimestamp), 0);
        assert.deepEqual([fresh.name, fresh.partitionsWithLag, fresh.totalLag, fresh.maxTimeLag, fresh.state, fresh.subscriptionMode], ['new', 0, 0, 0, 'Dead', 'new']);

        await new Batch(c.queen, answer.json).complete();
        [, old] = await list(queue);
        assert.deepEqual([old.totalLag, old.partitionsWithLag, old.state], [2, 2, 'Stable']);
        await age(queue, '301 seconds');
        [, old] = await list(queue);
        assert.equal(old.state, 'Lagging');
        assert.ok(old.maxTimeLag >= 301 && old.maxTimeLag < 400, `${old.maxTimeLag}`);
    });

    it('list: limit and offset', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.queen.take(queue, ['a'], { consumerGroup: 'g' });
        const all = (await c.queen.get('/api/v1/consumer-groups?limit=1')).json;
        assert.equal(all.length, 1);
        assert.deepEqual((await c.queen.get('/api/v1/consumer-groups?offset=2000000000')).json, []);
        assertError(await c.queen.get('/api/v1/consumer-groups?limit=abc'), 400, /limit/);
    });

    it('the queue-mode group is listed like any', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.queen.take(queue, ['a']);
        assert.deepEqual((await list(queue)).map((g) => g.name), [QUEUE_MODE]);
    });

    it('lagging: worst first, strictly above the limit', async () => {
        const [queue, other] = [unique(), unique()];
        const mine = async (parameters) => {
            const answer = await c.queen.get(`/api/v1/consumer-groups/lagging${query(parameters)}`);
            assert.equal(answer.status, 200, answer.text);
            return answer.json.filter((l) => [queue, other].includes(l.queue_name));
        };
        for (const q of [queue, other]) await c.queen.push(q, ['a', 'b'], 'p');
        const { leaseId, partitionId } = await c.queen.take(queue, ['a'], { consumerGroup: 'g', batch: 1 });
        await c.queen.take(other, ['a'], { consumerGroup: 'g', batch: 1 });
        await age(queue, '2 hours');
        await age(other, '3 hours');
        const lagging = await mine({});
        assert.deepEqual(lagging.map((l) => l.queue_name), [other, queue]);
        const [, l] = lagging;
        assert.deepEqual(Object.keys(l), LAGGING_KEYS);
        assert.deepEqual([l.consumer_group, l.partition_name, l.partition_id, l.worker_id, l.offset_lag, l.lag_hours, l.last_consumed_at], ['g', 'p', partitionId, leaseId, 2, 2, null]);
        assert.ok(l.time_lag_seconds >= 7200 && l.time_lag_seconds < 7300);
        assert.match(l.oldest_unconsumed_at, TIME);
        assert.deepEqual((await mine({ minLagSeconds: 9000 })).map((x) => x.queue_name), [other]);
        assert.deepEqual(await mine({ minLagSeconds: 20000 }), []);
        assertError(await c.queen.get('/api/v1/consumer-groups/lagging?minLagSeconds=x'), 400, /minLagSeconds/);
    });

    it('detail: per queue, partitions by name, paging; {} when unknown', async () => {
        const [queue, other, name] = [unique('a'), unique('b'), unique('g')];
        await c.queen.push(queue, ['a', 'b'], 'p2');
        await c.queen.push(queue, ['c'], 'p1');
        await c.queen.push(other, ['d'], 'p');
        await c.queen.take(other, ['d'], { consumerGroup: name });
        const batch = new Batch(c.queen, (await c.queen.popPartition(queue, 'p2', { consumerGroup: name, batch: 1 })).json);
        let json = await detail(name);
        assert.deepEqual(Object.keys(json), [queue, other]);
        assert.equal(json[queue].conflation, false);
        assert.deepEqual(json[queue].partitions.map((p) => p.partition), ['p1', 'p2']);
        assert.deepEqual(Object.keys(json[queue].partitions[0]), DETAIL_KEYS);
        assert.deepEqual(json[queue].partitions.map((p) => [p.workerId, p.lastConsumedAt, p.totalConsumed, p.offsetLag, p.leaseActive]),
            [[null, null, 0, 1, false], [batch.leaseId, null, 0, 2, true]]);
        await batch.complete();
        json = await detail(name);
        assert.deepEqual([json[queue].partitions[1].totalConsumed, json[queue].partitions[1].offsetLag, json[queue].partitions[1].leaseActive], [1, 1, false]);
        json = await detail(name, { limit: 1, offset: 1 });
        assert.deepEqual(json[queue].partitions.map((p) => p.partition), ['p2']);
        assert.equal(json[other], undefined);
        const unknown = await c.queen.get(group(unique()));
        assert.deepEqual([unknown.status, unknown.text], [200, '{}']);
    });

    it('seek to the beginning replays; the old lease is gone', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b']);
        await consume(queue, ['a', 'b'], 'g');
        await c.queen.push(queue, ['c']);
        const held = await c.queen.take(queue, ['c'], { consumerGroup: 'g' });
        const answer = await seek('g', queue, { timestamp: '1970-01-01T00:00:00Z' });
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(answer.json, { success: true, consumerGroup: 'g', queueName: queue, seekToEnd: false, targetTimestamp: '1970-01-01T00:00:00Z', partitionsUpdated: 1 });
        const [late] = await held.ack([['c', 'completed']]);
        assert.deepEqual([late.success, late.error], [false, ERROR_LEASE]);
        await consume(queue, ['a', 'b', 'c'], 'g');
        await c.queen.nothing(queue, { consumerGroup: 'g' });
    });

    it('seek to a time: just before the first segment at or after it', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await sleep(20);
        const [b] = await c.queen.push(queue, ['b']);
        assert.equal(b.status, 'queued');
        const all = await c.queen.take(queue, ['a', 'b'], { consumerGroup: 'g', batch: 10 });
        await all.complete();
        const at = all.messages[1].createdAt;
        assert.equal((await seek('g', queue, { timestamp: at })).status, 200);
        await consume(queue, ['b'], 'g');
        assert.equal((await seek('g', queue, { timestamp: '2999-01-01T00:00:00Z' })).status, 200);
        await c.queen.nothing(queue, { consumerGroup: 'g' });
    });

    it('seek to the end, of a group that never popped: its first pop keeps the place', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a'], 'p1');
        await c.queen.push(queue, ['b'], 'p2');
        const answer = await seek('g', queue, { toEnd: true, timestamp: '1970-01-01T00:00:00Z' });
        assert.deepEqual(answer.json, { success: true, consumerGroup: 'g', queueName: queue, seekToEnd: true, targetTimestamp: null, partitionsUpdated: 2 });
        assert.equal((await list(queue))[0].subscriptionMode, null);
        await c.queen.nothing(queue, { consumerGroup: 'g' });
        await c.queen.push(queue, ['c'], 'p1');
        await c.queen.take(queue, ['c'], { consumerGroup: 'g' });
    });

    it('seek resets the retry budget', async () => {
        const queue = unique();
        await c.queen.configure(queue, { retryLimit: 1 });
        await c.queen.push(queue, ['a']);
        const fail = async () => (await (await c.queen.take(queue, ['a'], { consumerGroup: 'g' })).ack([['a', 'failed', 'no']]))[0];
        assert.equal((await fail()).dlq, false);
        assert.equal((await seek('g', queue, { timestamp: '1970-01-01T00:00:00Z' })).status, 200);
        assert.equal((await fail()).dlq, false);
        assert.equal((await fail()).dlq, true);
    });

    it('seek of one partition; an empty body is its end', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a'], 'p/1');
        await c.queen.push(queue, ['b'], 'p2');
        let answer = await c.queen.request('POST', onPartition('g', queue, 'p/1'));
        assert.equal(answer.status, 200, answer.text);
        assert.deepEqual(answer.json, { success: true, consumerGroup: 'g', queueName: queue, partitionName: 'p/1', seekToEnd: true, targetTimestamp: null, updated: true });
        await c.queen.take(queue, ['b'], { consumerGroup: 'g', batch: 10, partitions: 10 });
        answer = await c.queen.post(onPartition('g', queue, 'none'), { toEnd: true });
        assert.equal(answer.status, 404);
        assert.deepEqual(answer.json, { success: false, error: 'Partition not found' });
        assertError(await c.queen.post(onPartition('g', queue, 'p2'), '{}'), 400, /^Must specify toEnd=true or a timestamp$/);
    });

    it('seek refuses', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        for (const body of ['{}', '{"toEnd":false}', '{"timestamp":""}', '{"timestamp":null,"toEnd":null}']) {
            assertError(await seek('g', queue, body), 400, /^Must specify toEnd=true or a timestamp$/);
        }
        for (const body of ['', '{', '[]', '{"toEnd":"yes"}', '{"timestamp":1}', '{"timestamp":"\\u0000"}']) assertError(await seek('g', queue, body), 400, /^bad body/);
        assertError(await seek('g', queue, { timestamp: 'soon' }), 400, /timestamp.*soon/);
        const missing = await seek('g', `${queue}-none`, { toEnd: true });
        assert.equal(missing.status, 404);
        assert.deepEqual(missing.json, { success: false, error: 'Queue not found or has no partitions', consumerGroup: 'g', queueName: `${queue}-none`, partitionsUpdated: 0 });
        const empty = unique();
        await c.queen.configure(empty);
        assert.equal((await seek('g', empty, { toEnd: true })).status, 404);
        assertError(await seek('g'.repeat(513), queue, { toEnd: true }), 413, /consumerGroup/);
        assert.equal((await c.queen.get(onQueue('g', queue, '/seek'))).status, 405);
    });

    it('subscription: places the cursors of a group deleted without it', async () => {
        const [queue, name] = [unique(), unique('g')];
        const post = (body) => c.queen.post(group(name, '/subscription'), body);
        await c.queen.push(queue, ['a']);
        await sleep(20);
        await c.queen.push(queue, ['b']);
        const batch = await c.queen.take(queue, ['a', 'b'], { consumerGroup: name, batch: 10 });
        await batch.complete();
        const at = batch.messages[1].createdAt;
        assert.deepEqual((await post({ subscriptionTimestamp: at })).json, { success: true, consumerGroup: name, newTimestamp: at, rowsUpdated: 1 });
        await c.queen.nothing(queue, { consumerGroup: name });
        const removed = await c.queen.request('DELETE', `${group(name)}?deleteMetadata=false`);
        assert.deepEqual(removed.json, { success: true, consumerGroup: name, deletedPartitions: 1, metadataDeleted: false });
        await until(async () => (await list(queue)).length === 1 || (await c.queen.pop(queue, { consumerGroup: name })).status === 200, 'cursors are made again');
        const [entry] = await list(queue);
        assert.equal(entry.totalLag, 1);
        assert.equal(entry.subscriptionTimestamp, at);

        for (const body of ['{}', '{"subscriptionTimestamp":null}', '{"subscriptionTimestamp":""}']) assertError(await post(body), 400, /^subscriptionTimestamp is required$/);
        for (const body of ['', '[', '{"subscriptionTimestamp":5}']) assertError(await post(body), 400, /^bad body/);
        assertError(await post({ subscriptionTimestamp: 'never' }), 400, /subscriptionTimestamp.*never/);
        assert.equal((await c.queen.post(group(unique(), '/subscription'), { subscriptionTimestamp: at })).json.rowsUpdated, 0);
    });

    it('a deleted group starts over, on one queue or on all', async () => {
        const [queue, other, name] = [unique(), unique(), unique('g')];
        for (const q of [queue, other]) {
            await c.queen.push(q, ['a']);
            await consume(q, ['a'], name);
        }
        let answer = await c.queen.request('DELETE', onQueue(name, queue));
        assert.deepEqual([answer.status, answer.json], [200, { success: true, consumerGroup: name, queueName: queue, deletedPartitions: 1, metadataDeleted: true }]);
        await c.queen.nothing(other, { consumerGroup: name });
        await consume(queue, ['a'], name);
        answer = await c.queen.request('DELETE', `${group(name)}?deleteMetadata=true`);
        assert.deepEqual(answer.json, { success: true, consumerGroup: name, deletedPartitions: 2, metadataDeleted: true });
        assert.deepEqual(await detail(name), {});
        const parked = c.queen.take(queue, ['a'], { consumerGroup: name }, { waitMs: 30000 });
        await parked;
        for (const target of [group(name), onQueue(name, other)]) {
            answer = await c.queen.request('DELETE', target.replace(name, unique('none')));
            assert.equal(answer.status, 200);
            assert.deepEqual([answer.json.deletedPartitions, answer.json.metadataDeleted], [0, false]);
        }
        assertError(await c.queen.request('DELETE', `${group(name)}?deleteMetadata=perhaps`), 400, /deleteMetadata/);
    });

    it('partition ids are ids', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.queen.take(queue, ['a'], { consumerGroup: 'g' });
        await age(queue, '2 hours');
        const answer = (await c.queen.get('/api/v1/consumer-groups/lagging')).json.find((l) => l.queue_name === queue);
        assert.match(answer.partition_id, UUID);
    });
});

/* Without the fallback poll, so that only a wake-up can end the wait in time. */
describe('consumer groups and parked pops', () => {
    const c = useQueen({ env: { QUEEN_FALLBACK_POLL_MS: '60000' } });
    const seek = (name, queue, body) => c.queen.post(onQueue(name, queue, '/seek'), body);
    const consume = async (queue, ids, consumerGroup) => (await c.queen.take(queue, ids, { consumerGroup, batch: ids.length })).complete();
    /* A pop that has looked and waits. */
    const park = async (queue, ids, consumerGroup) => {
        const parked = c.queen.take(queue, ids, { consumerGroup }, { waitMs: 30000 });
        let before;
        await until(async () => {
            const { pop_parked: count, pop_commits: looks } = await c.queen.counters();
            const settled = count > 0 && looks === before;
            before = looks;
            return settled;
        }, 'the pop parks');
        return { parked };
    };

    it('seek wakes a parked pop of the group', async () => {
        const [queue, other] = [unique(), unique()];
        for (const q of [queue, other]) {
            await c.queen.push(q, ['a'], 'p/1');
            await consume(q, ['a'], 'g');
        }
        for (const move of [() => seek('g', queue, { timestamp: '1970-01-01T00:00:00Z' }), () => c.queen.post(onPartition('g', queue, 'p/1'), { timestamp: '1970-01-01T00:00:00Z' })]) {
            const { parked } = await park(queue, ['a'], 'g');
            assert.equal((await move()).status, 200);
            await (await parked).complete();
        }
        await c.queen.nothing(other, { consumerGroup: 'g' });
    });

    it('deleting a group wakes its parked pops', async () => {
        const [queue, name] = [unique(), unique('g')];
        await c.queen.push(queue, ['a']);
        await consume(queue, ['a'], name);
        const { parked } = await park(queue, ['a'], name);
        assert.equal((await c.queen.request('DELETE', group(name))).json.deletedPartitions, 1);
        await parked;
    });
});
