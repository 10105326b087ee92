// The three pop routes: shape, budgets, parameters, discovery, autoAck, deliveryAttempt.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, Batch, QUEUE_MODE, TIME, unique, until, useQueen, UUID, UUID_V7 } from './lib/queen.mjs';

const TOP = ['success', 'queue', 'partition', 'partitionId', 'leaseId', 'consumerGroup', 'messages', 'partitionsClaimed'];
const MESSAGE = ['id', 'transactionId', 'traceId', 'data', 'producerSub', 'createdAt', 'partitionId', 'partition', 'leaseId', 'consumerGroup', 'deliveryAttempt'];
const ids = (answer) => answer.json.messages.map((m) => m.transactionId);

describe('pop', { concurrency: 4 }, () => {
    const c = useQueen();
    const spread = async (queue, partitions, each) => {
        const items = [];
        for (let p = 0; p < partitions; p++)
            for (let i = 0; i < each; i++) items.push({ queue, partition: `p${p}`, transactionId: `p${p}-${i}`, payload: i });
        const answer = await c.queen.pushItems(items);
        assert.ok(answer.json.every((r) => r.status === 'queued'), answer.text);
    };
    /* Length of the live lease in seconds, as extend tells it (it never shortens). */
    const leaseSeconds = async (leaseId) => {
        const answer = await c.queen.extend(leaseId, '{"seconds":1}');
        assert.equal(answer.json.renewed, 1, answer.text);
        return (Date.parse(answer.json.newExpiresAt) - Date.now()) / 1000;
    };

    it('answers 200 with the keys of the contract, in its order', async () => {
        const queue = unique();
        const [pushed] = await c.queen.push(queue, ['a', 'b'], 'customer-42');
        const answer = await c.queen.pop(queue);
        assert.equal(answer.status, 200);
        assert.match(answer.headers['content-type'], /^application\/json/);
        const { json } = answer;
        assert.deepEqual(Object.keys(json), TOP);
        assert.deepEqual([json.success, json.queue, json.partition, json.consumerGroup, json.partitionsClaimed], [true, queue, 'customer-42', QUEUE_MODE, 1]);
        assert.match(json.partitionId, UUID);
        assert.match(json.leaseId, UUID_V7);
        assert.equal(json.messages.length, 2);
        for (const m of json.messages) {
            assert.deepEqual(Object.keys(m), MESSAGE);
            assert.match(m.id, UUID_V7);
            assert.match(m.createdAt, TIME);
            assert.ok(Math.abs(Date.parse(m.createdAt) - Date.now()) < 60000, `${m.createdAt} is UTC now`);
            assert.deepEqual([m.traceId, m.producerSub, m.partitionId, m.partition, m.leaseId, m.consumerGroup, m.deliveryAttempt],
                [null, null, json.partitionId, 'customer-42', json.leaseId, QUEUE_MODE, 1]);
        }
        assert.equal(json.messages[0].id, pushed.message_id);
        assert.equal(json.messages[0].createdAt, json.messages[1].createdAt, 'one segment, one time');
        assert.deepEqual(json.messages[0].data, { t: 'a' });
    });

    it('answers 204 without body, Content-Length or Content-Type when there is nothing', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        await c.queen.take(queue, ['a']);
        for (const answer of [await c.queen.pop(queue), await c.queen.pop(unique()), await c.queen.popPartition(queue, 'none'),
            await c.queen.popPartition(unique(), 'none'), await c.queen.popDiscover({ namespace: unique() })]) {
            assert.equal(answer.status, 204);
            assert.equal(answer.body.length, 0);
            assert.equal(answer.headers['content-length'], undefined);
            assert.equal(answer.headers['content-type'], undefined);
            assert.equal(answer.headers['transfer-encoding'], undefined);
        }
    });

    it('creates the queue it names', async () => {
        const queue = unique('ns.task.q');
        await c.queen.nothing(queue, { consumerGroup: 'g' });
        const row = String(await c.instance.psql(`select namespace || '|' || task from queen.queues where name = '${queue}'`)).trim();
        assert.equal(row, 'ns|task');
    });

    it('leases: the batch goes to nobody else of the group, and to every other group', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b']);
        const first = await c.queen.take(queue, ['a'], { batch: 1 });
        await c.queen.nothing(queue);
        await c.queen.nothing(queue, { batch: 1, partitions: 10 });
        assert.equal((await c.queen.popPartition(queue, 'Default')).status, 204);
        const other = await c.queen.take(queue, ['a', 'b'], { consumerGroup: 'other' });
        assert.notEqual(other.leaseId, first.leaseId);
        await other.complete();
        await c.queen.nothing(queue);
        await first.complete();
        await c.queen.take(queue, ['b']);
    });

    describe('budgets', { concurrency: 4 }, () => {
        it('batch is exact, and 200 by default', async () => {
            const queue = unique();
            await c.queen.push(queue, Array.from({ length: 250 }, (_, i) => `m${i}`));
            for (const [batch, expected] of [[1, 1], [2, 2], [undefined, 200], [249, 249], [250, 250], [1000, 250]]) {
                const answer = await c.queen.pop(queue, { batch, consumerGroup: `g${batch}` });
                assert.deepEqual(ids(answer), Array.from({ length: expected }, (_, i) => `m${i}`));
            }
        });

        it('batch is clamped to 10,000', async () => {
            const queue = unique();
            await c.queen.push(queue, Array.from({ length: 10005 }, (_, i) => `m${i}`));
            assert.equal((await c.queen.pop(queue, { batch: 50000 })).json.messages.length, 10000);
        });

        it('one partition by default', async () => {
            const queue = unique();
            await spread(queue, 3, 2);
            const answer = await c.queen.pop(queue);
            assert.equal(answer.json.partitionsClaimed, 1);
            assert.deepEqual(ids(answer), [`${answer.json.partition}-0`, `${answer.json.partition}-1`]);
        });

        it('partitions caps the claimed partitions; all of them share one lease id', async () => {
            const queue = unique();
            await spread(queue, 5, 2);
            const { json } = await c.queen.pop(queue, { partitions: 3 });
            assert.equal(json.partitionsClaimed, 3);
            assert.equal(json.messages.length, 6);
            assert.equal(new Set(json.messages.map((m) => m.partitionId)).size, 3);
            assert.deepEqual([...new Set(json.messages.map((m) => m.leaseId))], [json.leaseId]);
            assert.equal(json.messages[0].partition, json.partition);
            assert.equal(json.messages[0].partitionId, json.partitionId);
            for (let i = 0; i < 6; i += 2) { // partition after partition, in offset order
                assert.equal(json.messages[i].transactionId, `${json.messages[i].partition}-0`);
                assert.equal(json.messages[i + 1].transactionId, `${json.messages[i].partition}-1`);
            }
            assert.equal((await c.queen.pop(queue, { partitions: 100 })).json.partitionsClaimed, 2);
            await c.queen.nothing(queue, { partitions: 100 });
        });

        it('partitions <= 0 is no cap', async () => {
            for (const partitions of [0, -1]) {
                const queue = unique();
                await spread(queue, 150, 1);
                const answer = await c.queen.pop(queue, { partitions, batch: 1000 });
                assert.equal(answer.json.partitionsClaimed, 150);
                assert.equal(answer.json.messages.length, 150);
            }
        });

        it('the batch budget is one for all partitions of the call', async () => {
            const queue = unique();
            await spread(queue, 4, 3);
            const first = await c.queen.pop(queue, { partitions: 4, batch: 5 });
            assert.equal(first.json.messages.length, 5);
            assert.equal(first.json.partitionsClaimed, 2);
            const one = unique();
            await spread(one, 2, 3);
            const greedy = await c.queen.pop(one, { partitions: 2, batch: 3 });
            assert.equal(greedy.json.partitionsClaimed, 1);
            assert.equal(greedy.json.messages.length, 3);
        });

        it('every partition is served in turn: none starves', async () => {
            const queue = unique();
            await spread(queue, 20, 30);
            const seen = new Set();
            for (let i = 0; i < 40; i++) {
                const answer = await c.queen.pop(queue, { batch: 1 });
                seen.add(answer.json.partition);
                await new Batch(c.queen, answer.json).complete();
            }
            assert.equal(seen.size, 20);
        });
    });

    it('the pinned route serves that partition only, whatever partitions says', async () => {
        const queue = unique();
        await spread(queue, 3, 2);
        const answer = await c.queen.popPartition(queue, 'p1', { partitions: 5 });
        assert.deepEqual([answer.json.queue, answer.json.partition, answer.json.partitionsClaimed], [queue, 'p1', 1]);
        assert.deepEqual(ids(answer), ['p1-0', 'p1-1']);
        assert.deepEqual(Object.keys(answer.json), TOP);
        assert.equal((await c.queen.popPartition(queue, 'p1')).status, 204);
    });

    describe('discovery', { concurrency: 4 }, () => {
        it('needs a namespace or a task', async () => {
            for (const target of ['/api/v1/pop', '/api/v1/pop?', '/api/v1/pop?namespace=&task=', '/api/v1/pop?batch=5&wait=true']) {
                const answer = await c.queen.get(target);
                assert.equal(answer.status, 400);
                assert.equal(answer.text, '{"success":false,"error":"namespace or task is required","messages":[]}');
            }
        });

        it('serves all queues of the namespace or task, and only those', async () => {
            const [ns, ns2, task, task2] = [unique('ns'), unique('ns'), unique('t'), unique('t')];
            const names = { a: `${ns}.${task}`, b: `${ns}.${task2}`, c: unique('configured'), d: `${ns2}.${task}` };
            await c.queen.configure(names.c, {}, { namespace: ns, task });
            for (const [t, queue] of Object.entries(names)) await c.queen.push(queue, [t]);
            const get = async (parameters) => {
                const answer = await c.queen.popDiscover({ partitions: 10, ...parameters });
                return answer.status === 204 ? [] : ids(answer).sort();
            };
            assert.deepEqual(await get({ namespace: ns, consumerGroup: 'g1' }), ['a', 'b', 'c']);
            assert.deepEqual(await get({ task, consumerGroup: 'g2' }), ['a', 'c', 'd']);
            assert.deepEqual(await get({ namespace: ns, task, consumerGroup: 'g3' }), ['a', 'c']);
            assert.deepEqual(await get({ namespace: ns2, task: task2, consumerGroup: 'g4' }), []);
            assert.deepEqual(await get({ namespace: ns, task: '', consumerGroup: 'g5' }), ['a', 'b', 'c']);
        });

        it('answers in the same shape with an empty queue name; its batches are acknowledged like any', async () => {
            const namespace = unique('ns');
            await c.queen.push(`${namespace}.x`, ['a', 'b'], 'p');
            const answer = await c.queen.popDiscover({ namespace });
            assert.deepEqual(Object.keys(answer.json), TOP);
            assert.deepEqual([answer.json.queue, answer.json.partition, answer.json.partitionsClaimed], ['', 'p', 1]);
            assert.deepEqual(Object.keys(answer.json.messages[0]).filter((k) => k !== 'queue'), MESSAGE);
            assert.ok((await new Batch(c.queen, answer.json).complete()).every((r) => r.leaseReleased));
            assert.equal((await c.queen.popDiscover({ namespace })).status, 204);
        });

        it('uses the lease time of each queue', async () => {
            const namespace = unique('ns');
            await c.queen.configure(`${namespace}.x`, { leaseTime: 1000 }, { namespace });
            await c.queen.push(`${namespace}.x`, ['a']);
            const lease = await leaseSeconds((await c.queen.popDiscover({ namespace })).json.leaseId);
            assert.ok(lease > 900 && lease <= 1001, `${lease} s`);
        });
    });

    describe('leaseSeconds', { concurrency: 4 }, () => {
        const cases = [
            ['60 for a queue made by a push', undefined, undefined, 60],
            ['300 for a configured queue', {}, undefined, 300],
            ['leaseTime of the queue', { leaseTime: 700 }, undefined, 700],
            ['the parameter before leaseTime', { leaseTime: 700 }, 30, 30],
            ['0 counts as absent', { leaseTime: 700 }, 0, 700],
            ['negative counts as absent', undefined, -5, 60],
        ];
        for (const [name, options, parameter, expected] of cases) {
            it(name, async () => {
                const queue = unique();
                if (options) await c.queen.configure(queue, options);
                await c.queen.push(queue, ['a']);
                const batch = await c.queen.take(queue, ['a'], { leaseSeconds: parameter });
                const lease = await leaseSeconds(batch.leaseId);
                assert.ok(lease > expected - 15 && lease <= expected + 1, `${lease} s, expected ${expected}`);
            });
        }
    });

    describe('autoAck', { concurrency: 4 }, () => {
        it('commits at delivery, with an empty lease id', async () => {
            const queue = unique();
            await c.queen.push(queue, ['a', 'b', 'c']);
            const { json } = await c.queen.pop(queue, { autoAck: true, batch: 2 });
            assert.deepEqual(Object.keys(json), TOP);
            assert.equal(json.leaseId, '');
            assert.deepEqual(json.messages.map((m) => [m.transactionId, m.leaseId, m.deliveryAttempt]), [['a', '', 1], ['b', '', 1]]);
            await c.queen.take(queue, ['c'], { autoAck: 'true' });
            await c.queen.nothing(queue);
        });

        it('a later ack with the empty lease id is a harmless repeat', async () => {
            const queue = unique();
            await c.queen.push(queue, ['a']);
            const { json } = await c.queen.pop(queue, { autoAck: true });
            const acked = await c.queen.ack({ transactionId: 'a', partitionId: json.partitionId, leaseId: json.leaseId, status: 'completed' });
            assert.deepEqual(acked.json, [{ index: 0, transactionId: 'a', success: true, error: null, leaseReleased: false, dlq: false, noop: true }]);
        });

        it('does not touch a batch that is leased', async () => {
            const queue = unique();
            await c.queen.push(queue, ['a', 'b']);
            const batch = await c.queen.take(queue, ['a'], { batch: 1 });
            await c.queen.nothing(queue, { autoAck: true });
            await batch.complete();
            await c.queen.take(queue, ['b'], { autoAck: true });
        });
    });

    describe('deliveryAttempt', { concurrency: 4 }, () => {
        it('grows when the same start is delivered again, after a nack and after an expiry', async () => {
            const queue = unique();
            await c.queen.push(queue, ['a', 'b']);
            const attempt = async (expected, parameters) => {
                const batch = await c.queen.take(queue, ['a', 'b'], parameters, { waitMs: 20000 });
                assert.deepEqual(batch.messages.map((m) => m.deliveryAttempt), [expected, expected]);
                return batch;
            };
            await (await attempt(1)).ack([['a', 'retry']]);
            await (await attempt(2)).ack([['a', 'failed']]);
            await attempt(3, { leaseSeconds: 1 });
            await attempt(4);
        });

        it('is 1 again for fresh work', async () => {
            const queue = unique();
            await c.queen.push(queue, ['a', 'b', 'c']);
            await (await c.queen.take(queue, ['a', 'b', 'c'])).ack([['a', 'retry']]);
            const second = await c.queen.take(queue, ['a', 'b', 'c']);
            assert.equal(second.messages[0].deliveryAttempt, 2);
            await second.ack([['a', 'completed'], ['b', 'retry']]);
            const third = await c.queen.take(queue, ['b', 'c']);
            assert.equal(third.messages[0].deliveryAttempt, 1, 'another start offset');
            await third.complete();
            await c.queen.push(queue, ['d']);
            assert.equal((await c.queen.take(queue, ['d'])).messages[0].deliveryAttempt, 1);
        });
    });

    describe('parameters', { concurrency: 4 }, () => {
        const bad = [['batch', 'abc'], ['batch', '1.5'], ['batch', '99999999999999999999'], ['batch', '5x'], ['partitions', 'x'], ['partitions', '1e'],
            ['wait', 'maybe'], ['wait', 'yes'], ['wait', 'TRUE'], ['wait', '2'], ['autoAck', 'on'], ['autoAck', 'null'], ['timeout', 'soon'], ['timeout', '-'], ['timeout', '10s'],
            ['leaseSeconds', 'abc'], ['leaseSeconds', '1e999']];
        for (const [name, value] of bad) {
            it(`${name}=${value} is a 400 that names it, and leases nothing`, async () => {
                const queue = unique();
                await c.queen.push(queue, ['a']);
                for (const answer of [await c.queen.pop(queue, { [name]: value }), await c.queen.popPartition(queue, 'Default', { [name]: value }),
                    await c.queen.popDiscover({ namespace: 'x', [name]: value })]) assertError(answer, 400, new RegExp(name));
                await c.queen.take(queue, ['a']);
            });
        }

        it('unknown ones are ignored; booleans are true, false, 1, 0', async () => {
            const queue = unique();
            await c.queen.push(queue, ['a', 'b', 'c', 'd']);
            await c.queen.take(queue, ['a'], { batch: 1, wait: 0, autoAck: 1, whatever: 'x' });
            await c.queen.take(queue, ['b'], { batch: 1, wait: '1', timeout: 5000, autoAck: 'true' });
            await c.queen.take(queue, ['c'], { batch: 1, wait: 'false', autoAck: '1' });
            await c.queen.take(queue, ['d'], { autoAck: 0 });
            await c.queen.nothing(queue);
        });
    });

    it('delivers what was pushed in many requests as one batch in offset order', async () => {
        const queue = unique();
        const expected = [];
        for (let i = 0; i < 12; i++) {
            const part = Array.from({ length: (i % 4) + 1 }, (_, k) => `${i}.${k}`);
            expected.push(...part);
            await c.queen.push(queue, part);
        }
        const batch = await c.queen.take(queue, expected);
        assert.ok((await batch.complete()).every((r) => r.leaseReleased));
    });

    describe('gaps that retention left', { concurrency: 4 }, () => {
        /* Deletes the stored segments that begin at one of these offsets. */
        const drop = (queue, offsets) => c.instance.psql(`delete from queen.log_segments s using queen.log_partitions p join queen.queues q on q.id = p.queue_id
            where s.partition_id = p.id and q.name = '${queue}' and s.base_offset in (${offsets})`);

        it('are stepped over, at the head and in the middle', async () => {
            const queue = unique();
            for (const part of [['a', 'b'], ['c', 'd'], ['e', 'f'], ['g']]) await c.queen.push(queue, part);
            await drop(queue, [0]);
            const head = await c.queen.take(queue, ['c', 'd', 'e'], { batch: 3 });
            await head.complete();
            await drop(queue, [2]);
            const rest = await c.queen.take(queue, ['f', 'g']);
            assert.ok((await rest.complete()).every((r) => r.leaseReleased));
            await c.queen.nothing(queue);
        });

        it('that swallowed everything pending leave a partition that works on', async () => {
            const queue = unique();
            await c.queen.push(queue, ['a', 'b']);
            await c.queen.push(queue, ['c']);
            await drop(queue, [0, 2]);
            await c.queen.nothing(queue);
            const cursor = () => c.instance.psql(`select c.committed = p.last_offset from queen.log_consumers c
                join queen.log_partitions p on p.id = c.partition_id join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`);
            assert.equal(await cursor(), 't', 'the cursor is sealed to the last offset');
            await c.queen.push(queue, ['d']);
            await c.queen.take(queue, ['d']);
        });
    });

    it('redelivers the whole batch when its lease expires', async () => {
        const queue = unique();
        await c.queen.push(queue, ['a', 'b', 'c']);
        const lost = await c.queen.take(queue, ['a', 'b'], { batch: 2, leaseSeconds: 1 });
        await c.queen.nothing(queue);
        const again = await until(async () => {
            const answer = await c.queen.pop(queue);
            return answer.status === 200 && answer;
        }, 'the expired batch is claimable');
        assert.deepEqual(ids(again), ['a', 'b', 'c']);
        assert.notEqual(again.json.leaseId, lost.leaseId);
        assert.equal(again.json.messages[0].deliveryAttempt, 2);
    });
});
