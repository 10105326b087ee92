// The Go client and queenctl's use of it: times, escaped paths, partial options, replace, partition seek.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { sleep, unique, useQueen } from '../lib/queen.mjs';
import { GoClient } from './go.mjs';

describe('Go client', { concurrency: 4 }, () => {
    const c = useQueen();
    let go;
    before(() => {
        go = new GoClient(c.queen);
    });
    const ack = (m, status) => c.queen.ack({ transactionId: m.transactionId, partitionId: m.partitionId, status, leaseId: m.leaseId, consumerGroup: m.consumerGroup });

    it('messages decode, createdAt is RFC 3339 of now, wrapped scalars come back wrapped', async () => {
        const queue = unique();
        await go.push(queue, [{ a: 1 }, [1, 2], 'text']);
        const { messages } = await go.pop(queue, { batch: 10, wait: true, timeout: 5000, autoAck: false, consumerGroup: 'g' });
        assert.deepEqual(messages.map((m) => m.data), [{ a: 1 }, { data: [1, 2] }, { data: 'text' }]);
        for (const m of messages) assert.ok(Math.abs(m.createdAt / 1000 - Date.now()) < 60000, `${m.createdAt}`);
    });

    it('newExpiresAt parses, moves on with every renewal, and is null for an unknown lease', async () => {
        const queue = unique();
        await c.queen.configure(queue, { leaseTime: 20 });
        await go.push(queue, [1]);
        const { messages: [m] } = await go.pop(queue);
        const first = await go.renew(m.leaseId);
        assert.ok(first.success && first.newExpiresAt / 1000 > Date.now() + 40000);
        await sleep(2);
        assert.ok((await go.renew(m.leaseId)).newExpiresAt > first.newExpiresAt);
        assert.deepEqual(await go.renew('unknown / lease'), { leaseId: 'unknown / lease', success: false, newExpiresAt: null });
    });

    it('escaped segments: queues, partitions, groups and transaction ids with slashes and percent signs', async () => {
        const queue = `${unique()}/ü 100%`, partition = 'a/b?c#d', group = unique('g/%');
        await c.queen.pushItems([{ queue, partition, transactionId: 'order/1%', payload: 1 }]);
        const { messages: [m] } = await go.popPartition(queue, partition, { consumerGroup: group });
        assert.deepEqual([m.transactionId, m.partition], ['order/1%', partition]);
        assert.equal((await go.message(m.partitionId, 'order/1%')).json.transactionId, 'order/1%');
        assert.equal((await go.depth(queue, group)).pending, 1);
        assert.equal((await ack(m, 'completed')).json[0].success, true);
        assert.equal((await go.depth(queue, group)).pending, 0);
        const begin = await go.seekPartition(group, queue, partition, { timestamp: '1970-01-01T00:00:00Z' });
        assert.deepEqual([begin.status, begin.json.updated], [200, true]);
        assert.equal((await go.popPartition(queue, partition, { consumerGroup: group })).messages.length, 1);
        const end = await go.seekPartition(group, queue, partition, '');
        assert.deepEqual([end.status, end.json.seekToEnd], [200, true]);
        assert.equal((await go.seek(group, queue, { timestamp: '1970-01-01T00:00:00Z' })).json.partitionsUpdated, 1);
    });

    it('configure with the queue alone, with explicit zeros, falses and nulls, and with mode replace', async () => {
        const queue = unique();
        const plain = await go.configure({ queue });
        assert.deepEqual([plain.status, plain.json.options.leaseTime], [200, 300]);
        const set = await go.configure({ queue, options: { leaseTime: 10, deadLetterQueue: false, dlqAfterMaxRetries: false, retryLimit: 0, delayedProcessing: 0 } });
        assert.deepEqual([set.json.options.leaseTime, set.json.options.deadLetterQueue, set.json.options.retryLimit], [10, false, 0]);
        const back = await go.configure({ queue, options: { leaseTime: null } });
        assert.deepEqual([back.json.options.leaseTime, back.json.options.retryLimit], [300, 0]);
        const replaced = await go.configure({ queue, mode: 'replace', options: { leaseTime: 7 } });
        assert.deepEqual([replaced.json.options.leaseTime, replaced.json.options.retryLimit, replaced.json.options.deadLetterQueue], [7, 3, true]);
    });

    it('dead letters decode with both times and the reason', async () => {
        const queue = unique();
        await go.push(queue, [{ bad: true }]);
        const { messages: [m] } = await go.pop(queue, { consumerGroup: 'g' });
        await c.queen.ack({ transactionId: m.transactionId, partitionId: m.partitionId, status: 'dlq', error: 'broken', leaseId: m.leaseId, consumerGroup: 'g' });
        const dead = await go.dlq({ queue, consumerGroup: 'g', limit: 10, offset: 0 });
        assert.deepEqual([dead.total, dead.messages[0].errorMessage, dead.messages[0].data], [1, 'broken', { bad: true }]);
        assert.ok(dead.messages[0].failedAt >= dead.messages[0].createdAt - 1e6);
    });

    it('what the command line reads: analytics, Prometheus text, a refresh without a body', async () => {
        const get = async (path) => {
            const answer = await c.queen.get(path);
            assert.equal(answer.status, 200, answer.text);
            return answer;
        };
        assert.ok(Array.isArray((await get('/api/v1/analytics/queue-lag')).json));
        assert.ok(Array.isArray((await get('/api/v1/analytics/queue-ops')).json.series));
        assert.ok('totals' in (await get('/api/v1/analytics/retention')).json);
        const text = await get('/metrics/prometheus');
        assert.match(text.headers['content-type'], /^text\/plain; version=0\.0\.4/);
        assert.match(text.text, /^# TYPE \w+ (counter|gauge)$/m);
        assert.equal((await c.queen.request('POST', '/api/v1/stats/refresh')).status, 200);
    });

    it('conflation and autopilot answers decode', async () => {
        const queue = unique();
        await go.push(queue, [1, 2]);
        const newest = await go.pop(queue, { consumerGroup: 'newest', conflation: true, batch: 10 });
        assert.deepEqual([newest.conflation, newest.messages.map((m) => m.data)], [true, [{ data: 2 }]]);
        const conflict = await go.pop(queue, { consumerGroup: 'newest', conflation: false, batch: 10 });
        assert.equal(conflict.conflationConflict, true);
        const piloted = await go.pop(queue, { consumerGroup: 'piloted', autopilot: true, wait: true, timeout: 5000 });
        assert.ok(piloted.messages.length >= 1);
        assert.notEqual(piloted.autopilot, null);
    });
});
