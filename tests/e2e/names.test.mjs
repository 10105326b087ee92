// Queue, partition and group names of any text, in bodies, path segments and query parameters.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, Batch, unique, useQueen } from './lib/queen.mjs';

const NAMES = ['a/b', '/', 'été', '100%', '%', '%2F', 'a%2Fb', '%zz', 'q"uote\'s', 'sp ace', ' lead and trail ', 'plus+plus', '🐇👩‍👩‍👧', 'semi;colon', 'a?b#c&d=e',
    'back\\slash', '..', 'a/../b', './x', 'a//b', '{"x":1}', '$1', '`tick`', "'; drop table queen.queues; --", 'new\nline', 'tab\tbed', '你好', 'cafe\u0301', '~!@^*()_-=[]|:,.<>',
    'NULL', '__QUEUE_MODE__x', 'é'.repeat(200)];

describe('names', { concurrency: 4 }, () => {
    const c = useQueen();

    for (const name of NAMES) {
        it(`${JSON.stringify(name.slice(0, 30))} as queue, partition and group`, async () => {
            const queue = `${name}${unique('~')}`;
            const pushed = await c.queen.push(queue, ['t1', 't2'], name);
            assert.equal(pushed[0].queueName, queue);

            const answer = await c.queen.pop(queue, { consumerGroup: name });
            assert.equal(answer.status, 200, answer.text);
            assert.deepEqual([answer.json.queue, answer.json.partition, answer.json.consumerGroup], [queue, name, name]);
            for (const m of answer.json.messages) assert.deepEqual([m.partition, m.consumerGroup], [name, name]);
            const results = await new Batch(c.queen, answer.json).complete();
            assert.ok(results.every((r) => r.leaseReleased));
            await c.queen.nothing(queue, { consumerGroup: name });

            const pinned = await c.queen.popPartition(queue, name);
            assert.equal(pinned.status, 200, pinned.text);
            assert.deepEqual([pinned.json.queue, pinned.json.partition], [queue, name]);
            await new Batch(c.queen, pinned.json).ack([['t1', 'dlq', name]]);
            const { json: listed } = await c.queen.dlq({ queue });
            assert.deepEqual(listed.messages.map((m) => [m.queue, m.partition, m.errorMessage]), [[queue, name, name]]);

            assert.deepEqual((await c.queen.delete(queue)).json, { deleted: true, queue, existed: true });
            assert.equal((await c.queen.delete(queue)).json.existed, false);
        });
    }

    it('are told apart by case, by white space and by normal form', async () => {
        const base = unique('case');
        const names = [`${base}x`, `${base}X`, `${base}x `, ` ${base}x`, `${base}\u00e9`, `${base}e\u0301`];
        for (const [i, queue] of names.entries()) await c.queen.push(queue, [`t${i}`]);
        for (const [i, queue] of names.entries()) await c.queen.take(queue, [`t${i}`]);
    });

    it('are percent-decoded once, whatever the client chose to encode', async () => {
        const queue = `${unique()}-été`;
        await c.queen.push(queue, ['t']);
        const spellings = [encodeURIComponent(queue), encodeURIComponent(queue).toLowerCase(), encodeURIComponent(queue).replace('q', '%71'),
            [...Buffer.from(queue)].map((b) => `%${b.toString(16).padStart(2, '0')}`).join('')];
        for (const [i, spelling] of spellings.entries()) {
            const answer = await c.queen.get(`/api/v1/pop/queue/${spelling}?consumerGroup=g%C3%A9${i}`);
            assert.equal(answer.status, 200, spelling);
            assert.equal(answer.json.queue, queue);
            assert.equal(answer.json.consumerGroup, `gé${i}`);
        }
    });

    it('decode after routing: an encoded slash does not split the path', async () => {
        const queue = `x/partition/y${unique('~')}`;
        await c.queen.push(queue, ['t']);
        const answer = await c.queen.pop(queue);
        assert.equal(answer.json.queue, queue);
        assert.equal(answer.json.partition, 'Default');
    });

    it('keep a + in the path as it is', async () => {
        const queue = `a+b${unique('~')}`;
        await c.queen.push(queue, ['t']);
        const answer = await c.queen.get(`/api/v1/pop/queue/${queue}`);
        assert.equal(answer.status, 200);
        assert.equal(answer.json.queue, queue);
    });

    it('over 512 bytes are 413 on pops, naming the parameter and the limit', async () => {
        const long = 'x'.repeat(513), queue = unique();
        for (const [answer, field] of [
            [await c.queen.pop(long), /queue/], [await c.queen.popPartition(queue, long), /partition/],
            [await c.queen.pop(queue, { consumerGroup: long }), /consumerGroup/], [await c.queen.pop(queue, { consumerGroup: 'é'.repeat(257) }), /consumerGroup/],
        ]) {
            assertError(answer, 413, field);
            assert.match(answer.json.error, /512/);
        }
    });

    it('with NUL are 400 on pops and create nothing', async () => {
        const queue = unique();
        assertError(await c.queen.pop(queue, { consumerGroup: 'a\u0000' }), 400, /consumerGroup/);
        const inPath = await c.queen.get(`/api/v1/pop/queue/${queue}%00`);
        assertError(inPath, 400);
        assertError(await c.queen.get(`/api/v1/pop/queue/${queue}/partition/%00`), 400);
        assert.equal(await rows(queue), '0');
    });

    it('an empty group is 400', async () => {
        assertError(await c.queen.pop(unique(), { consumerGroup: '' }), 400, /consumerGroup/);
    });

    it('that are not UTF-8 are 400', async () => {
        assertError(await c.queen.get(`/api/v1/pop/queue/${unique()}%FF`), 400);
        assertError(await c.queen.get(`/api/v1/pop/queue/${unique()}?consumerGroup=%C3`), 400);
    });

    it('a malformed escape is a JSON 400', async () => {
        assertError(await c.queen.get(`/api/v1/pop/queue/${unique()}%zz`), 400);
        assertError(await c.queen.get(`/api/v1/pop/queue/${unique()}?consumerGroup=%zz`), 400);
        assertError(await c.queen.get(`/api/v1/pop/queue/${unique()}?consumerGroup=x%4`), 400);
    });

    const rows = async (queue) => String(await c.instance.psql(`select count(*) from queen.queues where name like '${queue}%'`)).trim();
});
