// Processes are killed under load: no acknowledged push is lost, no acknowledged message comes back, the
// order of each partition holds, and everything serves again within 10 s without hands.
import assert from 'node:assert/strict';
import { after, before, describe, it } from 'node:test';
import { startInstance } from '../e2e/lib/instance.mjs';
import { Load, sleep } from './lib/load.mjs';

const SERVES_AGAIN_MS = 10000;

function signal(pids, name) {
    for (const pid of pids) {
        try {
            process.kill(pid, name);
        } catch (error) {
            if (error.code !== 'ESRCH') throw error;
        }
    }
}

describe('kill under load', () => {
    let instance;
    before(async () => {
        instance = await startInstance({ workers: 2 });
    }, { timeout: 120000 });
    after(async () => {
        await instance?.stop();
    }, { timeout: 120000 });

    /* Runs the load, strikes some times, waits each time until it serves again. strike() returns the
     * pids that must be gone afterwards. */
    async function scenario(t, rounds, strike) {
        const load = new Load(instance);
        load.start();
        await load.servesAgain(Date.now(), SERVES_AGAIN_MS);
        for (let round = 0; round < rounds; round++) {
            await sleep(500 + 200 * round);
            const since = Date.now();
            const struck = await strike(round);
            assert.ok(struck.length > 0, 'something was struck');
            const ms = await load.servesAgain(since, SERVES_AGAIN_MS);
            t.diagnostic(`round ${round}: served again after ${ms} ms`);
            const alive = Object.values(instance.pids()).flat();
            assert.deepEqual(struck.filter((pid) => alive.includes(pid)), []);
        }
        // Whoever was killed is back, not only routed around.
        const started = Date.now();
        const complete = () => {
            const p = instance.pids();
            return p.worker.length === 2 && p.flusher.length === 1 && p.keeper.length === 1 && p.postmaster.length === 1 && p.nginx.length >= 2;
        };
        while (!complete() && Date.now() < started + SERVES_AGAIN_MS) await sleep(50);
        assert.ok(complete(), JSON.stringify(instance.pids()));
        t.diagnostic(JSON.stringify(await load.finish()));
    }

    function kill(pids) {
        signal(pids, 'SIGKILL');
        return pids;
    }

    it('a worker', { timeout: 120000 }, (t) => scenario(t, 4, (round) => kill([instance.pids().worker[round % 2]])));

    it('all workers', { timeout: 120000 }, (t) => scenario(t, 3, () => kill(instance.pids().worker)));

    it('the flusher', { timeout: 120000 }, (t) => scenario(t, 4, () => kill(instance.pids().flusher)));

    it('the keeper', { timeout: 120000 }, (t) => scenario(t, 2, () => kill(instance.pids().keeper)));

    it('nginx: master, then workers', { timeout: 120000 }, (t) => scenario(t, 2, async (round) => {
        // A new master serves through the old workers' last moments before it has its own.
        for (let i = 0; i < 500 && instance.pids().nginx.length < 2; i++) await sleep(20);
        const { nginx } = instance.pids();
        return kill(round === 0 ? [nginx[0]] : nginx.slice(1));
    }));

    it('PostgreSQL, immediate shutdown', { timeout: 120000 }, (t) => scenario(t, 3, () => {
        const { postmaster } = instance.pids();
        signal(postmaster, 'SIGQUIT');
        return waitGone(postmaster);
    }));

    it('PostgreSQL, SIGKILL of the postmaster', { timeout: 120000 }, (t) => scenario(t, 2, () => kill(instance.pids().postmaster)));

    it('one database session after another, by SIGTERM from the server', { timeout: 120000 }, (t) => scenario(t, 4, async () => {
        const ended = await instance.psql(`select pid, pg_terminate_backend(pid) from pg_stat_activity where backend_type = 'client backend' and pid <> pg_backend_pid()`);
        return ended.split('\n').map((line) => Number(line.split('|')[0]));
    }));

    it('everything at once, supervisors excepted', { timeout: 120000 }, (t) => scenario(t, 3, () => {
        const { worker, flusher, keeper, nginx, postmaster } = instance.pids();
        return kill([...worker, ...flusher, ...keeper, ...nginx, ...postmaster]);
    }));

    async function waitGone(pids) {
        for (let i = 0; i < 500; i++) {
            const alive = Object.values(instance.pids()).flat();
            if (!pids.some((pid) => alive.includes(pid))) return pids;
            await sleep(20);
        }
        return assert.fail(`still alive: ${pids}`);
    }
});
