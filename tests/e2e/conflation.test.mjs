// Conflating pops: the newest message of each partition, stored policy, acks that stand for many.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { ACK_KEYS, assertError, sleep, TIME, unique, useQueen } from './lib/queen.mjs';

const TOP = ['success', 'queue', 'partition', 'partitionId', 'leaseId', 'consumerGroup', 'messages', 'partitionsClaimed', 'conflation'];
const ids = (answer) => answer.json.messages.map((m) => m.transactionId);
const keys = (answer) => [answer.status, answer.json.conflation, answer.json.conflationConflict];

describe('conflation', { concurrency: 6 }, () => {
    const c = useQueen();
    const conflating = { conflation: true, consumerGroup: 'g' };
    const ack = async (answer, status = 'completed') => {
        const acks = answer.json.messages.map((m) => ({ transactionId: m.transactionId, partitionId: m.partitionId, leaseId: m.leaseId, status }));
        const result = await c.queen.ackBatch(acks, 'g');
        assert.equal(result.status, 200, result.text);
        for (const r of result.json) assert.deepEqual([r.success, r.error], [true, null], result.text);
        return result.json;
    };
    const cursor = async (queue) => {
        const text = await c.queen.instance.psql(`select p.name || '=' || c.committed || '/' || c.total_consumed || coalesce('>' || c.batch_end, '')
            from queen.queues q join queen.log_partitions p on p.queue_id = q.id join queen.log_consumers c on c.partition_id = p.id
            where q.name = '${queue}' and c.consumer_group = 'g' order by p.name`);
        return text.replaceAll('\n', ' ');
    };

    it('delivers the newest message only, and one ack stands for all of them', async () => {
        const queue = unique();
        for (const t of ['a', 'b', 'c']) await c.queen.push(queue, [t, `${t}2`]);
        const answer = await c.queen.pop(queue, conflating);
        assert.equal(answer.status, 200);
        assert.deepEqual(Object.keys(answer.json), TOP);
        assert.deepEqual(ids(answer), ['c2']);
        assert.deepEqual(answer.json.messages[0].data, { t: 'c2' });
        assert.match(answer.json.messages[0].createdAt, TIME);
        assert.equal(answer.json.messages[0].deliveryAttempt, 1);
        assert.equal(answer.json.partitionsClaimed, 1);
        assert.equal(await cursor(queue), 'Default=-1/0>5');
        const before = (await c.queen.counters()).ack_registry_hits;
        const [result] = await ack(answer);
        assert.deepEqual(Object.keys(result), [...ACK_KEYS, 'conflated']);
        assert.deepEqual([result.leaseReleased, result.dlq, result.noop, result.conflated], [true, false, false, 5]);
        assert.equal(await cursor(queue), 'Default=5/6');
        assert.ok((await c.queen.counters()).ack_registry_hits > before, 'a one-message ack is a whole batch to the registry');
        assert.deepEqual(keys(await c.queen.pop(queue, conflating)), [200, true, undefined]);
    });

    it('the same by hash, when the registry does not know the lease', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b', 'c']);
        const answer = await c.queen.pop(queue, conflating);
        const acks = [{ transactionId: 'unknown', partitionId: answer.json.partitionId, leaseId: answer.json.leaseId },
            { transactionId: 'c', partitionId: answer.json.partitionId, leaseId: answer.json.leaseId }];
        const [first, second] = (await c.queen.ackBatch(acks, 'g')).json;
        assert.deepEqual([first.success, first.conflated, second.success, second.leaseReleased, second.conflated], [false, 2, true, true, undefined],
            'the count is on the first item of the group');
        assert.equal(await cursor(queue), 'Default=2/3');
        const [again] = (await c.queen.ackBatch([acks[1]], 'g')).json;
        assert.deepEqual([again.success, again.leaseReleased, again.conflated], [true, true, 2], 'a repeat is answered as the first time');
    });

    it('an ordinary ack has no conflated key; a conflated lease of one message says 0', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        const plain = (await c.queen.pop(queue, { consumerGroup: 'plain' })).json;
        const result = await c.queen.ackBatch([{ transactionId: 'a', partitionId: plain.partitionId, leaseId: plain.leaseId }], 'plain');
        assert.deepEqual(Object.keys(result.json[0]), ACK_KEYS);
        assert.equal((await ack(await c.queen.pop(queue, conflating)))[0].conflated, 0);
    });

    it('a nack redelivers what is newest then', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b']);
        const first = await c.queen.pop(queue, conflating);
        assert.deepEqual(ids(first), ['b']);
        const [nacked] = await ack(first, 'failed');
        assert.deepEqual([nacked.leaseReleased, nacked.conflated], [true, undefined]);
        const again = await c.queen.pop(queue, conflating);
        assert.deepEqual([ids(again), again.json.messages[0].deliveryAttempt], [['b'], 2]);
        await ack(again, 'retry');
        await c.queen.push(queue, ['c']);
        const newer = await c.queen.pop(queue, conflating);
        assert.deepEqual(ids(newer), ['c']);
        assert.equal((await ack(newer))[0].conflated, 2);
    });

    it('a dead letter takes the newest message and everything below it', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b']);
        const [dead] = await ack(await c.queen.pop(queue, conflating), 'dlq');
        assert.deepEqual([dead.dlq, dead.leaseReleased, dead.conflated], [true, true, undefined]);
        assert.deepEqual(ids(await c.queen.pop(queue, conflating)), []);
        assert.equal((await c.queen.dlq({ queue })).json.messages.length, 1);
    });

    it('the lease spans the batch: later messages wait for it and come next', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b']);
        const first = await c.queen.pop(queue, conflating);
        await c.queen.push(queue, ['c', 'd']);
        assert.deepEqual(ids(await c.queen.pop(queue, conflating)), []);
        const parked = c.queen.pop(queue, { ...conflating, wait: true, timeout: 30000 });
        await sleep(200);
        await ack(first);
        assert.deepEqual(ids(await parked), ['d']);
    });

    it('takes one message from each partition; the budget is partitions, else batch, at most 64', async () => {
        const queue = unique();
        const items = [];
        for (let p = 0; p < 70; p++) for (const i of [0, 1]) items.push({ queue, partition: `p${p}`, transactionId: `p${p}-${i}`, payload: i });
        assert.equal((await c.queen.pushItems(items)).status, 201);
        for (const [group, parameters, expected] of [['a', { partitions: 3 }, 3], ['b', { batch: 5 }, 5], ['c', { batch: 1 }, 1], ['d', {}, 64],
            ['e', { partitions: 0 }, 64], ['f', { partitions: 2, batch: 1 }, 2], ['h', { batch: 10000 }, 64]]) {
            const answer = await c.queen.pop(queue, { conflation: true, consumerGroup: group, ...parameters });
            assert.deepEqual([answer.json.partitionsClaimed, answer.json.messages.length], [expected, expected], group);
            assert.ok(answer.json.messages.every((m) => m.transactionId === `${m.partition}-1`));
        }
    });

    it('the first pop of a group stores the policy; who disagrees gets it all the same, and is told', async () => {
        const queue = unique();
        assert.deepEqual(keys(await c.queen.pop(queue, conflating)), [200, true, undefined]);
        await c.queen.push(queue, ['a', 'b']);
        assert.equal(await c.queen.instance.psql(`select m.conflation from queen.consumer_groups_metadata m join queen.queues q on q.id = m.queue_id where q.name = '${queue}'`), 't');
        const no = await c.queen.pop(queue, { consumerGroup: 'g', conflation: false });
        assert.deepEqual([...keys(no), ids(no)], [200, true, true, ['b']]);
        await ack(no);
        const silent = await c.queen.pop(queue, { consumerGroup: 'g' });
        assert.deepEqual([...keys(silent), ids(silent)], [200, true, undefined, []], 'absent is not false');

        const plain = unique();
        await c.queen.push(plain, ['a', 'b']);
        assert.deepEqual(ids(await c.queen.pop(plain, { consumerGroup: 'g', batch: 1 })), ['a']);
        const yes = await c.queen.pop(plain, conflating);
        assert.deepEqual(keys(yes), [200, undefined, true], 'a conflict is told on an empty answer too');
        assert.equal((await c.queen.pop(plain, { consumerGroup: 'g', conflation: false })).status, 204);
        assert.equal((await c.queen.pop(plain, { consumerGroup: 'g' })).status, 204);
    });

    it('an empty answer is 200 with the echo, at once and at the deadline of a long poll', async () => {
        const queue = unique();
        const empty = { success: true, queue, partition: '', partitionId: '', leaseId: '', consumerGroup: 'g', messages: [], partitionsClaimed: 0, conflation: true };
        const polls = [c.queen.pop(queue, conflating), c.queen.popPartition(queue, 'p', conflating),
            ...[0, 1, 2].map(() => c.queen.pop(queue, { ...conflating, wait: true, timeout: 1500 }))];
        for (const answer of await Promise.all(polls)) {
            assert.equal(answer.status, 200);
            assert.deepEqual(answer.json, empty);
            assert.deepEqual(Object.keys(answer.json), TOP);
        }
    });

    it('a parked conflating poll gets the newest message of what is pushed', async () => {
        const queue = unique();
        const poll = c.queen.pop(queue, { ...conflating, wait: true, timeout: 30000 });
        await sleep(200);
        await c.queen.push(queue, ['a', 'b', 'c']);
        assert.deepEqual(ids(await poll), ['c']);
    });

    it('the partition route: one message, whatever partitions says', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b'], 'p');
        const answer = await c.queen.popPartition(queue, 'p', { ...conflating, partitions: 7 });
        assert.deepEqual([...keys(answer), ids(answer)], [200, true, undefined, ['b']]);
    });

    it('delayedProcessing: the newest that is old enough', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b']);
        await sleep(2500);
        await c.queen.configure(queue, { delayedProcessing: 2 });
        await c.queen.push(queue, ['young']);
        const answer = await c.queen.pop(queue, conflating);
        assert.deepEqual(ids(answer), ['b']);
        await ack(answer);
        assert.deepEqual(ids(await c.queen.pop(queue, { ...conflating, wait: true, timeout: 20000 })), ['young']);
    });

    it('discovery: the keys only for who asked; queues that differ are a conflict', async () => {
        const [one, two] = [unique(), unique()], namespace = unique();
        for (const queue of [one, two]) {
            await c.queen.configure(queue, {}, { namespace });
            await c.queen.push(queue, ['a', 'b']);
        }
        const answer = await c.queen.popDiscover({ namespace, ...conflating, partitions: 5 });
        assert.deepEqual([...keys(answer), answer.json.queue, ids(answer)], [200, true, undefined, '', ['b', 'b']]);
        assert.deepEqual(keys(await c.queen.popDiscover({ namespace, ...conflating })), [200, true, undefined]);
        assert.equal((await c.queen.popDiscover({ namespace, consumerGroup: 'g' })).status, 204);
        assert.deepEqual(keys(await c.queen.popDiscover({ namespace, consumerGroup: 'g', conflation: false })), [200, true, true]);

        await c.queen.pop(one, { consumerGroup: 'mixed', conflation: true, batch: 1, leaseSeconds: 1 });
        await c.queen.push(one, ['c', 'd'], 'other');
        const mixed = await c.queen.popDiscover({ namespace, consumerGroup: 'mixed', partitions: 9 });
        assert.deepEqual([mixed.json.conflation, ids(mixed).sort()], [undefined, ['a', 'b', 'd']], 'each queue by its policy');
        assert.deepEqual(keys(await c.queen.popDiscover({ namespace, consumerGroup: 'mixed', conflation: true })), [200, undefined, true]);
    });

    it('autoAck on a conflating group commits what it passes over', async () => {
        const queue = unique();
        await c.queen.pop(queue, conflating);
        await c.queen.push(queue, ['a', 'b', 'c']);
        const answer = await c.queen.pop(queue, { consumerGroup: 'g', autoAck: true });
        assert.deepEqual([ids(answer), answer.json.leaseId], [['c'], '']);
        assert.equal(await cursor(queue), 'Default=2/3');
    });

    it('refuses what cannot be', async () => {
        const queue = unique();
        const noGroup = 'conflation requires consumerGroup: queue mode is a shared cursor with no group identity to hang a delivery policy on';
        const autoAck = 'conflation cannot be combined with autoAck: auto-ack commits at delivery with no lease, so a failed handler loses the tail and the at-least-once guarantee conflation exists to provide degrades to at-most-once';
        for (const pop of [(p) => c.queen.pop(queue, p), (p) => c.queen.popPartition(queue, 'p', p), (p) => c.queen.popDiscover({ namespace: queue, ...p })]) {
            const one = await pop({ conflation: true });
            assert.deepEqual([one.status, one.text], [400, JSON.stringify({ success: false, error: noGroup, messages: [] })]);
            const two = await pop({ ...conflating, autoAck: true });
            assert.deepEqual([two.status, two.text], [400, JSON.stringify({ success: false, error: autoAck, messages: [] })]);
            assertError(await pop({ consumerGroup: 'g', conflation: 'maybe' }), 400, /conflation/);
        }
        assert.equal((await c.queen.pop(queue, { conflation: true, consumerGroup: '__QUEUE_MODE__' })).status, 400);
        assert.equal((await c.queen.pop(queue, { conflation: false })).status, 204);
    });
});
