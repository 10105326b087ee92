// One measured run: the load generator, the processor time of each part, what PostgreSQL committed.
import { execFileSync, spawn } from 'node:child_process';
import fs from 'node:fs';
import path from 'node:path';
import { checkout } from '../e2e/lib/instance.mjs';

export const loadgen = path.join(process.env.QUEEN_BUILD_DIR || path.join(checkout, 'build'), 'bin', 'loadgen');
const TICKS = Number(execFileSync('getconf', ['CLK_TCK'], { encoding: 'utf8' }));

/* Processor seconds and resident bytes of a process; null when it is gone. */
function usage(pid) {
    try {
        const stat = fs.readFileSync(`/proc/${pid}/stat`, 'utf8');
        const fields = stat.slice(stat.lastIndexOf(')') + 2).split(' ');
        const rollup = fs.readFileSync(`/proc/${pid}/smaps_rollup`, 'utf8');
        return {
            cpu: (Number(fields[11]) + Number(fields[12])) / TICKS,
            pss: Number(/^Pss:\s+(\d+)/m.exec(rollup)?.[1] ?? 0) * 1024,
        };
    } catch {
        return null;
    }
}

/* PostgreSQL's backends are children of the postmaster. */
function children(parent) {
    const found = [];
    for (const name of fs.readdirSync('/proc')) {
        if (!/^\d+$/.test(name)) continue;
        try {
            const stat = fs.readFileSync(`/proc/${name}/stat`, 'utf8');
            if (Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1]) === parent) found.push(Number(name));
        } catch {
            // ended meanwhile
        }
    }
    return found;
}

/* {nginx, worker, flusher, keeper, postgres}: {cpu, pss} summed over the processes of each part. */
export function parts(instance) {
    const pids = instance.pids();
    const groups = {
        nginx: pids.nginx,
        worker: pids.worker,
        flusher: pids.flusher,
        keeper: pids.keeper,
        postgres: pids.postmaster.flatMap((pid) => [pid, ...children(pid)]),
    };
    const sum = {};
    for (const [name, list] of Object.entries(groups)) {
        sum[name] = { cpu: 0, pss: 0 };
        for (const pid of list) {
            const u = usage(pid);
            if (u) for (const key of ['cpu', 'pss']) sum[name][key] += u[key];
        }
    }
    return sum;
}

async function database(instance) {
    const text = await instance.psql(
        `select json_build_object('commits', xact_commit, 'wal_bytes', (select wal_bytes from pg_stat_wal)) from pg_stat_database where datname = current_database()`);
    return JSON.parse(text);
}

async function counters(instance) {
    return JSON.parse(await instance.queenctl('status', '--json')).counters;
}

function parse(text) {
    const result = {};
    for (const line of text.trim().split('\n')) {
        const [name, ...pairs] = line.split(' ');
        result[name] = Object.fromEntries(pairs.map((p) => [p.split('=')[0], Number(p.split('=')[1])]));
    }
    return result;
}

export function generate(args) {
    return new Promise((resolve, reject) => {
        const child = spawn(loadgen, args.map(String), { stdio: ['ignore', 'pipe', 'inherit'] });
        let out = '';
        child.stdout.on('data', (part) => (out += part));
        child.on('error', reject);
        child.on('close', (code) => (code === 0 ? resolve(parse(out)) : reject(new Error(`loadgen ended with ${code}`))));
    });
}

/* Runs the load generator with the options and returns its figures with the differences of processor
 * time, commits and counters over the run. */
export async function measure(instance, options) {
    const args = Object.entries({ port: instance.port, ...options }).flatMap(([k, v]) => [`--${k}`, v]);
    const before = { parts: parts(instance), db: await database(instance), counters: await counters(instance) };
    const started = process.hrtime.bigint();
    const load = await generate(args);
    const seconds = Number(process.hrtime.bigint() - started) / 1e9;
    const after = { parts: parts(instance), db: await database(instance), counters: await counters(instance) };
    const cpu = {};
    const memory = {};
    for (const name of Object.keys(after.parts)) {
        cpu[name] = (after.parts[name].cpu - before.parts[name].cpu) / seconds; // cores
        memory[name] = after.parts[name].pss / (1 << 20); // MiB
    }
    const count = (name) => after.counters[name] - before.counters[name];
    return {
        load,
        seconds,
        cpu,
        memory,
        commits: after.db.commits - before.db.commits,
        walBytes: after.db.wal_bytes - before.db.wal_bytes,
        count,
        rowsPerCommit: count('flusher_rows') / Math.max(1, count('flusher_commits')),
    };
}

export function describe(m) {
    const steps = ['push', 'pop', 'ack', 'delivery'].filter((s) => m.load[s]);
    const figures = steps.map((s) => `${s} ${m.load[s].ops_per_s}/s (${m.load[s].msgs_per_s} msg/s) p50 ${m.load[s].p50_ms} ms p99 ${m.load[s].p99_ms} ms`);
    const cores = Object.entries(m.cpu).map(([k, v]) => `${k} ${v.toFixed(2)}`);
    return `${figures.join(', ')}; rows_per_commit ${m.rowsPerCommit.toFixed(1)}; cores: ${cores.join(' ')} loadgen ${m.load.loadgen.cpu_share}; errors ${m.load.loadgen.errors}`;
}
