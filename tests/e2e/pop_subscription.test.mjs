// Where a consumer group starts: subscriptionMode, subscriptionFrom, the durable record, partitions born later.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { sleep, unique, useQueen } from './lib/queen.mjs';

describe('pop subscription', { concurrency: 8 }, () => {
    const c = useQueen();
    const all = async (queue, parameters = {}) => {
        const answer = await c.queen.pop(queue, { partitions: 100, consumerGroup: 'g', ...parameters });
        return answer.status === 204 ? [] : answer.json.messages.map((m) => m.transactionId).sort();
    };
    const old = async () => {
        const queue = unique();
        await c.queen.push(queue, ['old1', 'old2']);
        return queue;
    };

    it('everything retained by default', async () => {
        assert.deepEqual(await all(await old()), ['old1', 'old2']);
    });

    for (const mode of ['all', 'ALL', 'from_beginning', 'earliest', '', 'nwe']) {
        it(`subscriptionMode=${mode} is all`, async () => {
            assert.deepEqual(await all(await old(), { subscriptionMode: mode }), ['old1', 'old2']);
        });
    }

    for (const mode of ['new', 'NEW', ' new ', 'new-only', 'new_only', 'NewOnly']) {
        it(`subscriptionMode=${mode} is new: only what is pushed after the first pop`, async () => {
            const queue = await old();
            assert.deepEqual(await all(queue, { subscriptionMode: mode }), []);
            await c.queen.push(queue, ['new1']);
            assert.deepEqual(await all(queue, { subscriptionMode: mode }), ['new1']);
        });
    }

    it('never applies to queue mode', async () => {
        const a = await old();
        await c.queen.take(a, ['old1', 'old2'], { subscriptionMode: 'new' });
        const b = await old();
        await c.queen.take(b, ['old1', 'old2'], { subscriptionFrom: 'now' });
        const p = await old();
        assert.equal((await c.queen.popPartition(p, 'Default', { subscriptionMode: 'new' })).status, 200);
    });

    it('seeds a cursor once: later pops that say otherwise change nothing', async () => {
        const queue = await old();
        assert.deepEqual(await all(queue, { subscriptionMode: 'new' }), []);
        assert.deepEqual(await all(queue, { subscriptionMode: 'all' }), []);
        assert.deepEqual(await all(queue, { subscriptionFrom: '2020-01-01T00:00:00Z' }), []);
        const other = await old();
        const batch = await c.queen.take(other, ['old1'], { consumerGroup: 'g', batch: 1, subscriptionMode: 'all' });
        await batch.complete();
        assert.deepEqual(await all(other, { subscriptionMode: 'new' }), ['old2']);
    });

    it('groups are independent of each other', async () => {
        const queue = await old();
        assert.deepEqual(await all(queue, { consumerGroup: 'a', subscriptionMode: 'new' }), []);
        assert.deepEqual(await all(queue, { consumerGroup: 'b' }), ['old1', 'old2']);
        await c.queen.push(queue, ['x']);
        assert.deepEqual(await all(queue, { consumerGroup: 'a' }), ['x']);
        assert.deepEqual(await all(queue, { consumerGroup: 'c', subscriptionMode: 'all' }), ['old1', 'old2', 'x']);
    });

    it('subscriptionFrom=now is new', async () => {
        const queue = await old();
        assert.deepEqual(await all(queue, { subscriptionFrom: 'now' }), []);
        await c.queen.push(queue, ['x']);
        assert.deepEqual(await all(queue), ['x']);
    });

    it('subscriptionFrom=<time> starts at the first segment of that time or later', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await sleep(20);
        await c.queen.push(queue, ['b', 'c']);
        await sleep(20);
        await c.queen.push(queue, ['d']);
        const { json } = await c.queen.pop(queue, { consumerGroup: 'look' });
        const [, b, , d] = json.messages.map((m) => m.createdAt);
        assert.deepEqual(await all(queue, { consumerGroup: 'b', subscriptionFrom: b }), ['b', 'c', 'd'], 'inclusive, to the microsecond');
        const before = new Date(Date.parse(d) - 5).toISOString();
        assert.deepEqual(await all(queue, { consumerGroup: 'd', subscriptionFrom: before }), ['d']);
        assert.deepEqual(await all(queue, { consumerGroup: 'past', subscriptionFrom: '2020-01-01T00:00:00Z' }), ['a', 'b', 'c', 'd']);
        const offset = d.replace('Z', '+00:00');
        assert.deepEqual(await all(queue, { consumerGroup: 'offset', subscriptionFrom: offset }), ['d']);
        assert.deepEqual(await all(queue, { consumerGroup: 'future', subscriptionFrom: '2100-01-01T00:00:00Z' }), []);
        await c.queen.push(queue, ['e']);
        assert.deepEqual(await all(queue, { consumerGroup: 'future' }), ['e'], 'the seed was the last offset');
    });

    it('an unparsable subscriptionFrom is ignored', async () => {
        for (const from of ['yesterday-ish', '2020-13-45', '{}', "'; select 1", '']) {
            assert.deepEqual(await all(await old(), { subscriptionFrom: from }), ['old1', 'old2'], from);
        }
        assert.deepEqual(await all(await old(), { subscriptionFrom: 'garbage', subscriptionMode: 'new' }), []);
    });

    it('a partition born after the subscription is delivered whole', async () => {
        for (const parameters of [{ subscriptionMode: 'new' }, { subscriptionFrom: 'now' }]) {
            const queue = await old();
            assert.deepEqual(await all(queue, parameters), []);
            await c.queen.push(queue, ['l1', 'l2'], 'late');
            await c.queen.push(queue, ['l3'], 'late');
            assert.deepEqual(await all(queue, parameters), ['l1', 'l2', 'l3']);
        }
    });

    it('a group may subscribe before the first push', async () => {
        const queue = unique();
        assert.deepEqual(await all(queue, { subscriptionMode: 'new' }), []);
        await c.queen.push(queue, ['a'], 'p');
        await c.queen.push(queue, ['b'], 'q');
        assert.deepEqual(await all(queue, { subscriptionMode: 'new' }), ['a', 'b']);
    });

    it('the record of the first pop counts for partitions that the group meets later', async () => {
        const queue = unique();
        await c.queen.push(queue, ['p-old'], 'p');
        await c.queen.push(queue, ['q-old'], 'q');
        const pinned = async (partition, parameters = {}) => {
            const answer = await c.queen.popPartition(queue, partition, { consumerGroup: 'g', ...parameters });
            return answer.status === 204 ? [] : answer.json.messages.map((m) => m.transactionId);
        };
        assert.deepEqual(await pinned('p', { subscriptionMode: 'new' }), []);
        assert.deepEqual(await pinned('q'), [], 'q existed when the group subscribed');
        await c.queen.push(queue, ['q-new'], 'q');
        assert.deepEqual(await pinned('q', { subscriptionMode: 'all' }), ['q-new']);
        await c.queen.push(queue, ['r-1'], 'r');
        assert.deepEqual(await pinned('r'), ['r-1']);
    });

    it('holds on the pinned and the discovery route', async () => {
        const namespace = unique('ns');
        const queue = `${namespace}.q`;
        await c.queen.push(queue, ['old']);
        assert.equal((await c.queen.popDiscover({ namespace, consumerGroup: 'd', subscriptionMode: 'new' })).status, 204);
        assert.equal((await c.queen.popPartition(queue, 'Default', { consumerGroup: 'p', subscriptionFrom: 'now' })).status, 204);
        await c.queen.push(queue, ['x']);
        const found = await c.queen.popDiscover({ namespace, consumerGroup: 'd' });
        assert.deepEqual(found.json.messages.map((m) => m.transactionId), ['x']);
        const pinned = await c.queen.popPartition(queue, 'Default', { consumerGroup: 'p' });
        assert.deepEqual(pinned.json.messages.map((m) => m.transactionId), ['x']);
    });

    it('a new subscription made by a long poll gets the push that wakes it', async () => {
        const queue = await old();
        const poll = c.queen.pop(queue, { consumerGroup: 'g', subscriptionMode: 'new', wait: true, timeout: 20000 });
        await sleep(1500);
        await c.queen.push(queue, ['x']);
        const answer = await poll;
        assert.equal(answer.status, 200);
        assert.deepEqual(answer.json.messages.map((m) => m.transactionId), ['x']);
    });
});
