// Key/value against a small model: random operations, every answer compared. 10,000 of them straight
// in SQL with a clock of the test's own (so that keys expire), 2,000 over HTTP.
import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import path from 'node:path';
import readline from 'node:readline';
import { it } from 'node:test';
import { unique, useQueen } from './lib/queen.mjs';

const c = useQueen();

/* A small generator with a seed, so that a failure can be repeated. */
function random(seed) {
    let a = seed >>> 0;
    const next = () => {
        a = (a + 0x6d2b79f5) | 0;
        let t = Math.imul(a ^ (a >>> 15), 1 | a);
        t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
        return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
    };
    const below = (n) => Math.floor(next() * n);
    return { below, chance: (p) => next() < p, pick: (list) => list[below(list.length)] };
}

/* What the store must do, written the plain way. now in seconds. */
class Model {
    constructor() {
        this.keys = new Map();
        this.lastVersion = 0;
    }

    live(name, now) {
        const entry = this.keys.get(name);
        return entry && (entry.expires === null || entry.expires > now) ? entry : undefined;
    }

    /* Checks results of one call, in the order in which it is applied; takes versions from them. */
    check(ops, results, now) {
        const many = (op) => op.op === 'getMany' || op.op === 'getPrefix';
        const order = ops.map((op, i) => [op, i]).sort(([a, i], [b, k]) =>
            many(a) - many(b) || (many(a) ? 0 : Buffer.compare(Buffer.from(`${a.ns}\0${a.key}`), Buffer.from(`${b.ns}\0${b.key}`))) || i - k);
        for (const [op, i] of order) assert.deepEqual(this.plain(op, results[i], now), this.expected(op, results[i], now), JSON.stringify({ op, now }));
    }

    /* A result without what the model does not know. */
    plain(op, result) {
        const row = (r) => ({ key: r.key, value: r.value, version: r.version });
        if (op.op === 'get') return result.found ? { found: true, ...row(result) } : { found: false };
        if (result.rows) return { ...result, op: undefined, rows: result.rows.map(row) };
        return { ...result, op: undefined };
    }

