// SIGTERM of a worker: parked polls get their 204, the worker leaves and is replaced, nothing is lost.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { Client } from '../e2e/lib/http.mjs';
import { startInstance } from '../e2e/lib/instance.mjs';
import { Load, sleep } from './lib/load.mjs';

describe('graceful stop of workers', () => {
    let instance;
    let client;
    before(async () => {
        instance = await startInstance({ workers: 2 });
        client = new Client(instance.url);
    }, { timeout: 120000 });
    after(async () => {
        client?.close();
        await instance?.stop();
    }, { timeout: 120000 });

    async function until(fn, what, timeoutMs = 15000) {
        const deadline = Date.now() + timeoutMs;
        while (!(await fn())) {
            if (Date.now() > deadline) assert.fail(`did not happen within ${timeoutMs} ms: ${what}`);
            await sleep(50);
        }
    }

    const parked = async () => Number((await client.request('GET', '/metrics/prometheus')).body.toString().match(/^queen_pop_parked (\d+)/m)[1]);

    it('every parked poll of stopping workers is answered 204, long before its deadline', { timeout: 60000 }, async () => {
        const polls = Array.from({ length: 40 }, () => client.pop('graceful', { wait: true, timeout: 50000 }));
        await until(async () => (await parked()) === 40, 'all polls are parked');
        const before = instance.pids().worker;
        for (const pid of before) process.kill(pid, 'SIGTERM');
        const answers = await Promise.all(polls);
        assert.deepEqual([...new Set(answers.map((a) => a.status))], [204]);
        await until(() => {
            const now = instance.pids().worker;
            return now.length === 2 && !now.some((pid) => before.includes(pid));
        }, 'the workers are replaced');
        await until(async () => (await client.request('GET', '/health')).status === 200, 'healthy again');
        // A poll of now is woken by a push of now.
        const poll = client.pop('graceful', { wait: true, timeout: 30000 });
        await until(async () => (await parked()) === 1, 'the poll is parked');
        assert.equal((await client.push([{ queue: 'graceful', payload: 1 }])).status, 201);
        assert.equal((await poll).status, 200);
    });

    it('workers are replaced one after another under load', { timeout: 120000 }, async (t) => {
        const load = new Load(instance);
        load.start();
        await load.servesAgain(Date.now(), 10000);
        for (let round = 0; round < 4; round++) {
            const [pid] = instance.pids().worker;
            const since = Date.now();
            process.kill(pid, 'SIGTERM');
            await until(() => !instance.pids().worker.includes(pid) && instance.pids().worker.length === 2, 'the worker is replaced');
            await load.servesAgain(since, 10000);
        }
        t.diagnostic(JSON.stringify(await load.finish()));
    });

    it('down under load: parked polls get 204, no answer is an error, what got its 201 is stored', { timeout: 60000 }, async () => {
        const queue = 'graceful-down';
        const polls = Array.from({ length: 10 }, () => client.pop('graceful-idle', { wait: true, timeout: 50000 }));
        await until(async () => (await parked()) >= 10, 'the polls are parked');
        const statuses = [];
        let going = true;
        const pushers = Array.from({ length: 10 }, async (_, n) => {
            while (going) {
                // Connections that are refused or reset are what a stopped server looks like.
                const answer = await client.push([{ queue, partition: `p${n}`, payload: 1 }]).catch(() => null);
                if (answer) statuses.push(answer.status);
                else await sleep(10);
            }
        });
        await until(() => statuses.length > 100, 'the load runs');
        await instance.down();
        going = false;
        await Promise.all(pushers);
        assert.deepEqual((await Promise.all(polls)).map((a) => a.status), Array(10).fill(204));
        assert.deepEqual([...new Set(statuses)], [201]);
        await instance.up();
        const stored = await instance.psql(`select sum(last_offset + 1) from queen.log_partitions p join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`);
        // A push whose connection was reset may be stored too.
        assert.ok(Number(stored) >= statuses.length, `${stored} stored, ${statuses.length} answered`);
    });
});
