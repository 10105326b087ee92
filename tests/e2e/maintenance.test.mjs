// Push and pop maintenance, and the spool: pushes while PostgreSQL is down or while maintenance is on are
// `buffered`, survive SIGKILL of everything, and are delivered exactly once and in order afterwards.
import assert from 'node:assert/strict';
import fs from 'node:fs';
import path from 'node:path';
import { describe, it } from 'node:test';
import { checkout, run } from './lib/instance.mjs';
import { UUID_V7, assertError, sleep, unique, until, useQueen } from './lib/queen.mjs';

const script = path.join(checkout, 'deploy', 'private-postgres.sh');
const kill = (pid) => {
    try {
        process.kill(pid, 'SIGKILL');
    } catch (error) {
        if (error.code !== 'ESRCH') throw error; // it went with its parent
    }
};
const statuses = (answer) => answer.json.map((r) => r.status);
const range = (from, to) => Array.from({ length: to - from }, (_, i) => from + i);

describe('maintenance', () => {
    const c = useQueen({ workers: 2, env: { QUEEN_PUSH_SPOOL_AFTER_MS: '300', QUEEN_REQUEST_TIMEOUT_MS: '4000' } });
    const postgres = (what) => run(script, [what, c.instance.runDir], { env: c.instance.env });
    const set = (enabled, which = '') => c.queen.post(`/api/v1/system/maintenance${which}`, { enabled });
    const get = async (which = '') => (await c.queen.get(`/api/v1/system/maintenance${which}`)).json;
    const spool = () => fs.readdirSync(path.join(c.instance.runDir, 'spool')).filter((n) => n.endsWith('.spool'));

    const item = (queue, partition, n) => ({ queue, partition, transactionId: `${partition}-${n}`, payload: { n, text: ' é "x" ' } });

    /* One push with one message for each of three partitions. */
    async function pushOne(queue, n, status) {
        const answer = await c.queen.pushItems(['a', 'b', 'c'].map((p) => item(queue, p, n)));
        assert.equal(answer.status, 201, answer.text);
        assert.deepEqual(statuses(answer), [status, status, status], answer.text);
        for (const r of answer.json) assert.match(r.message_id, UUID_V7);
        return answer.json;
    }

    /* Takes everything until there are `count` messages and then nothing: by partition, in order. */
    async function takeAll(queue, count) {
        const found = {};
        let total = 0;
        const take = async (wait) => {
            const answer = await c.queen.pop(queue, { batch: 1000, partitions: 10, autoAck: true, ...(wait ? { wait: true, timeout: 1000 } : {}) }).catch(() => ({ status: 0 }));
            if (answer.status !== 200) return 0;
            for (const m of answer.json.messages) (found[m.partition] ??= []).push(m);
            total += answer.json.messages.length;
            return answer.json.messages.length;
        };
        await until(async () => {
            await take(true);
            return total >= count;
        }, `${count} messages of ${queue}, there are ${total}`, 60000);
        while (await take(false));
        return found;
    }

    function assertDelivered(found, pushed) {
        const ids = new Map(pushed.flat().map((r) => [r.transaction_id, r.message_id]));
        for (const p of ['a', 'b', 'c']) {
            assert.deepEqual(found[p].map((m) => m.transactionId), pushed.map((_, n) => `${p}-${n}`));
            assert.deepEqual(found[p].map((m) => m.data.n), pushed.map((_, n) => n));
            for (const m of found[p]) assert.equal(m.id, ids.get(m.transactionId));
        }
    }

    it('answers have exactly the keys and texts of the contract', async () => {
        const keys = ['maintenanceMode', 'popMaintenanceMode', 'bufferedMessages', 'bufferHealthy', 'bufferStats'];
        const off = await get();
        assert.deepEqual(Object.keys(off), keys);
        assert.deepEqual([off.maintenanceMode, off.popMaintenanceMode, off.bufferedMessages, off.bufferHealthy], [false, false, 0, true]);
        assert.deepEqual(off.bufferStats, { pendingCount: 0, failedCount: 0, dbHealthy: true, failedFiles: { count: 0, totalBytes: 0, totalMB: 0, failoverCount: 0, qos0Count: 0 } });
        const on = await set(true);
        assert.equal(on.status, 200);
        assert.deepEqual(Object.keys(on.json), [...keys, 'message']);
        assert.deepEqual([on.json.maintenanceMode, on.json.message], [true, 'Maintenance mode ENABLED. All PUSHes routing to file buffer.']);
        const again = await set(false);
        assert.deepEqual([again.json.maintenanceMode, again.json.message], [false, 'Maintenance mode DISABLED. Background processor will drain buffer to DB.']);
        assert.deepEqual(await get('/pop'), { popMaintenanceMode: false, message: 'Pop maintenance mode is OFF. Normal operation.' });
        assert.deepEqual((await set(true, '/pop')).json, { popMaintenanceMode: true, message: 'Pop maintenance mode ENABLED. All POP operations will return empty arrays.' });
        assert.deepEqual(await get('/pop'), { popMaintenanceMode: true, message: 'Pop maintenance mode is ON. All POP operations return empty arrays.' });
        assert.deepEqual((await set(false, '/pop')).json, { popMaintenanceMode: false, message: 'Pop maintenance mode DISABLED. Normal operation resumed.' });
    });

    it('bad bodies are refused and change nothing', async () => {
        for (const which of ['', '/pop']) {
            const target = `/api/v1/system/maintenance${which}`;
            assertError(await c.queen.post(target, '{}'), 400, /^enabled \(boolean\) is required$/);
            assertError(await c.queen.post(target, '{"enabled":null}'), 400, /^enabled \(boolean\) is required$/);
            for (const body of ['', '{', '[]', '{"enabled":"yes"}', '{"enabled":1}', '{"enabled":true,"enabled":false}'])
                assertError(await c.queen.post(target, body), 400, /^bad body: /);
            assert.equal((await c.queen.request('DELETE', target)).status, 405);
        }
        assert.deepEqual([(await get()).maintenanceMode, (await get()).popMaintenanceMode], [false, false]);
    });

    it('push maintenance: buffered on every worker, not in the log, drained in order when it ends', async () => {
        const queue = unique('m');
        await set(true);
        const pushed = [];
        for (const n of range(0, 40)) pushed.push(await pushOne(queue, n, 'buffered'));
        await until(async () => (await get()).bufferedMessages === 120, 'the count of buffered messages');
        assert.equal(await c.instance.psql(`select count(*) from queen.queues where name = '${queue}'`), '0');
        await sleep(600); // several rounds of the keeper: they must not drain
        assert.equal((await get()).bufferStats.pendingCount, 120);
        assert.equal((await c.queen.pop(queue)).status, 204);
        await set(false);
        assertDelivered(await takeAll(queue, 120), pushed);
        await until(async () => (await get()).bufferedMessages === 0 && spool().length === 0, 'an empty spool');
        await pushOne(queue, 40, 'queued');
    });

    it('a parked pop gets what is drained', async () => {
        const queue = unique('m');
        await set(true);
        await pushOne(queue, 0, 'buffered');
        const parked = c.queen.pop(queue, { wait: true, timeout: 20000, partitions: 3 });
        await sleep(200);
        await set(false);
        const answer = await parked;
        assert.equal(answer.status, 200);
    });

    it('a replay beside duplicates stores what is new, with the dedup window on and off', async () => {
        for (const [window, expected] of [[3600, ['a-0', 'a-1', 'a-2']], [0, ['a-0', 'a-0', 'a-1', 'a-0', 'a-2']]]) {
            const queue = unique('m');
            await c.queen.configure(queue, { dedupWindowSeconds: window });
            await c.queen.push(queue, ['a-0'], 'a');
            await set(true);
            for (const ids of [['a-0', 'a-1'], ['a-0'], ['a-2']])
                assert.deepEqual(statuses(await c.queen.pushItems(ids.map((t) => ({ queue, partition: 'a', transactionId: t, payload: t })))), ids.map(() => 'buffered'));
            await set(false);
            const found = await takeAll(queue, expected.length);
            assert.deepEqual(found.a.map((m) => m.transactionId), expected);
        }
    });

    it('a repeat inside a request reports the first one', async () => {
        const queue = unique('m');
        await set(true);
        const answer = await c.queen.pushItems([item(queue, 'a', 0), item(queue, 'a', 0)]);
        assert.deepEqual(statuses(answer), ['buffered', 'buffered']);
        assert.equal(answer.json[0].message_id, answer.json[1].message_id);
        await set(false);
        assert.equal((await takeAll(queue, 1)).a.length, 1);
    });

    it('pop maintenance: 204 at once, parked pops of every worker too, and back', async () => {
        const queue = unique('m');
        const parked = range(0, 20).map(() => c.queen.pop(queue, { wait: true, timeout: 60000 }));
        await until(async () => (await c.queen.counters()).pop_parked >= 20, 'parked pops');
        await set(true, '/pop');
        for (const answer of await Promise.all(parked)) assert.equal(answer.status, 204);
        await c.queen.push(queue, ['t1']);
        for (const answer of await Promise.all(range(0, 20).map(() => c.queen.pop(queue, { wait: true, timeout: 60000 })))) assert.equal(answer.status, 204);
        assert.equal((await c.queen.popPartition(queue, 'Default')).status, 204);
        assert.equal((await c.queen.popDiscover({ namespace: 'x' })).status, 204);
        await set(false, '/pop');
        await c.queen.take(queue, ['t1']);
    });

    it('what another host has switched arrives', async () => {
        const queue = unique('m');
        const parked = c.queen.pop(queue, { wait: true, timeout: 60000 });
        await c.instance.psql("select from queen.maintenance_set_v1('pop_maintenance_mode', true)");
        assert.equal((await parked).status, 204);
        await c.instance.psql("select from queen.maintenance_set_v1('maintenance_mode', true)");
        await until(async () => statuses(await c.queen.pushItems([{ queue, payload: 1 }]))[0] === 'buffered', 'buffered');
        await c.instance.psql("update queen.system_state set value = '{\"enabled\": false}' where key like '%maintenance_mode'");
        await until(async () => statuses(await c.queen.pushItems([{ queue, payload: 1 }]))[0] === 'queued', 'queued');
        await until(async () => (await c.queen.pop(queue)).status === 200, 'a message');
    });

    it('PostgreSQL down: buffered, SIGKILL of everything, each delivered once and in order', { timeout: 180000 }, async () => {
        const queue = unique('m');
        const pushed = [await pushOne(queue, 0, 'queued')];
        await postgres('stop');
        for (const n of range(1, 6)) pushed.push(await pushOne(queue, n, 'buffered'));
        const state = await get();
        assert.deepEqual([state.maintenanceMode, state.bufferStats.dbHealthy], [false, false]);
        const pids = c.instance.pids();
        for (const kind of ['supervisor', 'keeper', 'worker', 'flusher', 'nginx']) pids[kind].forEach(kill);
        await until(() => Object.values(c.instance.pids()).every((list) => list.length === 0), 'everything is gone');
        assert.ok(spool().length > 0);
        // What a write that was cut short leaves behind.
        for (const name of spool()) fs.appendFileSync(path.join(c.instance.runDir, 'spool', name), Buffer.from([0xf1, 0x51, 0x53, 0x52, 200, 0, 0, 0, 1]));
        await c.instance.up();
        assertDelivered(await takeAll(queue, 18), pushed);
        await until(() => spool().length === 0, 'an empty spool');
        assert.equal((await get()).bufferStats.failedCount, 0);
    });

    it('a push that was sent and not settled by its deadline: 503 timeout, and its repeat is delivered once', { timeout: 60000 }, async () => {
        const queue = unique('m');
        await c.queen.push(queue, ['a-0'], 'a');
        const held = c.instance.psql(`begin; select 1 from queen.log_partitions p join queen.queues q on q.id = p.queue_id
            where q.name = '${queue}' for update of p; select pg_sleep(6); commit`);
        const locked = `select count(*) from pg_stat_activity where query like '%for update of p; select pg_sleep%' and wait_event = 'PgSleep'`;
        await until(async () => (await c.instance.psql(locked)) === '1', 'the partition is locked');
        const items = [item(queue, 'a', 1), item(queue, 'a', 2)];
        const answer = await c.queen.pushItems(items);
        assert.equal(answer.status, 503, answer.text);
        assert.equal(answer.json.code, 'timeout');
        await held;
        assert.equal((await c.queen.pushItems(items)).status, 201);
        assert.deepEqual((await takeAll(queue, 3)).a.map((m) => m.transactionId), ['a-0', 'a-1', 'a-2']);
    });

    it('the keeper is killed again and again while it drains: each once, without a dedup window', { timeout: 180000 }, async () => {
        const queue = unique('m'), count = 300;
        await c.queen.configure(queue, { dedupWindowSeconds: 0 });
        await set(true);
        // The same id every time: nothing but the journal tells what is stored, and each is a batch of its own.
        for (const n of range(0, count)) {
            const answer = await c.queen.pushItems([{ queue, partition: 'a', transactionId: 'same', payload: n }]);
            assert.deepEqual(statuses(answer), ['buffered']);
        }
        await set(false);
        const stored = async () => Number(await c.instance.psql(`select coalesce(sum(p.last_offset + 1), 0) from queen.log_partitions p join queen.queues q on q.id = p.queue_id where q.name = '${queue}'`));
        for (let kills = 0, before = 0; kills < 10; kills++) {
            await until(async () => (await stored()) > before, 'the drain goes on');
            c.instance.pids().keeper.forEach(kill);
            before = await stored();
            if (before >= count) break;
            await until(() => c.instance.pids().keeper.length === 1, 'a keeper');
        }
        await until(() => spool().length === 0, 'an empty spool', 60000);
        const found = await takeAll(queue, count);
        assert.deepEqual(found.a.map((m) => m.data), range(0, count));
    });

    it('damage in the middle and what PostgreSQL refuses hold nothing up', { timeout: 60000 }, async () => {
        const queue = unique('m');
        await c.instance.psql(`create function public.refuse() returns trigger language plpgsql as $$ begin raise exception 'no' using errcode = '22023'; end $$;
            create trigger refuse before insert on queen.log_partitions for each row when (new.name = 'poison') execute function public.refuse()`);
        await set(true);
        const failed = (await get()).bufferStats.failedCount;
        for (const n of range(0, 5)) {
            const items = ['a', 'poison', 'b'].map((p) => item(queue, p, n));
            assert.deepEqual(statuses(await c.queen.pushItems(items)), items.map(() => 'buffered'));
        }
        await sleep(1500); // the files are ended
        const directory = path.join(c.instance.runDir, 'spool');
        const hurt = spool().map((name) => path.join(directory, name)).find((name) => fs.readFileSync(name).includes('a-2'));
        const bytes = fs.readFileSync(hurt);
        bytes[bytes.indexOf('a-2')] = 0x58;
        fs.writeFileSync(hurt, bytes);
        c.instance.pids().keeper.forEach(kill); // it has read the file ahead
        await until(() => c.instance.pids().keeper.length === 1, 'a keeper');
        await set(false);
        const found = await takeAll(queue, 9);
        assert.deepEqual(found.a.map((m) => m.transactionId), ['a-0', 'a-1', 'a-3', 'a-4']);
        assert.deepEqual(found.b.map((m) => m.transactionId), range(0, 5).map((n) => `b-${n}`));
        assert.equal(found.poison, undefined);
        await until(() => spool().length === 0, 'an empty spool');
        await until(async () => (await get()).bufferStats.failedCount > failed + 1, 'files put aside');
        const aside = fs.readdirSync(path.join(directory, 'failed')).map((name) => fs.readFileSync(path.join(directory, 'failed', name)));
        for (const n of range(0, 5)) assert.ok(aside.some((file) => file.includes(`poison-${n}`)));
        await c.instance.psql('drop trigger refuse on queen.log_partitions; drop function public.refuse()');
    });

    it('a spool that cannot be written: failed, 500 in maintenance mode', async () => {
        const queue = unique('m');
        const directory = path.join(c.instance.runDir, 'spool');
        await sleep(1500); // the files in use are ended
        await until(() => spool().length === 0, 'an empty spool');
        await set(true);
        fs.renameSync(directory, `${directory}.away`);
        try {
            const answer = await c.queen.pushItems([item(queue, 'a', 0), item(queue, 'b', 0)]);
            assert.equal(answer.status, 500, answer.text);
            assert.deepEqual(statuses(answer), ['failed', 'failed']);
            for (const r of answer.json) assert.ok(typeof r.error === 'string' && r.error !== '');
            await until(async () => (await get()).bufferHealthy === false, 'not healthy');
        } finally {
            fs.renameSync(`${directory}.away`, directory);
        }
        assert.deepEqual(statuses(await c.queen.pushItems([item(queue, 'a', 1)])), ['buffered']);
        await set(false);
        assert.deepEqual((await takeAll(queue, 1)).a.map((m) => m.transactionId), ['a-1']);
    });
});
