// POST /api/v1/configure: defaults, merge and replace, validation, and that the data plane sees a change at once.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { assertError, unique, useQueen, UUID } from './lib/queen.mjs';

const DEFAULTS = {
    priority: 0, leaseTime: 300, retryLimit: 3, retryDelay: 1000, maxSize: 0, ttl: 3600, deadLetterQueue: true, dlqAfterMaxRetries: true,
    delayedProcessing: 0, windowBuffer: 0, retentionSeconds: 0, completedRetentionSeconds: 0, retentionEnabled: false, encryptionEnabled: false,
    maxWaitTimeSeconds: 0, minPopWaitTime: 0, dedupWindowSeconds: 3600, retentionSinkHold: '', retentionSinkHoldMaxSeconds: 604800,
};
const OTHER = {
    priority: 7, leaseTime: 45, retryLimit: 9, retryDelay: 250, maxSize: 1000, ttl: 60, deadLetterQueue: false, dlqAfterMaxRetries: false,
    delayedProcessing: 2, windowBuffer: 3, retentionSeconds: 100, completedRetentionSeconds: 50, retentionEnabled: true, encryptionEnabled: true,
    maxWaitTimeSeconds: 500, minPopWaitTime: 250, dedupWindowSeconds: 10, retentionSinkHold: 'sink-A_1.x', retentionSinkHoldMaxSeconds: 3600,
};

