// Starting and stopping: twice, side by side, after kills, as another user, by a signal; nothing stays behind.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { describe, it } from 'node:test';
import { Client } from '../e2e/lib/http.mjs';
import { checkout, freePort, run, startInstance } from '../e2e/lib/instance.mjs';

const script = path.join(checkout, 'deploy', 'queen.sh');
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

async function until(fn, what, timeoutMs = 30000) {
    const deadline = Date.now() + timeoutMs;
    for (;;) {
        const value = await fn();
        if (value) return value;
        if (Date.now() > deadline) throw new Error(`did not happen within ${timeoutMs} ms: ${what}`);
        await sleep(50);
    }
}

async function status(url, target = '/health') {
    const client = new Client(url, { timeoutMs: 5000 });
    try {
        return (await client.request('GET', target)).status;
    } catch (error) {
        return error.code ?? error.message;
    } finally {
        client.close();
    }
}

/* Every process of an instance, whatever its kind. */
function processes(runDir) {
    const found = [];
    for (const pid of fs.readdirSync('/proc')) {
        try {
            if (/^\d+$/.test(pid) && fs.readlinkSync(`/proc/${pid}/fd/2`).startsWith(`${runDir}/log/`)) found.push(Number(pid));
        } catch {
            // ended, or not ours to look at
        }
    }
    return found;
}

/* The file of an instance's shared memory: what its worker has mapped. */
function sharedMemory(instance) {
    return fs.readFileSync(`/proc/${instance.pids().worker[0]}/maps`, 'utf8').match(/\/dev\/shm\/queen\.\S+/)[0];
}

function killAll(pids) {
    for (const pid of pids) {
        try {
            process.kill(pid, 'SIGKILL');
        } catch {
            // already gone
        }
    }
}

function assertNothingLeft(instance) {
    assert.deepEqual(processes(instance.runDir), []);
    const left = fs.readdirSync(instance.runDir).filter((f) => /\.(fifo|sock|pid)$/.test(f));
    assert.deepEqual(left, []);
    assert.equal(fs.existsSync(path.join(instance.runDir, 'postgres', 'data', 'postmaster.pid')), false);
}

