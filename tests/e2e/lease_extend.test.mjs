// POST /api/v1/lease/:leaseId/extend.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { Batch, TIME, unique, useQueen } from './lib/queen.mjs';

const KEYS = ['leaseId', 'success', 'renewed', 'newExpiresAt', 'expiresAt', 'lease_expires_at'];
const unknown = (leaseId) => ({ leaseId, success: false, renewed: 0, newExpiresAt: null, expiresAt: null, lease_expires_at: null });

describe('lease extend', { concurrency: 8 }, () => {
    const c = useQueen();
    const leased = async (parameters) => {
        const queue = unique();
        await c.queen.push(queue, ['a']);
        return { queue, batch: await c.queen.take(queue, ['a'], parameters) };
    };
    const seconds = (answer) => (Date.parse(answer.json.newExpiresAt) - Date.now()) / 1000;

    it('renews a live lease, keys in the order of the contract', async () => {
        const { batch } = await leased({ leaseSeconds: 20 });
        const answer = await c.queen.extend(batch.leaseId, '{"seconds":100}');
        assert.equal(answer.status, 200);
        assert.match(answer.headers['content-type'], /^application\/json/);
        assert.deepEqual(Object.keys(answer.json), KEYS);
        assert.deepEqual([answer.json.leaseId, answer.json.success, answer.json.renewed], [batch.leaseId, true, 1]);
        assert.match(answer.json.newExpiresAt, TIME);
        assert.equal(answer.json.expiresAt, answer.json.newExpiresAt);
        assert.equal(answer.json.lease_expires_at, answer.json.newExpiresAt);
        assert.ok(seconds(answer) > 85 && seconds(answer) <= 101, `${seconds(answer)} s`);
    });

    it('keeps the batch through what would have been its expiry', async () => {
        const { queue, batch } = await leased({ leaseSeconds: 3 });
        const before = Date.parse((await c.queen.extend(batch.leaseId, '{"seconds":1}')).json.expiresAt);
        assert.equal((await c.queen.extend(batch.leaseId, '{"seconds":60}')).json.success, true);
        const now = async () => Date.parse(String(await c.instance.psql('select to_char(clock_timestamp(), \'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"\')')).trim());
        while ((await now()) <= before + 500) await new Promise((r) => { setTimeout(r, 200); });
        await c.queen.nothing(queue);
        assert.equal((await batch.complete())[0].leaseReleased, true);
    });

    for (const body of ['', '{}', '{"seconds":null}', 'broken', '{"seconds":"many"}', '[]', '{"seconds":']) {
        it(`60 s for the body ${JSON.stringify(body)}`, async () => {
            const { batch } = await leased({ leaseSeconds: 5 });
            const answer = await c.queen.extend(batch.leaseId, body);
            assert.equal(answer.status, 200);
            assert.equal(answer.json.renewed, 1, answer.text);
            assert.ok(seconds(answer) > 45 && seconds(answer) <= 61, `${seconds(answer)} s`);
        });
    }

    it('never shortens', async () => {
        const { batch } = await leased({ leaseSeconds: 500 });
        for (const n of [1, 0, -100]) {
            const answer = await c.queen.extend(batch.leaseId, `{"seconds":${n}}`);
            assert.deepEqual([answer.json.success, answer.json.renewed], [true, 1]);
            assert.ok(seconds(answer) > 480, `${n}: ${seconds(answer)} s`);
        }
    });

    it('renews every partition of a pop and tells the earliest expiry', async () => {
        const namespace = unique('ns');
        for (const [name, leaseTime] of [['x', 100], ['y', 1000]]) {
            await c.queen.configure(`${namespace}.${name}`, { leaseTime }, { namespace });
            await c.queen.push(`${namespace}.${name}`, [name]);
        }
        const { json } = await c.queen.popDiscover({ namespace, partitions: 5 });
        assert.equal(json.partitionsClaimed, 2);
        const answer = await c.queen.extend(json.leaseId, '{"seconds":300}');
        assert.equal(answer.json.renewed, 2);
        assert.ok(seconds(answer) > 285 && seconds(answer) <= 301, `${seconds(answer)} s`);
        const batch = new Batch(c.queen, json);
        await batch.ack([['x', 'completed']]);
        const rest = await c.queen.extend(json.leaseId, '{"seconds":1}');
        assert.equal(rest.json.renewed, 1);
        assert.ok(seconds(rest) > 900, 'y alone is left');
    });

    it('an unknown, malformed, released or expired lease: success false and nulls, still 200', async () => {
        const released = (await leased()).batch;
        await released.complete();
        const expired = (await leased({ leaseSeconds: 1 })).batch;
        await expired.expired();
        for (const leaseId of ['0198f2c1-9a7b-7d20-8e31-4c5d6e7f8a90', 'nonsense', 'a/b', '100%', 'é', released.leaseId, expired.leaseId]) {
            const answer = await c.queen.extend(leaseId, '{"seconds":60}');
            assert.equal(answer.status, 200);
            assert.deepEqual(answer.json, unknown(leaseId));
            assert.deepEqual(Object.keys(answer.json), KEYS);
        }
    });

    it('does not revive an expired lease that nobody took', async () => {
        const { queue, batch } = await leased({ leaseSeconds: 1 });
        await batch.expired();
        assert.equal((await c.queen.extend(batch.leaseId)).json.success, false);
        await c.queen.take(queue, ['a']);
        assert.equal((await c.queen.extend(batch.leaseId)).json.success, false, 'and not the lease of its successor');
    });

    it('works for named groups without naming them', async () => {
        const { batch } = await leased({ consumerGroup: 'g' });
        assert.equal((await c.queen.extend(batch.leaseId)).json.renewed, 1);
    });
});
