// The data plane as the JavaScript client uses it: queues, push, pop, consume, ack, renew.
import assert from 'node:assert/strict';
import { before, describe, it } from 'node:test';
import { Batch, sleep, unique, useQueen } from '../lib/queen.mjs';
import { JsClient } from './javascript.mjs';

describe('data plane of the JavaScript client', { concurrency: 4 }, () => {
    const c = useQueen();
    let js;
    before(() => {
        js = new JsClient(c.instance.url);
    });
    const data = (messages) => messages.map((m) => m.data);

    it('queue().create() with nulls for what was not given echoes every option; delete() says what it did', async () => {
        const queue = unique();
        const options = { leaseTime: 45, retryLimit: 2, delayedProcessing: 0, windowBuffer: 0, maxSize: 10, dlqAfterMaxRetries: true, encryptionEnabled: false, dedupWindowSeconds: 60 };
        const created = await js.createQueue(queue, options);
        assert.equal(created.configured, true);
        assert.deepEqual([created.queue, created.namespace, created.task], [queue, '', '']);
        for (const [key, value] of Object.entries(options)) assert.equal(created.options[key], value, key);
        assert.equal((await js.deleteQueue(queue)).existed, true);
        assert.equal((await js.deleteQueue(queue)).existed, false);
    });

    it('push counts: known statuses only, one a message, in order', async () => {
        const queue = unique();
        const first = await js.push(queue, [{ data: 'a', transactionId: 'a' }, { data: null, transactionId: 'b' }]);
        assert.deepEqual([first.queued, first.duplicates], [2, 0]);
        const again = await js.push(queue, [{ data: 'a', transactionId: 'a' }, { data: 'c', transactionId: 'c' }]);
        assert.deepEqual(again.results.map((r) => [r.index, r.transaction_id, r.status]), [[0, 'a', 'duplicate'], [1, 'c', 'queued']]);
        assert.deepEqual(data(await js.pop(queue, { batch: 10 })), ['a', null, 'c']);
    });

    it('a partition called Default is popped through the queue route, another through its own', async () => {
        const queue = unique();
        await js.push(queue, ['d'], { partition: 'Default' });
        assert.deepEqual(data(await js.pop(queue, { partition: 'Default' })), ['d']);
        await js.push(queue, ['x'], { partition: 'lane' });
        assert.deepEqual(data(await js.pop(queue, { partition: 'lane' })), ['x']);
    });

    it('names that are not encoded arrive as they are: spaces, letters beyond ASCII, plus, colon', async () => {
        for (const name of [`${unique()} été`, `${unique()}+a:b@c`, `${unique()}.é~(x)'!$&,;=`]) {
            await js.push(name, [name], { partition: 'k é' });
            assert.deepEqual(data(await js.pop(name, { partition: 'k é' })), [name]);
        }
    });

    it('a group by its own cursor, autoAck only when asked for, subscription from the beginning or from now', async () => {
        const queue = unique();
        await js.push(queue, [1]);
        assert.deepEqual(data(await js.pop(queue, { consumerGroup: 'all', subscriptionMode: 'all', autoAck: true })), [1]);
        assert.deepEqual(await js.pop(queue, { consumerGroup: 'new', subscriptionMode: 'new' }), []);
        assert.deepEqual(await js.pop(queue, { consumerGroup: 'now', subscriptionFrom: 'now' }), []);
        const [leased] = await js.pop(queue, { consumerGroup: 'lease', subscriptionMode: 'from_beginning', autoAck: false });
        assert.notEqual(leased.leaseId, '');
        await js.push(queue, [2]);
        for (const consumerGroup of ['all', 'new', 'now']) assert.deepEqual(data(await js.pop(queue, { consumerGroup })), [2]);
        assert.deepEqual(await js.pop(queue, { consumerGroup: 'lease' }), []);
    });

    it('partitions= claims several lanes under one lease, a batch ack settles them all', async () => {
        const queue = unique();
        for (const lane of ['a', 'b', 'c']) await js.push(queue, [1, 2], { partition: lane });
        const answer = await js.popAnswer(queue, { batch: 100, partitions: 3 });
        assert.equal(answer.partitionsClaimed, 3);
        assert.equal(answer.messages.length, 6);
        assert.deepEqual([...new Set(answer.messages.map((m) => m.leaseId))], [answer.leaseId]);
        assert.deepEqual((await js.ackBatch(answer.messages)).map((r) => r.success), Array(6).fill(true));
        assert.deepEqual(await js.pop(queue, { batch: 100, partitions: 3 }), []);
    });

    it('discovery by namespace and task of a dotted name', async () => {
        const namespace = unique('ns');
        await js.push(`${namespace}.work.q`, ['found']);
        const [message] = await js.pop(null, { namespace, task: 'work' });
        assert.equal(message.data, 'found');
        assert.equal((await js.ack(message)).success, true);
    });

    it('ack by boolean and by word, a lost lease is a failure with a text', async () => {
        const queue = unique();
        await js.createQueue(queue, { retryLimit: 5 });
        await js.push(queue, [1]);
        const [first] = await js.pop(queue);
        assert.deepEqual(await js.ack(first, false, { error: 'no' }), { index: 0, transactionId: first.transactionId, success: true, error: null, leaseReleased: true, dlq: false, noop: false });
        const [second] = await js.pop(queue);
        assert.equal(second.transactionId, first.transactionId);
        assert.equal((await js.ack(first, 'completed')).error, 'invalid or expired lease');
        assert.equal((await js.ack(second, 'retry')).success, true);
        const [third] = await js.pop(queue);
        assert.equal((await js.ack(third, true)).success, true);
        assert.deepEqual(await js.pop(queue), []);
    });

    it('consume: waits, completes message by message, a handler that throws ends its batch and gets the rest again', async () => {
        const queue = unique();
        await js.createQueue(queue, { retryLimit: 3 });
        const order = [];
        const loop = js.consume(queue, { batch: 4, limit: 6, stopWhenEmpty: false, timeoutMs: 10000 }, (message) => {
            order.push([message.data, message.deliveryAttempt]);
            if (message.data === 'b' && order.length === 2) throw new Error('first time');
        });
        await js.push(queue, ['a', 'b', 'c', 'd', 'e'].map((d) => d));
        assert.equal(await loop, 6);
        assert.deepEqual(order.map(([d]) => d), ['a', 'b', 'b', 'c', 'd', 'e']);
        assert.deepEqual(await js.pop(queue, { batch: 10 }), []);
    });

    it('consume: a message that never works ends in dlq().get() with its data and the error, the rest is delivered', async () => {
        const queue = unique();
        await js.createQueue(queue, { retryLimit: 1, deadLetterQueue: true });
        await js.push(queue, ['poison', 'fine'].map((d) => ({ kind: d })));
        const done = [];
        await js.consume(queue, { consumerGroup: 'g', batch: 10, limit: 3, timeoutMs: 10000 }, (message) => {
            if (message.data.kind === 'poison') throw new Error('cannot be handled');
            done.push(message.data.kind);
        });
        assert.deepEqual(done, ['fine']);
        const dead = await js.dlq(queue, { consumerGroup: 'g', limit: 10 });
        assert.equal(dead.total, 1);
        assert.deepEqual([dead.messages[0].data, dead.messages[0].errorMessage, dead.messages[0].consumerGroup], [{ kind: 'poison' }, 'cannot be handled', 'g']);
        const hour = 3600000, iso = (shift) => new Date(Date.now() + shift).toISOString();
        assert.equal((await js.dlq(queue, { partition: 'Default', from: iso(-hour), to: iso(hour) })).total, 1);
        assert.equal((await js.dlq(queue, { consumerGroup: 'other' })).total, 0);
    });

    it('renew posts {} per lease and reads a later expiry; another lease is 200 too', async () => {
        const queue = unique();
        await js.createQueue(queue, { leaseTime: 20 });
        await js.push(queue, [1, 2]);
        const messages = await js.pop(queue, { batch: 2 });
        const [renewed, ...none] = await js.renew(messages);
        assert.deepEqual(none, []);
        assert.ok(Date.parse(renewed.newExpiresAt) > Date.now() + 40000, renewed.newExpiresAt);
        assert.equal((await js.renew([{ leaseId: 'not-a-lease' }]))[0].newExpiresAt, null);
    });

    it('autoAck of the consumer means an ack after the handler: without an ack the message comes again', async () => {
        const queue = unique();
        await js.createQueue(queue, { leaseTime: 1 });
        await js.push(queue, ['again']);
        const answer = await js.popAnswer(queue, {});
        assert.deepEqual(data(answer.messages), ['again']);
        await new Batch(c.queen, answer).expired();
        assert.deepEqual(data(await js.pop(queue, { wait: true, timeoutMs: 10000 })), ['again']);
    });

    it('a push wakes a parked consumer at once, and closing a parked poll leases nothing', async () => {
        const queue = unique();
        const gone = new AbortController();
        const parked = fetch(`${c.instance.url}${js.popPath(queue, { wait: true, timeoutMs: 20000 })}`, { signal: gone.signal }).catch((e) => e.name);
        await sleep(200);
        gone.abort();
        assert.equal(await parked, 'AbortError');
        const waiting = js.pop(queue, { wait: true, timeoutMs: 20000 });
        await js.push(queue, ['now']);
        assert.deepEqual(data(await waiting), ['now']);
    });

    it('conflation: every answer says so, the first empty one too; the newest only', async () => {
        const queue = unique(), options = { consumerGroup: 'latest', conflation: true, batch: 10 };
        const empty = await js.popAnswer(queue, options);
        assert.deepEqual([empty.messages, empty.conflation], [[], true]);
        await js.push(queue, [1, 2, 3]);
        const messages = await js.pop(queue, options);
        assert.deepEqual(data(messages), [3]);
        assert.equal((await js.ack(messages[0], true, { consumerGroup: 'latest' })).success, true);
        assert.deepEqual(await js.pop(queue, options), []);
        await assert.rejects(js.pop(queue, { conflation: true }), { status: 400, message: /conflation requires consumerGroup/ });
    });
});