describe('life of an instance', () => {
    it('up twice, down, up with the data of before, down twice', { timeout: 120000 }, async () => {
        const instance = await startInstance();
        try {
            assert.equal(await status(instance.url), 200);
            const before = instance.pids();
            assert.match(await instance.up(), /already up: http:\/\/127\.0\.0\.1:\d+/);
            assert.deepEqual(instance.pids(), before);
            await instance.psql('create table public.kept as select 42 as n');
            await instance.down();
            assertNothingLeft(instance);
            assert.equal(await status(instance.url), 'ECONNREFUSED');
            await instance.up();
            assert.equal(await instance.psql('select n from public.kept'), '42');
            assert.match(await instance.down(), /^stopped/);
            assert.match(await instance.down(), /^was not running/);
        } finally {
            await instance.stop();
        }
    });

    it('two instances side by side; each has its own shared memory and takes only its own down', { timeout: 120000 }, async () => {
        const [a, b] = await Promise.all([startInstance({ workers: 1 }), startInstance({ workers: 1 })]);
        const memory = [];
        try {
            assert.deepEqual([await status(a.url), await status(b.url)], [200, 200]);
            memory.push(sharedMemory(a), sharedMemory(b));
            assert.notEqual(memory[0], memory[1]);
            const pids = b.pids();
            await a.down();
            assert.deepEqual(b.pids(), pids);
            assert.equal(await status(b.url), 200);
            assert.deepEqual(memory.map((f) => fs.existsSync(f)), [false, true]);
        } finally {
            await Promise.all([a.stop(), b.stop()]);
        }
        assert.deepEqual(memory.filter((f) => fs.existsSync(f)), []);
    });

    it('a port in use is an error before anything is started', { timeout: 60000 }, async () => {
        const holder = net.createServer().listen(0, '127.0.0.1');
        await new Promise((resolve) => holder.once('listening', resolve));
        const { port } = holder.address();
        try {
            await assert.rejects(startInstance({ port }), (error) => {
                assert.match(error.message, new RegExp(`port ${port} is in use`));
                return true;
            });
        } finally {
            holder.close();
        }
    });

    it('settings that make no sense are errors that name them', { timeout: 60000 }, async () => {
        const refused = async (env, pattern) => {
            await assert.rejects(startInstance({ env }), (error) => {
                assert.match(error.message, pattern);
                return true;
            });
        };
        await refused({ QUEEN_PORT: 'http' }, /QUEEN_PORT=http/);
        await refused({ QUEEN_WORKERS: '0' }, /QUEEN_WORKERS=0/);
        await refused({ QUEEN_ZSTD_LEVEL: '99' }, /QUEEN_ZSTD_LEVEL/);
        await refused({ QUEEN_DATABASE_URL: 'postgresql://queen@127.0.0.1:1/queen' }, /QUEEN_DATABASE_URL/);
        const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'queen-mistake-'));
        fs.writeFileSync(path.join(dir, 'precious'), '');
        await refused({ QUEEN_RUN_DIR: dir }, /not empty and not a run directory/);
        assert.deepEqual(fs.readdirSync(dir), ['precious']);
        fs.rmSync(dir, { recursive: true });
    });

    it('up works after a SIGKILL of everything; down does too', { timeout: 120000 }, async () => {
        const instance = await startInstance();
        try {
            for (const next of ['up', 'down']) {
                killAll(processes(instance.runDir));
                await until(() => processes(instance.runDir).length === 0, 'everything is dead');
                instance.env.QUEEN_ACK_REGISTRY_MB = '2'; // what was left in shared memory has another size
                await instance[next]();
                if (next === 'up') assert.equal(await status(instance.url), 200);
            }
            assertNothingLeft(instance);
        } finally {
            await instance.stop();
        }
    });

    it('down finds what lost its supervisor', { timeout: 120000 }, async () => {
        const instance = await startInstance();
        try {
            const { supervisor } = instance.pids();
            assert.equal(supervisor.length, 5);
            killAll(supervisor);
            await instance.down();
            assertNothingLeft(instance);
        } finally {
            await instance.stop();
        }
    });

    it('programs that are killed come back by themselves, also when what they left holds the port', { timeout: 120000 }, async () => {
        const instance = await startInstance();
        try {
            for (const kind of ['nginx', 'worker', 'flusher', 'keeper', 'postmaster']) {
                const before = instance.pids();
                killAll(kind === 'nginx' ? [before.nginx[0]] : before[kind]);
                await until(() => {
                    const now = instance.pids();
                    return now[kind].length === before[kind].length && !now[kind].includes(before[kind][0]);
                }, `${kind} is replaced`);
                await until(async () => (await status(instance.url)) === 200, `healthy after ${kind} was killed`, 10000);
            }
        } finally {
            await instance.stop();
        }
    });

    it('run stops everything on SIGINT and on SIGTERM', { timeout: 120000 }, async () => {
        const instance = await startInstance();
        try {
            await instance.down();
            for (const signal of ['SIGINT', 'SIGTERM']) {
                const child = spawn(script, ['run'], { env: instance.env, stdio: ['ignore', 'pipe', 'pipe'] });
                let output = '';
                child.stdout.on('data', (d) => { output += d; });
                child.stderr.on('data', (d) => { output += d; });
                const ended = new Promise((resolve) => child.once('close', resolve));
                await until(() => output.includes('Ctrl-C'), 'run is up');
                assert.equal(await status(instance.url), 200);
                assert.match(output, /curl http:\/\/127\.0\.0\.1:\d+\/api\/v1\/push/);
                child.kill(signal);
                assert.equal(await ended, 0, output);
                assertNothingLeft(instance);
            }
        } finally {
            await instance.stop();
        }
    });

    it('processes are unprivileged, sockets and FIFOs are not for everybody', { timeout: 60000 }, async () => {
        const instance = await startInstance();
        try {
            for (const pid of processes(instance.runDir)) assert.notEqual(fs.statSync(`/proc/${pid}`).uid, 0, `process ${pid}`);
            assert.equal(fs.statSync(instance.runDir).mode & 0o777, 0o700);
            assert.equal(fs.statSync(path.join(instance.runDir, 'environment')).mode & 0o777, 0o600);
            const modes = fs.readdirSync(instance.runDir).filter((f) => /\.(fifo|sock)$/.test(f)).map((f) => fs.statSync(path.join(instance.runDir, f)).mode & 0o777);
            assert.ok(modes.length >= 5);
            for (const mode of modes) assert.ok(mode === 0o600 || mode === 0o660, mode.toString(8));
        } finally {
            await instance.stop();
        }
    });

    it('an existing PostgreSQL instead of a private one', { timeout: 120000 }, async () => {
        const host = await startInstance({ workers: 1 });
        try {
            await host.psql('create database other');
            const url = `postgresql:///other?host=${encodeURIComponent(path.join(host.runDir, 'postgres'))}&user=queen`;
            const guest = await startInstance({ workers: 1, env: { QUEEN_DATABASE_URL: url } });
            try {
                assert.equal(await status(guest.url), 200);
                assert.equal(guest.pids().postmaster.length, 0);
                assert.equal(await guest.psql('select current_database()'), 'other');
            } finally {
                await guest.stop();
            }
            assert.equal(await status(host.url), 200);
        } finally {
            await host.stop();
        }
    });

    it('a directory that the unprivileged user cannot enter: the instance lives elsewhere and is found again', { timeout: 120000, skip: process.getuid() !== 0 }, async () => {
        const closed = fs.mkdtempSync(path.join(os.tmpdir(), 'queen-closed-')); // 0700, root
        const place = path.join(closed, 'run');
        const port = String(await freePort());
        const env = { ...process.env, QUEEN_RUN_DIR: place, QUEEN_PORT: port, QUEEN_BIND: '127.0.0.1', QUEEN_DATABASE_URL: '' };
        try {
            await run(script, ['up'], { env });
            const where = fs.readFileSync(path.join(place, 'where'), 'utf8').trim();
            assert.match(await run(script, ['status'], { env }), new RegExp(`healthy: .*${where}`));
            await run(script, ['down'], { env });
            assert.deepEqual(processes(where), []);
            await run(script, ['up'], { env });
            assert.equal(fs.readFileSync(path.join(place, 'where'), 'utf8').trim(), where);
            assert.equal(await status(`http://127.0.0.1:${port}`), 200);
        } finally {
            await run(script, ['down'], { env });
            await run(script, ['purge'], { env });
        }
        assert.deepEqual(fs.readdirSync(closed), []);
        fs.rmSync(closed, { recursive: true });
    });
});

describe('other scripts', () => {
    it('install-dependencies.sh has nothing to do where the tests run', { timeout: 60000 }, async () => {
        assert.equal(await run(path.join(checkout, 'deploy', 'install-dependencies.sh'), []), '');
    });

    it('docs/configuration.md is what make docs writes', { timeout: 60000 }, async () => {
        const written = await run(path.join(checkout, 'deploy', 'write-configuration.sh'), [path.join(checkout, 'build', 'bin', 'queenctl')]);
        assert.equal(fs.readFileSync(path.join(checkout, 'docs', 'configuration.md'), 'utf8'), written, 'run make docs');
    });
});
