// make bench: every scenario on an instance of its own, with baselines in the same run, to
// docs/performance.md. QUEEN_BENCH_SECONDS (5) a step; QUEEN_BENCH_ONLY=a,c runs a part and prints only.
import { execFileSync } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { checkout, startInstance } from '../e2e/lib/instance.mjs';
import { httpCeilings, sqlBaselines } from './baselines.mjs';
import { measure } from './measure.mjs';

const seconds = Number(process.env.QUEEN_BENCH_SECONDS || 5);
const only = process.env.QUEEN_BENCH_ONLY?.split(',');
const wanted = (name) => !only || only.includes(name);
const rows = [];
const ratios = [];

function row(name, m, steps) {
    for (const step of steps) {
        const f = m.load[step];
        if (!f) continue;
        const operations = f.msgs_per_s * m.seconds || f.ops_per_s * m.seconds;
        const per1000 = (part) => ((m.cpu[part] * m.seconds * 1000) / operations).toFixed(2);
        rows.push([name, step, f.ops_per_s, f.msgs_per_s, f.p50_ms, f.p99_ms, f.p999_ms, per1000('nginx'), per1000('worker'), per1000('flusher'),
            per1000('postgres'), (m.commits / operations).toFixed(3), m.rowsPerCommit.toFixed(1),
            Math.round(m.memory.nginx + m.memory.worker), m.load.loadgen.cpu_share]);
        console.log(rows.at(-1).join(' | '));
    }
    return m;
}

function ratio(what, value, target) {
    ratios.push([what, value, target]);
    console.log(`${what}: ${value} (target ${target})`);
}

async function onInstance(options, body) {
    const instance = await startInstance({ workers: 2, ...options });
    try {
        return await body(instance);
    } finally {
        await instance.stop();
    }
}

const step = { seconds, warmup: 2 };
let prefix = 0;
const fresh = () => `bench${process.pid}x${prefix++}`;

/* Fills `partitions` partitions, then measures consumers that empty them. */
async function drain(instance, name, options, fill) {
    const mine = fresh();
    await measure(instance, { scenario: 'push', connections: 32, prefix: mine, partitions: options.partitions, ...fill });
    return row(name, await measure(instance, { scenario: 'drain', prefix: mine, ...options, seconds, warmup: 0 }), ['pop', 'ack']);
}

