// What depends on the settings of an instance: the ack topics once more with each accelerator switched
// off and with other numbers of workers; wake-ups with the fallback poll out of the way; defaults.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readdirSync } from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { fileURLToPath } from 'node:url';
import { startInstance } from './lib/instance.mjs';
import { Queen, unique, until } from './lib/queen.mjs';

const here = path.dirname(fileURLToPath(import.meta.url));
const ackTopics = readdirSync(here).filter((f) => /^(ack_.*|retry_dlq|lease_extend)\.test\.mjs$/.test(f)).map((f) => path.join(here, f));

/* Runs test files against an instance; gives their output when one fails. */
function run(files, instance, env) {
    return new Promise((resolve) => {
        const child = spawn(process.execPath, ['--test', '--test-reporter=spec', ...files], {
            env: { ...process.env, NODE_TEST_CONTEXT: undefined, ...env, QUEEN_TEST_URL: instance.url, QUEEN_TEST_RUN_DIR: instance.runDir },
        });
        let output = '';
        child.stdout.on('data', (d) => { output += d; });
        child.stderr.on('data', (d) => { output += d; });
        child.on('close', (code) => resolve({ code, output }));
    });
}

async function withInstance(settings, fn) {
    const instance = await startInstance(settings);
    const queen = new Queen(instance);
    try {
        await fn(instance, queen);
    } finally {
        queen.close();
        await instance.stop();
    }
}

describe('settings', () => {
    const combinations = [
        { workers: 2, env: { QUEEN_ACK_REGISTRY: '0', QUEEN_ACK_FUSION: '1' } },
        { workers: 2, env: { QUEEN_ACK_REGISTRY: '1', QUEEN_ACK_FUSION: '0' } },
        { workers: 1, env: { QUEEN_ACK_REGISTRY: '0', QUEEN_ACK_FUSION: '0' } },
        { workers: 3, env: { QUEEN_ACK_REGISTRY: '1', QUEEN_ACK_FUSION: '1' } },
    ];
    for (const settings of combinations) {
        it(`acks answer the same with ${settings.workers} workers and ${JSON.stringify(settings.env)}`, { timeout: 180000 }, async () => {
            await withInstance(settings, async (instance) => {
                const { code, output } = await run(ackTopics, instance, settings.env);
                assert.equal(code, 0, output.slice(output.indexOf('failing tests')).slice(0, 20000));
                assert.match(output, /pass [1-9]\d\d/, 'the topics were really run');
            });
        });
    }

    it('a batch that one worker delivered takes the fast path through another', { timeout: 120000 }, async () => {
        await withInstance({ workers: 1 }, async (instance, queen) => {
            const queues = Array.from({ length: 10 }, () => unique());
            const batches = [];
            for (const queue of queues) {
                await queen.push(queue, ['a', 'b', 'c']);
                batches.push(await queen.take(queue, ['a', 'b', 'c']));
            }
            const [old] = instance.pids().worker;
            process.kill(old, 'SIGKILL');
            await until(() => instance.pids().worker.some((pid) => pid !== old), 'a new worker is there');
            await until(async () => (await queen.get('/health')).status === 200, 'it serves');
            const before = await queen.counters();
            for (const batch of batches) assert.ok((await batch.complete()).every((r) => r.leaseReleased && !r.noop));
            const after = await queen.counters();
            assert.equal(after.ack_registry_hits - before.ack_registry_hits, 10);
            assert.equal(after.ack_fused - before.ack_fused, 10);
            assert.equal(after.ack_hash, before.ack_hash);
            for (const queue of queues) await queen.nothing(queue);
        });
    });

    it('nothing that wakes a poll leans on the fallback', { timeout: 180000 }, async () => {
        const settings = { workers: 2, env: { QUEEN_FALLBACK_POLL_MS: '60000' } };
        await withInstance(settings, async (instance) => {
            const files = ['long_poll', 'pop_gates'].map((f) => path.join(here, `${f}.test.mjs`));
            const { code, output } = await run(files, instance, settings.env);
            assert.equal(code, 0, output.slice(output.indexOf('failing tests')).slice(0, 20000));
        });
    });

    it('DEFAULT_SUBSCRIPTION_MODE=new and DEFAULT_TIMEOUT', { timeout: 120000 }, async () => {
        await withInstance({ workers: 1, env: { DEFAULT_SUBSCRIPTION_MODE: 'new', DEFAULT_TIMEOUT: '1500' } }, async (instance, queen) => {
            const queue = unique();
            await queen.push(queue, ['old']);
            await queen.nothing(queue, { consumerGroup: 'default' });
            await queen.take(queue, ['old'], { consumerGroup: 'all', subscriptionMode: 'all' });
            await queen.take(queue, ['old'], { consumerGroup: 'empty', subscriptionMode: '' });
            await queen.take(queue, ['old'], { consumerGroup: 'from', subscriptionFrom: '2020-01-01T00:00:00Z' });
            await queen.take(queue, ['old']);
            await queen.push(queue, ['new']);
            await queen.take(queue, ['new'], { consumerGroup: 'default' });
            const started = Date.now();
            assert.equal((await queen.pop(unique(), { wait: true })).status, 204);
            const ms = Date.now() - started;
            assert.ok(ms >= 1000 && ms < 10000, `${ms} ms`);
        });
    });
});