describe('configure', { concurrency: 8 }, () => {
    const c = useQueen();
    const stored = async (queue) => (await c.queen.configure(queue)).options; // an empty merge changes nothing

    it('answers the queue and its effective options', async () => {
        const queue = unique();
        const json = await c.queen.configure(queue, { leaseTime: 120 });
        assert.deepEqual(new Set(Object.keys(json)), new Set(['configured', 'queueId', 'partitionId', 'queue', 'namespace', 'task', 'storage', 'options']));
        assert.match(json.queueId, UUID);
        assert.deepEqual({ ...json, queueId: 'x', options: 'o' },
            { configured: true, queueId: 'x', partitionId: null, queue, namespace: '', task: '', storage: 'segments', options: 'o' });
        assert.deepEqual(json.options, { ...DEFAULTS, leaseTime: 120 });
        assert.equal((await c.queen.configure(queue)).queueId, json.queueId);
    });

    for (const [name, value] of Object.entries(OTHER)) {
        it(`${name}: stored, echoed, kept, restored by null`, async () => {
            const queue = unique();
            assert.deepEqual((await c.queen.configure(queue, { [name]: value })).options, { ...DEFAULTS, [name]: value });
            assert.deepEqual(await stored(queue), { ...DEFAULTS, [name]: value });
            assert.deepEqual((await c.queen.configure(queue, { [name]: null })).options, DEFAULTS);
        });
    }

    it('merge keeps what is absent, replace takes the defaults for it', async () => {
        const queue = unique();
        assert.deepEqual((await c.queen.configure(queue, OTHER)).options, OTHER);
        assert.deepEqual((await c.queen.configure(queue, { ttl: 1 })).options, { ...OTHER, ttl: 1 });
        assert.deepEqual((await c.queen.configure(queue, { ttl: 2 }, { mode: 'merge' })).options, { ...OTHER, ttl: 2 });
        assert.deepEqual((await c.queen.configure(queue, { ttl: 3 }, { mode: null })).options, { ...OTHER, ttl: 3 });
        assert.deepEqual((await c.queen.configure(queue, { priority: 5 }, { mode: 'replace' })).options, { ...DEFAULTS, priority: 5 });
        assert.deepEqual(await stored(queue), { ...DEFAULTS, priority: 5 });
    });

    it('replace of a new queue and merge of a new queue start from the defaults', async () => {
        assert.deepEqual((await c.queen.configure(unique(), { ttl: 3 }, { mode: 'replace' })).options, { ...DEFAULTS, ttl: 3 });
        const implicit = unique();
        await c.queen.push(implicit, ['a']);
        assert.deepEqual((await c.queen.configure(implicit, { ttl: 3 })).options, { ...DEFAULTS, leaseTime: 60, ttl: 3 }, 'an implicit queue keeps its 60 s');
    });

    it('options may stand at the top level when there is no options object', async () => {
        const queue = unique();
        for (const rest of [{}, { options: null }]) {
            const answer = await c.queen.post('/api/v1/configure', { queue, leaseTime: 77, retryLimit: 1, namespace: 'n', ...rest });
            assert.equal(answer.status, 200, answer.text);
            assert.deepEqual([answer.json.options.leaseTime, answer.json.options.retryLimit, answer.json.namespace], [77, 1, 'n']);
        }
        const both = await c.queen.post('/api/v1/configure', { queue, leaseTime: 5, options: { retryLimit: 2 } });
        assert.deepEqual([both.json.options.leaseTime, both.json.options.retryLimit], [77, 2]);
    });

    it('namespace and task: at the top or among the options, kept by merge', async () => {
        const queue = unique();
        const first = await c.queen.configure(queue, {}, { namespace: 'ns', task: 'tk' });
        assert.deepEqual([first.namespace, first.task], ['ns', 'tk']);
        const kept = await c.queen.configure(queue, { ttl: 1 });
        assert.deepEqual([kept.namespace, kept.task], ['ns', 'tk']);
        const inside = await c.queen.configure(queue, { namespace: 'other', task: null });
        assert.deepEqual([inside.namespace, inside.task], ['other', '']);
        assert.ok(!('namespace' in inside.options) && !('task' in inside.options));
        const dotted = await c.queen.configure(unique('a.b.c'));
        assert.deepEqual([dotted.namespace, dotted.task], ['', '']);
    });

    it('a queue may have the empty name', async () => {
        const answer = await c.queen.post('/api/v1/configure', { queue: '', options: { ttl: 5 } });
        assert.equal(answer.status, 200, answer.text);
        assert.equal(answer.json.queue, '');
    });

    it('numbers and booleans may come as text; unknown options are ignored; values are clamped', async () => {
        const queue = unique();
        const { options } = await c.queen.configure(queue, { leaseTime: '60', deadLetterQueue: 'false', retentionEnabled: 'true', nonsense: { x: 1 },
            minPopWaitTime: 70000, dedupWindowSeconds: -5 });
        assert.deepEqual(options, { ...DEFAULTS, leaseTime: 60, deadLetterQueue: false, retentionEnabled: true, minPopWaitTime: 60000, dedupWindowSeconds: 0 });
        assert.equal((await c.queen.configure(queue, { minPopWaitTime: -1 })).options.minPopWaitTime, 0);
    });

    describe('refused, nothing is written', { concurrency: 4 }, () => {
        const keeps = async (body, status, pattern) => {
            const queue = unique();
            await c.queen.configure(queue, OTHER);
            const answer = await c.queen.post('/api/v1/configure', body(queue));
            assertError(answer, status, pattern);
            assert.deepEqual(await stored(queue), OTHER);
            const fresh = unique();
            await c.queen.post('/api/v1/configure', body(fresh));
            assert.equal(String(await c.instance.psql(`select count(*) from queen.queues where name = '${fresh}'`)).trim(), '0');
            return answer;
        };
        for (const mode of ['Merge', 'REPLACE', '', 'upsert', true, 1, {}, []]) {
            it(`mode ${JSON.stringify(mode)}`, () => keeps((queue) => ({ queue, mode, options: { ttl: 1 } }), 400, /mode/));
        }
        for (const [option, values] of [['retentionSinkHold', ['a b', 'é', 'x'.repeat(65), 'a/b']], ['retentionSinkHoldMaxSeconds', [59, 0, -1, 31536001]]]) {
            for (const value of values) {
                it(`${option} ${JSON.stringify(value).slice(0, 20)}`, async () => {
                    const answer = await keeps((queue) => ({ queue, options: { ttl: 1, [option]: value } }), 400);
                    assert.equal(answer.json.invalid, option);
                });
            }
        }
        for (const [option, value] of [['leaseTime', 'abc'], ['leaseTime', 60.5], ['retryLimit', {}], ['retryLimit', []], ['deadLetterQueue', 'maybe'], ['ttl', 1e30], ['dedupWindowSeconds', '5 minutes']]) {
            it(`${option} ${JSON.stringify(value)}`, () => keeps((queue) => ({ queue, options: { priority: 1, [option]: value } }), 400));
        }
        for (const body of ['', 'nope', '[]', '{"queue":', 'null', '{}', '{"queue":null}', '{"queue":5}', '{"queue":["x"]}', '{"options":{"ttl":1}}']) {
            it(`body ${body || 'empty'}`, async () => assertError(await c.queen.post('/api/v1/configure', body), 400));
        }
        it('names that are too long or hold NUL', async () => {
            const long = await c.queen.post('/api/v1/configure', { queue: 'x'.repeat(513) });
            assertError(long, 413, /queue/);
            assertError(await c.queen.post('/api/v1/configure', { queue: 'a\u0000b' }), 400, /queue/);
        });
    });

    it('concurrent edits of different options all land', async () => {
        const queue = unique();
        await c.queen.configure(queue);
        const numbers = Object.entries(OTHER).filter(([, v]) => typeof v === 'number');
        await Promise.all(numbers.map(([name, value]) => c.queen.configure(queue, { [name]: value })));
        assert.deepEqual(await stored(queue), { ...DEFAULTS, ...Object.fromEntries(numbers) });
    });

    it('concurrent creations of one queue give one queue', async () => {
        const queue = unique();
        const answers = await Promise.all(Array.from({ length: 10 }, () => c.queen.configure(queue, { ttl: 5 })));
        assert.equal(new Set(answers.map((a) => a.queueId)).size, 1);
    });

    it('a change is seen by the next pop and the next push, through any worker', async () => {
        const queue = unique();
        await c.queen.configure(queue, { leaseTime: 1000 });
        for (const [i, leaseTime] of [500, 50, 2000].entries()) {
            await c.queen.configure(queue, { leaseTime });
            await c.queen.push(queue, [`m${i}`]);
            const batch = await c.queen.take(queue, [`m${i}`]);
            const left = (Date.parse((await c.queen.extend(batch.leaseId, '{"seconds":1}')).json.newExpiresAt) - Date.now()) / 1000;
            assert.ok(left > leaseTime - 20 && left <= leaseTime + 1, `${left} s after ${leaseTime}`);
            await batch.complete();
        }
    });
});
