// A running instance for tests, started and stopped by deploy/queen.sh like a user's own.
//
//   const instance = await startInstance({ workers: 2, env: { QUEEN_ACK_REGISTRY: '0' } });
//   instance.url, .runDir, .port, .env, await instance.psql('select 1'), instance.pids().worker, await instance.stop()
//
// startInstance({ shared: true }) returns the instance that QUEEN_TEST_URL and QUEEN_TEST_RUN_DIR name
// (lib/with_instance.mjs starts one for a whole run), else one of its own.
import { execFile } from 'node:child_process';
import fs from 'node:fs';
import net from 'node:net';
import os from 'node:os';
import path from 'node:path';
import { fileURLToPath } from 'node:url';

export const checkout = path.resolve(path.dirname(fileURLToPath(import.meta.url)), '../../..');
const queenScript = path.join(checkout, 'deploy', 'queen.sh');

/* Settings that a caller's shell may carry and that must not leak into a test's instance. */
const PRIVATE_SETTINGS = ['QUEEN_PORT', 'QUEEN_RUN_DIR', 'QUEEN_WORKERS', 'QUEEN_BIND', 'QUEEN_TEST_URL', 'QUEEN_TEST_RUN_DIR'];

/* Runs a program to its end; resolves to its stdout, rejects with everything it printed. */
export function run(program, args, options = {}) {
    return new Promise((resolve, reject) => {
        execFile(program, args, { maxBuffer: 64 << 20, ...options }, (error, stdout, stderr) => {
            if (error) reject(new Error(`${program} ${args.join(' ')}: ${error.message}\n${stdout}${stderr}`));
            else resolve(stdout);
        });
    });
}

export function freePort() {
    return new Promise((resolve, reject) => {
        const server = net.createServer();
        server.once('error', reject);
        server.listen(0, '127.0.0.1', () => {
            const { port } = server.address();
            server.close(() => resolve(port));
        });
    });
}

export class Instance {
    constructor({ url, runDir, env, owned }) {
        this.url = url;
        this.port = Number(new URL(url).port);
        this.runDir = runDir;
        this.env = env; // what the instance's processes were started with
        this.owned = owned;
    }

    /* Process ids by kind, as they are now: {worker: [..], flusher: [..], keeper: [..], nginx: [..]
     * (master first), postmaster: [..], supervisor: [..]}. */
    pids() {
        const found = { worker: [], flusher: [], keeper: [], nginx: [], postmaster: [], supervisor: [] };
        const log = path.join(this.runDir, 'log') + path.sep;
        const postmaster = readNumber(path.join(this.runDir, 'postgres', 'data', 'postmaster.pid'));
        const nginx = readNumber(path.join(this.runDir, 'nginx.pid'));
        for (const name of fs.readdirSync('/proc')) {
            if (!/^\d+$/.test(name)) continue;
            const pid = Number(name);
            try {
                // stderr on one of the instance's log files makes a process the instance's.
                if (!fs.readlinkSync(`/proc/${pid}/fd/2`).startsWith(log)) continue;
                const program = path.basename(fs.readlinkSync(`/proc/${pid}/exe`).replace(/ \(deleted\)$/, ''));
                const command = fs.readFileSync(`/proc/${pid}/cmdline`, 'utf8');
                if (isZombie(pid)) continue;
                if (program === 'queen-worker') found.worker.push(pid);
                else if (program === 'queen-flusher') found.flusher.push(pid);
                else if (program === 'queen-keeper') found.keeper.push(pid);
                else if (program === 'nginx') pid === nginx ? found.nginx.unshift(pid) : found.nginx.push(pid);
                else if (pid === postmaster) found.postmaster.push(pid);
                else if (command.includes('supervise.sh')) found.supervisor.push(pid);
            } catch {
                // ended meanwhile, or another user's
            }
        }
        return found;
    }

    /* Runs SQL, resolves to the unaligned, tuples-only text without the last newline. */
    async psql(sql) {
        const target = this.env.QUEEN_DATABASE_URL || `host='${path.join(this.runDir, 'postgres')}' user=queen dbname=queen`;
        const out = await run('psql', ['-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', target, '-c', sql]);
        return out.replace(/\n$/, '');
    }

    /* queenctl with the instance's settings, as the instance's user. */
    queenctl(...args) {
        return run(path.join(this.runDir, 'bin', 'queenctl'), args);
    }

    /* The text of a log: worker, flusher, keeper, nginx, postgres. */
    log(name) {
        try {
            return fs.readFileSync(path.join(this.runDir, 'log', `${name}.log`), 'utf8');
        } catch {
            return '';
        }
    }

    up() {
        return run(queenScript, ['up'], { env: this.env });
    }

    down() {
        return run(queenScript, ['down'], { env: this.env });
    }

    /* Stops and removes an instance of one's own; leaves a shared one alone. QUEEN_TEST_KEEP=1 keeps
     * the run directory for a look at its logs. */
    async stop() {
        if (!this.owned) return;
        await this.down();
        if (process.env.QUEEN_TEST_KEEP) console.error(`kept: ${this.runDir}`);
        else fs.rmSync(this.runDir, { recursive: true, force: true });
    }
}

/* options: workers, env (settings of the programs), port (default: a free one), shared. */
export async function startInstance({ workers = 2, env = {}, port, shared = false } = {}) {
    if (shared && process.env.QUEEN_TEST_URL && process.env.QUEEN_TEST_RUN_DIR) {
        return new Instance({ url: process.env.QUEEN_TEST_URL, runDir: process.env.QUEEN_TEST_RUN_DIR, env: { ...process.env }, owned: false });
    }
    const inherited = { ...process.env };
    for (const name of PRIVATE_SETTINGS) delete inherited[name];
    const runDir = fs.realpathSync(fs.mkdtempSync(path.join(os.tmpdir(), 'queen-test-')));
    const chosen = port ?? (await freePort());
    const instance = new Instance({
        url: `http://127.0.0.1:${chosen}`,
        runDir,
        env: { ...inherited, QUEEN_RUN_DIR: runDir, QUEEN_PORT: String(chosen), QUEEN_BIND: '127.0.0.1', QUEEN_WORKERS: String(workers), ...env },
        owned: true,
    });
    try {
        await instance.up();
    } catch (error) {
        await instance.stop().catch(() => {});
        throw error;
    }
    return instance;
}

function readNumber(file) {
    try {
        return Number.parseInt(fs.readFileSync(file, 'utf8'), 10);
    } catch {
        return -1;
    }
}

function isZombie(pid) {
    const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
    return stat.slice(stat.lastIndexOf(')') + 2, stat.lastIndexOf(')') + 3) === 'Z';
}