let ceilings = null;
let sql = null;
if (wanted('baselines')) ceilings = await httpCeilings(seconds);
await onInstance({}, async (instance) => {
    if (wanted('baselines')) sql = await sqlBaselines(instance, seconds);
    if (wanted('a')) {
        const a = row('a: push 1', await measure(instance, { scenario: 'push', connections: 64, partitions: 100, prefix: fresh(), ...step }), ['push']);
        if (ceilings) {
            ratio('null FastCGI / nginx constant', (ceilings.nullFcgi.ops_per_s / ceilings.constant.ops_per_s).toFixed(2), '0.45');
            ratio('push 1 / null FastCGI', (a.load.push.ops_per_s / ceilings.nullFcgi.ops_per_s).toFixed(2), '0.35');
            ratio('push 1 / durable one-row update', (a.load.push.ops_per_s / sql.durableUpdate).toFixed(2), '2.5');
        }
        ratio('push 1, per second', a.load.push.ops_per_s, '15000');
    }
    if (wanted('b')) {
        const b = row('b: push 100', await measure(instance, { scenario: 'push', connections: 64, messages: 100, partitions: 100, prefix: fresh(), ...step }), ['push']);
        if (sql) ratio('push 100 / table queue insert of 100', (b.load.push.msgs_per_s / sql.send100).toFixed(2), '2');
        ratio('push 100, msg/s', b.load.push.msgs_per_s, '300000');
    }
    if (wanted('c')) {
        const c = row('c: cycle thin, 100 queues', await measure(instance, { scenario: 'cycle', queues: 100, connections: 64, batch: 100, prefix: fresh(), ...step }), ['push', 'pop', 'ack', 'delivery']);
        ratio('cycle thin, msg/s', c.load.delivery.msgs_per_s, '5000');
        ratio('cycle thin, commits per delivered message', (c.commits / (c.load.delivery.msgs_per_s * c.seconds)).toFixed(2), '0.2');
        row('c: cycle thin at 1000 msg/s', await measure(instance, { scenario: 'cycle', queues: 100, connections: 64, rate: 1000, prefix: fresh(), ...step }), ['delivery']);
    }
    if (wanted('d')) {
        const one = await drain(instance, 'd: pop+ack batch 1, 100 partitions', { connections: 64, batch: 1, partitions: 100 }, { messages: 100, seconds: 3, warmup: 0 });
        const hundred = await drain(instance, 'd: pop+ack batch 100, 100 partitions', { connections: 64, batch: 100, partitions: 100 }, { messages: 100, seconds: 6, warmup: 0 });
        ratio('pop+ack batch 1, cycles/s', one.load.ack?.ops_per_s, '5000');
        ratio('pop+ack batch 100, msg/s', hundred.load.ack?.msgs_per_s, '200000');
        if (sql) {
            ratio('pop+ack batch 1 / table queue', (one.load.ack?.ops_per_s / sql.read1).toFixed(2), '1.5');
            ratio('pop+ack batch 100 / table queue', (hundred.load.ack?.msgs_per_s / sql.read100).toFixed(2), '4');
        }
    }
    if (wanted('f')) for (const rate of [20, 200, 2000])
        row(`f: end to end at ${rate} msg/s`, await measure(instance, { scenario: 'cycle', queues: 20, connections: 20, rate, prefix: fresh(), ...step }), ['delivery']);
    if (wanted('i')) {
        const mine = fresh();
        for (let q = 0; q < 1; q++) await instance.psql(`select queen.configure_v1('${mine}-0', '{"options":{"dedupWindowSeconds":0}}')`);
        row('i: push 1, dedup off', await measure(instance, { scenario: 'push', connections: 64, partitions: 100, prefix: mine, ...step }), ['push']);
    }
    if (wanted('j')) for (const payload of [1000, 100000])
        row(`j: push 1, payload ${payload} B`, await measure(instance, { scenario: 'push', connections: 32, partitions: 100, payload, prefix: fresh(), ...step }), ['push']);
});
if (wanted('e')) {
    for (const [name, env] of [['fused', {}], ['QUEEN_ACK_FUSION=0', { QUEEN_ACK_FUSION: '0' }], ['QUEEN_ACK_REGISTRY=0', { QUEEN_ACK_REGISTRY: '0' }]]) {
        await onInstance({ env }, (instance) => drain(instance, `e: 128 consumers, batch 1, ${name}`, { connections: 128, batch: 1, partitions: 200 }, { messages: 100, seconds: 3, warmup: 0 }));
    }
}
if (wanted('g')) {
    for (const n of [1000, 5000]) await onInstance({}, async (instance) => {
        const m = await measure(instance, { scenario: 'park', connections: n, queues: 100, prefix: fresh(), seconds: 10, warmup: 5 });
        const cores = m.cpu.nginx + m.cpu.worker + m.cpu.flusher + m.cpu.keeper + m.cpu.postgres;
        ratio(`${n} parked consumers: cores (with their arrival), MiB of nginx and workers`, `${cores.toFixed(3)}, ${Math.round(m.memory.nginx + m.memory.worker)}`, '0.02, 150');
    });
}
if (wanted('h')) {
    for (const n of [100, 10000, 100000]) await onInstance({}, async (instance) => {
        const mine = fresh();
        await instance.psql(`select queen.log_provision_v1(array_fill('${mine}-0'::text, array[${n}]), (select array_agg('x' || i) from generate_series(1, ${n}) i)); analyze`);
        row(`h: cycle, ${n} partitions, 100 active`, await measure(instance, { scenario: 'cycle', queues: 1, connections: 16, partitions: 100, rate: 500, prefix: mine, ...step }), ['pop', 'delivery']);
    });
}
if (wanted('k')) for (const workers of [1, 2, 4])
    await onInstance({ workers }, async (instance) => row(`k: push 1, ${workers} workers`, await measure(instance, { scenario: 'push', connections: 64, partitions: 100, prefix: fresh(), ...step }), ['push']));

if (!only) {
    const cpu = os.cpus();
    const head = ['scenario', 'step', 'requests/s', 'msg/s', 'p50 ms', 'p99 ms', 'p99.9 ms', 'nginx', 'workers', 'flusher', 'PostgreSQL', 'commits/msg', 'rows/commit', 'MiB', 'generator'];
    const table = (header, lines) => [header, header.map(() => '---'), ...lines].map((l) => `| ${l.join(' | ')} |`).join('\n');
    fs.writeFileSync(path.join(checkout, 'docs', 'performance.md'), `# Performance

Measured by \`make bench\` on ${new Date().toISOString().slice(0, 10)}: ${cpu.length} x ${cpu[0].model}, Linux ${os.release()}, ${execFileSync('postgres', ['--version'], { encoding: 'utf8', env: { PATH: `${process.env.PATH}:/usr/lib/postgresql/15/bin` } }).trim()},
${execFileSync('/bin/sh', ['-c', '/usr/sbin/nginx -v 2>&1'], { encoding: 'utf8' }).trim()}; durable commits (fsync, synchronous_commit on); 2 workers unless said; the generator shares the machine. ${seconds} s a step.
Figures on shared machines vary: ratios of one run say more than absolute numbers.

nginx, workers, flusher, PostgreSQL: processor seconds per 1,000 messages. MiB: nginx and workers together. generator: its own share of a core.

${table(head, rows)}

## Against the targets

${table(['what', 'measured', 'target at least'], ratios)}

## Baselines of the same run

${table(['what', 'per second'], [['nginx, constant answer', ceilings.constant.ops_per_s], ['nginx + null FastCGI worker', ceilings.nullFcgi.ops_per_s],
    ['pgbench, one-row durable update, 64 clients', Math.round(sql.durableUpdate)], ['table queue, insert 1, 64 clients', Math.round(sql.send1)], ['table queue, insert 100, messages', Math.round(sql.send100)],
    ['table queue, read + delete 1', Math.round(sql.read1)], ['table queue, read + delete 100, messages', Math.round(sql.read100)]])}
`);
}
