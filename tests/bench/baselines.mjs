// What to compare with, measured on the same machine in the same run: nginx alone, nginx with a FastCGI
// worker that does nothing, one-row durable updates, and a SKIP LOCKED table queue in SQL.
import { execFile, spawn } from 'node:child_process';
import fs from 'node:fs';
import os from 'node:os';
import path from 'node:path';
import { promisify } from 'node:util';
import { checkout, freePort } from '../e2e/lib/instance.mjs';
import { generate } from './measure.mjs';

const build = process.env.QUEEN_BUILD_DIR || path.join(checkout, 'build');
const sleep = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

/* nginx with the settings of our template that matter here, its constant answer and null workers. */
export async function httpCeilings(seconds) {
    const dir = fs.mkdtempSync(path.join(os.tmpdir(), 'queen-baseline-'));
    const port = await freePort();
    fs.writeFileSync(path.join(dir, 'nginx.conf'), `
daemon off; worker_processes auto; pid ${dir}/nginx.pid; error_log ${dir}/error.log;
events { worker_connections 4096; }
http {
    access_log off; keepalive_requests 100000000; tcp_nodelay on;
    client_body_temp_path ${dir}/b; fastcgi_temp_path ${dir}/f; proxy_temp_path ${dir}/p; uwsgi_temp_path ${dir}/u; scgi_temp_path ${dir}/s;
    upstream workers { server unix:${dir}/null.sock; keepalive 256; keepalive_requests 1000000000; }
    server {
        listen 127.0.0.1:${port};
        location /constant { default_type application/json; return 200 '{"status":"ok"}'; }
        location /null {
            fastcgi_pass workers; fastcgi_keep_conn on; fastcgi_pass_request_headers off;
            fastcgi_param REQUEST_METHOD $request_method; fastcgi_param REQUEST_URI $request_uri; fastcgi_param CONTENT_LENGTH $content_length;
        }
    }
}`);
    const children = [
        spawn('spawn-fcgi', ['-n', '-s', path.join(dir, 'null.sock'), '-M', '0666', '--', '/usr/bin/multiwatch', '-f', '2', '--', path.join(build, 'bin', 'null-worker')], { stdio: 'ignore' }),
        spawn('/usr/sbin/nginx', ['-c', path.join(dir, 'nginx.conf'), '-p', dir], { stdio: 'ignore' }),
    ];
    fs.chmodSync(dir, 0o755);
    try {
        await sleep(1500);
        const ask = (target) => generate(['--port', port, '--scenario', 'get', '--target', target, '--connections', 64, '--seconds', seconds]);
        return { constant: (await ask('/constant')).get, nullFcgi: (await ask('/null')).get };
    } finally {
        for (const child of children) child.kill('SIGTERM');
        await sleep(500);
        fs.rmSync(dir, { recursive: true, force: true });
    }
}

async function pgbench(instance, name, script, clients, seconds) {
    const file = path.join(os.tmpdir(), `queen-${process.pid}-${name}.sql`);
    fs.writeFileSync(file, script);
    try {
        const binary = fs.readdirSync('/usr/lib/postgresql').map((v) => `/usr/lib/postgresql/${v}/bin/pgbench`).filter((f) => fs.existsSync(f)).pop();
        const { stdout } = await promisify(execFile)(binary, ['-n', '-M', 'prepared', '-f', file, '-c', clients, '-j', 2, '-T', seconds, '-h', path.join(instance.runDir, 'postgres'), '-U', 'queen', 'queen'].map(String));
        return Number(/tps = ([\d.]+) \(without/.exec(stdout)[1]);
    } finally {
        fs.rmSync(file);
    }
}

/* Statements straight to the instance's own PostgreSQL, without HTTP. */
export async function sqlBaselines(instance, seconds) {
    await instance.psql(`
        drop schema if exists baseline cascade; create schema baseline;
        create table baseline.rows (id int primary key, n bigint not null) with (fillfactor = 50);
        insert into baseline.rows select i, 0 from generate_series(1, 10000) i;
        create table baseline.queue (id bigserial primary key, vt timestamptz not null default clock_timestamp(), message jsonb not null);
        create index on baseline.queue (vt);`);
    const one = '\\set id random(1, 10000)\nupdate baseline.rows set n = n + 1 where id = :id;\n';
    const send = (n) => `insert into baseline.queue (message) select '{"t":1,"f":"${'x'.repeat(100)}"}'::jsonb from generate_series(1, ${n});\n`;
    const result = {};
    result.durableUpdate = await pgbench(instance, 'update', one, 64, seconds);
    result.send1 = await pgbench(instance, 'send1', send(1), 64, seconds);
    result.send100 = 100 * (await pgbench(instance, 'send100', send(100), 16, seconds));
    // A read and a delete are two transactions, as a consumer makes them.
    const readDelete = (n) => `with m as (select id from baseline.queue where vt <= clock_timestamp() order by id limit ${n} for update skip locked) update baseline.queue q set vt = clock_timestamp() + interval '30 seconds' from m where q.id = m.id;\nwith m as (select id from baseline.queue where vt > clock_timestamp() order by id limit ${n} for update skip locked) delete from baseline.queue q using m where q.id = m.id;\n`;
    result.read1 = await pgbench(instance, 'read1', readDelete(1), 16, seconds);
    await instance.psql(`truncate baseline.queue; insert into baseline.queue (message) select '{"t":1,"f":"${'x'.repeat(100)}"}' from generate_series(1, 2000000)`);
    result.read100 = 100 * (await pgbench(instance, 'read100', readDelete(100), 16, seconds));
    await instance.psql('drop schema baseline cascade');
    return result;
}