    expected(op, result, now) {
        const row = ([name, e]) => ({ key: name.split('\0')[1], value: e.value, version: e.version });
        const name = `${op.ns}\0${op.key}`;
        const entry = this.live(name, now);
        switch (op.op) {
        case 'get':
            return entry ? { found: true, ...row([name, entry]) } : { found: false };
        case 'getMany': {
            const wanted = [...new Set(op.keys)];
            const found = wanted.filter((k) => this.live(`${op.ns}\0${k}`, now)).sort((a, b) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
            return {
                op: undefined, truncated: false, missing: wanted.filter((k) => !found.includes(k)),
                rows: found.map((k) => row([`${op.ns}\0${k}`, this.live(`${op.ns}\0${k}`, now)])),
            };
        }
        case 'getPrefix': {
            const all = [...this.keys].filter(([n]) => n.startsWith(`${op.ns}\0${op.prefix}`) && this.live(n, now))
                .sort(([a], [b]) => Buffer.compare(Buffer.from(a), Buffer.from(b))).filter(([n]) => !op.after || n > `${op.ns}\0${op.after}`);
            const page = all.slice(0, op.limit);
            const truncated = all.length > page.length;
            return { op: undefined, truncated, rows: page.map(row), nextAfter: truncated ? row(page.at(-1)).key : null };
        }
        default:
            return this.write(op, name, entry, result, now);
        }
    }

    write(op, name, entry, result, now) {
        const expect = op.op === 'putIfAbsent' ? 0 : op.expect;
        const sum = (entry?.value ?? 0) + op.delta;
        const lost = (reason) => ({ op: undefined, applied: false, key: op.key, value: entry ? entry.value : null, version: entry ? entry.version : 0, reason });
        if (expect === 0 && entry) return lost('exists');
        if (expect > 0 && !entry) return lost('absent');
        if (expect > 0 && entry.version !== expect) return lost('version');
        if (op.op === 'delete') {
            if (!entry && expect === undefined) return lost('absent');
            if (entry) this.keys.delete(name);
            return { op: undefined, applied: true, key: op.key, value: entry ? entry.value : null, version: entry ? entry.version : 0 };
        }
        if (op.op === 'incr' && entry && typeof entry.value !== 'number') return lost('type');
        if (op.op === 'incr' && ((op.min !== undefined && sum < op.min) || (op.max !== undefined && sum > op.max))) return lost('limit');
        assert.ok(result.version > this.lastVersion, `version ${result.version} after ${this.lastVersion}`);
        this.lastVersion = result.version;
        const value = op.op === 'incr' ? sum : op.value;
        const expires = op.op === 'incr' && entry ? entry.expires : op.forever ? null : now + op.ttlSeconds;
        this.keys.set(name, { value, version: result.version, expires });
        return { op: undefined, applied: true, key: op.key, value, version: result.version };
    }
}

/* Some operations for one call; no key is written twice. */
function operations(rnd, model, spaces, ttls) {
    const key = () => rnd.pick(['a', 'b', 'a/1', 'a/2', 'a/\u00e9', 'B', 'c']);
    const written = new Set();
    return Array.from({ length: 1 + rnd.below(7) }, () => {
        const op = { op: rnd.pick(['get', 'getMany', 'getPrefix', 'put', 'put', 'putIfAbsent', 'delete', 'incr', 'incr']), ns: rnd.pick(spaces), key: key() };
        if (op.op === 'getMany') return { op: op.op, ns: op.ns, keys: Array.from({ length: rnd.below(5) }, key) };
        if (op.op === 'getPrefix') return { op: op.op, ns: op.ns, prefix: rnd.pick(['a', 'a/', 'b']), after: rnd.chance(0.3) ? 'a/1' : undefined, limit: 1 + rnd.below(4) };
        const name = `${op.ns}\0${op.key}`;
        if (op.op === 'get' || written.has(name)) return { op: 'get', ns: op.ns, key: op.key };
        written.add(name);
        const entry = model.keys.get(name);
        if (op.op === 'put') op.value = rnd.pick([null, 'text', { a: [1] }, rnd.below(100), rnd.below(100), true]);
        if (op.op === 'putIfAbsent') op.value = rnd.below(10);
        if ((op.op === 'put' || op.op === 'delete') && rnd.chance(0.5)) op.expect = rnd.pick([0, entry ? entry.version : 1, entry ? entry.version : 2, 1]);
        if (op.op === 'incr') {
            op.delta = rnd.below(21) - 10;
            if (rnd.chance(0.3)) op.max = rnd.below(40);
            if (rnd.chance(0.3)) op.min = -rnd.below(40);
        }
        if (op.op !== 'delete') {
            const ttl = rnd.pick(ttls);
            if (ttl === null) op.forever = true;
            else op.ttlSeconds = ttl;
        }
        return op;
    });
}

/* psql that answers one line of JSON a result. */
function session(instance) {
    const target = instance.env.QUEEN_DATABASE_URL || `host='${path.join(instance.runDir, 'postgres')}' user=queen dbname=queen`;
    const child = spawn('psql', ['-X', '-q', '-A', '-t', '-v', 'ON_ERROR_STOP=1', '-d', target], { stdio: ['pipe', 'pipe', 'inherit'] });
    const lines = readline.createInterface({ input: child.stdout })[Symbol.asyncIterator]();
    const quote = (text) => (text === undefined ? 'null' : `'${text.replaceAll("'", "''")}'`);
    return {
        async apply(ops, now) {
            const values = ops.map((op) => quote(op.value === undefined ? undefined : JSON.stringify(op.value)));
            child.stdin.write(`select unnest(queen.kv_apply_v1(${quote(JSON.stringify(ops))}, array[${values}]::text[], to_timestamp(${now}), false));\n`);
            const results = [];
            while (results.length < ops.length) {
                const { value, done } = await lines.next();
                assert.ok(!done, 'psql ended');
                results.push(JSON.parse(value));
            }
            return results;
        },
        async end() {
            child.stdin.end();
            await once(child, 'close');
        },
    };
}

it('10,000 operations in SQL, with keys that expire', { timeout: 60000 }, async (t) => {
    const seed = Number(process.env.QUEEN_TEST_SEED ?? Date.now() % 1e9);
    t.diagnostic(`QUEEN_TEST_SEED=${seed}`);
    const rnd = random(seed), model = new Model(), spaces = [unique('m'), unique('m')], sql = session(c.instance);
    let steps = 0, now = 4e9; // far ahead: the sweep must not touch the keys
    try {
        while (steps < 10000) {
            const ops = operations(rnd, model, spaces, [null, 5, 20]);
            model.check(ops, await sql.apply(ops, now), now);
            steps += ops.length;
            now += rnd.below(4);
        }
    } finally {
        await sql.end();
    }
    assert.ok(model.keys.size > 10);
});

it('2,000 operations over HTTP', { timeout: 60000 }, async (t) => {
    const seed = Number(process.env.QUEEN_TEST_SEED ?? Date.now() % 1e9);
    t.diagnostic(`QUEEN_TEST_SEED=${seed}`);
    const rnd = random(seed), model = new Model(), spaces = [unique('m'), unique('m')];
    for (let steps = 0; steps < 2000;) {
        const ops = operations(rnd, model, spaces, [null, 100000]);
        const answer = await c.queen.post('/api/v1/kv', { operations: ops });
        assert.equal(answer.status, 200, answer.text);
        const results = answer.json.results.map(({ index, ...rest }, i) => {
            assert.equal(index, i);
            return rest;
        });
        model.check(ops, results, 0);
        steps += ops.length;
    }
});
