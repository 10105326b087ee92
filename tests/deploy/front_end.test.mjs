// What nginx answers when the workers cannot: nobody listens, or a worker dies with the request.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import { after, before, describe, it } from 'node:test';
import { Client } from '../e2e/lib/http.mjs';
import { startInstance } from '../e2e/lib/instance.mjs';

const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

function signal(pids, name) {
    for (const pid of pids) process.kill(pid, name);
}

describe('the front end without workers', () => {
    let instance;
    let client;
    before(async () => {
        instance = await startInstance({ workers: 2 });
        client = new Client(instance.url);
    }, { timeout: 60000 });
    after(async () => {
        client?.close();
        await instance?.stop();
    }, { timeout: 60000 });

    const push = () => client.push([{ queue: 'front-end', payload: 1 }]);
    const healthy = async () => {
        for (let i = 0; i < 200; i++) {
            if ((await client.request('GET', '/health')).status === 200) return;
            await sleep(50);
        }
        assert.fail('not healthy again within 10 s');
    };

    it('a worker dies in mid-request: a POST is told that the outcome is unknown, a pop a timeout', { timeout: 60000 }, async () => {
        // A request that nginx could not write into a kept connection waits for the next worker and is
        // served by it: the rounds go on until each kind was caught in the middle.
        const caught = new Set();
        for (let round = 0; round < 10 && caught.size < 3; round++) {
            await Promise.all(Array.from({ length: 64 }, () => client.request('GET', '/health'))); // kept connections
            const { worker } = instance.pids();
            signal(worker, 'SIGSTOP');
            const answers = Promise.all([push(), client.request('DELETE', '/api/v1/resources/queues/front-end'), client.pop('front-end')]);
            await sleep(500);
            signal(worker, 'SIGKILL');
            for (const [i, answer] of (await answers).entries()) {
                if (answer.status < 300) continue;
                assert.equal(answer.status, 503, answer.body.toString());
                assert.match(answer.headers['content-type'], /^application\/json/);
                if (i === 2) assert.match(answer.json().error, /timeout/);
                else assert.equal(answer.body.toString(), '{"error":"outcome_unknown","code":"outcome_unknown"}');
                caught.add(i);
            }
            await healthy();
        }
        assert.equal(caught.size, 3);
    });

    it('no worker listens: 503 unavailable with Retry-After, with "timeout" in the text of a pop', { timeout: 60000 }, async () => {
        const { supervisor, worker } = instance.pids();
        // The supervisors are frozen, so that nothing comes back before we looked.
        signal(supervisor, 'SIGSTOP');
        const multiwatch = Number(fs.readFileSync(`/proc/${worker[0]}/stat`, 'utf8').split(') ')[1].split(' ')[1]);
        try {
            signal([multiwatch, ...worker], 'SIGKILL');
            // nginx notices the end of its kept connections one by one; until then an outcome is unknown.
            let code;
            for (let i = 0; i < 400 && code !== 'unavailable'; i++) {
                await sleep(25);
                // One that was just being started is no worker yet when the others are killed.
                const left = instance.pids().worker;
                signal(left, 'SIGKILL');
                code = left.length === 0 ? (await client.request('GET', '/health')).json().code : '';
            }
            const [pushed, pop] = await Promise.all([push(), client.pop('front-end', { wait: 'true' })]);
            assert.deepEqual([pushed.status, pushed.body.toString()], [503, '{"error":"unavailable","code":"unavailable"}']);
            assert.match(pushed.headers['retry-after'], /^[1-5]$/);
            assert.deepEqual([pop.status, pop.json().code], [503, 'unavailable']);
            assert.match(pop.json().error, /timeout/);
            assert.match(pop.headers['retry-after'], /^[1-5]$/);
            assert.equal((await client.request('GET', '/nothing')).status, 404);
        } finally {
            signal(supervisor, 'SIGCONT');
        }
        await healthy();
    });

    it('TRACE is refused with Allow', async () => {
        const answer = await client.request('TRACE', '/api/v1/push');
        assert.equal(answer.status, 405);
        assert.match(answer.headers.allow, /POST/);
        assert.equal(typeof answer.json().error, 'string');
    });
});

describe('the front end with too many requests', () => {
    it('more than the limit at a time: 429 with Retry-After; room again when some have ended', { timeout: 60000 }, async () => {
        const instance = await startInstance({ workers: 1, env: { QUEEN_FRONT_MAX_REQUESTS: '10' } });
        const client = new Client(instance.url);
        try {
            const answers = await Promise.all(Array.from({ length: 16 }, () => client.pop('crowd', { wait: true, timeout: 2000 })));
            const refused = answers.filter((a) => a.status === 429);
            assert.deepEqual(answers.map((a) => a.status).sort(), [...Array(10).fill(204), ...Array(6).fill(429)]);
            for (const answer of refused) {
                assert.equal(answer.body.toString(), '{"error":"overloaded","code":"overloaded"}');
                assert.match(answer.headers['retry-after'], /^[1-5]$/);
            }
            assert.equal((await client.push([{ queue: 'crowd', payload: 1 }])).status, 201);
        } finally {
            client.close();
            await instance.stop();
        }
    });
});
