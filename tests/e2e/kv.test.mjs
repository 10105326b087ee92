// Key/value: batches, single keys, listings; every refusal with its status; bytes; races; expiry.
import assert from 'node:assert/strict';
import { describe, it } from 'node:test';
import { TIME, sleep, unique, until, useQueen } from './lib/queen.mjs';

const c = useQueen();
const space = () => unique('ns');

const batch = (operations) => c.queen.post('/api/v1/kv', { operations });

/* The results of a batch that must work. */
async function run(operations) {
    const answer = await batch(operations);
    assert.equal(answer.status, 200, answer.text);
    assert.ok(Array.isArray(answer.json.results), answer.text);
    assert.deepEqual(answer.json.results.map((r) => r.index), operations.map((_, i) => i));
    assert.deepEqual(answer.json.results.map((r) => r.op), operations.map((o) => o.op));
    return answer.json.results;
}

async function refused(answer, status, error, reason) {
    answer = await answer;
    assert.equal(answer.status, status, answer.text);
    assert.match(answer.headers['content-type'], /^application\/json/);
    assert.deepEqual([answer.json.error, answer.json.reason], [error, reason], answer.text);
}

const path = (ns, key) => `/api/v1/kv/${ns}/${key}`;
const single = (method, ns, key, body) =>
    body === undefined ? c.queen.request(method, path(ns, key)) : c.queen.request(method, path(ns, key), { body: JSON.stringify(body) });

describe('POST /api/v1/kv', () => {
    it('put, get, getMany, getPrefix, delete, incr in one call, results by index', async () => {
        const ns = space();
        const r = await run([
            { op: 'getMany', ns, keys: ['b', 'none', 'a'] },
            { op: 'put', ns, key: 'b', value: { x: [1] }, forever: true },
            { op: 'get', ns, key: 'nothing' },
            { op: 'put', ns, key: 'a', value: null, ttlSeconds: 100 },
            { op: 'incr', ns, key: 'n', delta: 5, forever: true },
            { op: 'putIfAbsent', ns, key: 'p', value: 'once', forever: true },
            { op: 'delete', ns, key: 'gone' },
            { op: 'getPrefix', ns, prefix: 'a' },
        ]);
        assert.deepEqual(r[0].rows.map((row) => [row.key, row.value]), [['a', null], ['b', { x: [1] }]]);
        assert.deepEqual([r[0].missing, r[0].truncated], [['none'], false]);
        assert.deepEqual(Object.keys(r[1]), ['index', 'op', 'applied', 'key', 'value', 'version']);
        assert.deepEqual([r[1].applied, r[1].key, r[1].value], [true, 'b', { x: [1] }]);
        assert.deepEqual(r[2], { index: 2, op: 'get', found: false, key: 'nothing' });
        assert.equal(r[4].value, 5);
        assert.equal(r[5].op, 'putIfAbsent');
        assert.deepEqual([r[6].applied, r[6].reason, r[6].value, r[6].version], [false, 'absent', null, 0]);
        assert.deepEqual(r[7].rows.map((row) => row.key), ['a']);
        assert.deepEqual([r[7].truncated, r[7].nextAfter], [false, null]);

        const [a, b] = await run([{ op: 'get', ns, key: 'a' }, { op: 'get', ns, key: 'b' }]);
        assert.deepEqual(Object.keys(a), ['index', 'op', 'found', 'key', 'value', 'version', 'expiresAt', 'updatedAt']);
        assert.match(a.expiresAt, TIME);
        assert.match(a.updatedAt, TIME);
        assert.equal(Math.round((Date.parse(a.expiresAt) - Date.parse(a.updatedAt)) / 1000), 100);
        assert.equal(b.expiresAt, null);
    });

    it('takes a bare array, and an empty one', async () => {
        const bare = await c.queen.post('/api/v1/kv', [{ op: 'get', ns: 'x', key: 'y' }]);
        assert.equal(bare.json.results[0].found, false, bare.text);
        for (const body of [[], { operations: [] }]) assert.deepEqual((await c.queen.post('/api/v1/kv', body)).json, { results: [] });
    });

    it('values come back byte for byte', async () => {
        const ns = space();
        const values = ['1.0', '1e400', '12345678901234567890123', '"\\u0041\\u0000\\ud800"', '{"b":1,"a":2,"b":3}', '[1,\t 2]', '"\u00e9\ud83d\ude00"', '-0', 'null'];
        for (const value of values) {
            const put = await c.queen.post('/api/v1/kv', `[{"op":"put","ns":"${ns}","key":"k","forever":true,"value": ${value} }]`);
            assert.equal(put.status, 200, put.text);
            assert.ok(put.text.includes(`"value":${value},"version"`), put.text);
            for (const answer of [await c.queen.get(path(ns, 'k')), await c.queen.post('/api/v1/kv', { operations: [{ op: 'getMany', ns, keys: ['k'] }] }),
                await c.queen.post('/api/v1/resources/kv/list', { namespace: ns })])
                assert.ok(answer.text.includes(`"value":${value},"version"`), answer.text);
            const lost = await c.queen.post('/api/v1/kv', { operations: [{ op: 'putIfAbsent', ns, key: 'k', value: 1, forever: true, required: true }] });
            assert.ok(lost.text.endsWith(`"value":${value}}`), lost.text);
        }
    });

    it('numbers are exact', async () => {
        const ns = space();
        const incr = (delta) => c.queen.post('/api/v1/kv', `[{"op":"incr","ns":"${ns}","key":"n","delta":${delta},"forever":true}]`);
        assert.match((await incr('9007199254740993')).text, /"value":9007199254740993,/);
        assert.match((await incr('0.1')).text, /"value":9007199254740993\.1,/);
        assert.match((await incr('0.2')).text, /"value":9007199254740993\.3,/);
        assert.match((await incr('0.7')).text, /"value":9007199254740994,/);
    });

    it('verdicts: exists, absent, version, limit, type, with what is there', async () => {
        const ns = space();
        const [put] = await run([{ op: 'put', ns, key: 'k', value: 'v', forever: true }]);
        const check = async (op, reason, value, version) => {
            const [r] = await run([{ ns, ...op }]);
            assert.deepEqual([r.applied, r.reason, r.value, r.version], [false, reason, value, version]);
        };
        await check({ op: 'putIfAbsent', key: 'k', value: 1, forever: true }, 'exists', 'v', put.version);
        await check({ op: 'put', key: 'k', value: 1, forever: true, expect: 0 }, 'exists', 'v', put.version);
        await check({ op: 'put', key: 'k', value: 1, forever: true, expect: put.version + 1 }, 'version', 'v', put.version);
        await check({ op: 'put', key: 'no', value: 1, forever: true, expect: 7 }, 'absent', null, 0);
        await check({ op: 'delete', key: 'k', expect: put.version + 1 }, 'version', 'v', put.version);
        await check({ op: 'delete', key: 'k', expect: 0 }, 'exists', 'v', put.version);
        await check({ op: 'incr', key: 'k', delta: 1, forever: true }, 'type', 'v', put.version);
        const [n] = await run([{ op: 'incr', ns, key: 'n', delta: 3, forever: true }]);
        await check({ op: 'incr', key: 'n', delta: 1, max: 3, forever: true }, 'limit', 3, n.version);
        await check({ op: 'incr', key: 'm', delta: 1, min: 2, forever: true }, 'limit', null, 0);
        const [next] = await run([{ op: 'put', ns, key: 'k', value: 'w', forever: true, expect: put.version }]);
        assert.ok(next.applied && next.version > n.version, 'versions grow over the whole store');
        const [again] = await run([{ op: 'delete', ns, key: 'k', expect: next.version }]);
        assert.deepEqual([again.applied, again.value, again.version], [true, 'w', next.version]);
        const [recreated] = await run([{ op: 'putIfAbsent', ns, key: 'k', value: 1, forever: true }]);
        assert.ok(recreated.applied && recreated.version > next.version, 'also across a deletion');
    });

    it('a lost `required` is 200 with the winner, and nothing of the call is written', async () => {
        const ns = space();
        const [won] = await run([{ op: 'putIfAbsent', ns, key: 'lock', value: { owner: 1 }, forever: true, required: true }]);
        const answer = await batch([
            { op: 'put', ns, key: 'a', value: 1, forever: true },
            { op: 'putIfAbsent', ns, key: 'lock', value: 2, forever: true, required: true },
            { op: 'put', ns, key: 'z', value: 1, forever: true },
        ]);
        assert.equal(answer.status, 200);
        assert.deepEqual(answer.json, { ok: false, reason: 'kv_precondition', failedIndex: 1, kvReason: 'exists', version: won.version, value: { owner: 1 } });
        const [many] = await run([{ op: 'getMany', ns, keys: ['a', 'z'] }]);
        assert.deepEqual(many.missing, ['a', 'z']);
    });

    it('an expired key is absent before it is swept, and the keeper sweeps it', async () => {
        const ns = space();
        await run([{ op: 'put', ns, key: 'e', value: 1, ttlSeconds: 1 }, { op: 'put', ns, key: 'f', value: 1, forever: true }]);
        await until(async () => !(await run([{ op: 'get', ns, key: 'e' }]))[0].found, 'it expires');
        const [prefix, put] = await run([{ op: 'getPrefix', ns, prefix: 'e' }, { op: 'putIfAbsent', ns, key: 'e', value: 2, ttlSeconds: 1 }]);
        assert.deepEqual(prefix.rows.map((r) => r.value), [2], 'reads of many see the writes of their call');
        assert.equal(put.applied, true);
        await until(async () => (await c.instance.psql(`select count(*) from queen.kv where namespace = '${ns}'`)) === '1', 'the sweep');
        assert.equal((await run([{ op: 'get', ns, key: 'f' }]))[0].found, true);
    });

    it('incr keeps the expiry of a live key', async () => {
        const ns = space();
        await run([{ op: 'incr', ns, key: 'n', delta: 1, ttlSeconds: 1000 }]);
        const [before] = await run([{ op: 'get', ns, key: 'n' }]);
        await run([{ op: 'incr', ns, key: 'n', delta: 1, forever: true }]);
        const [after] = await run([{ op: 'get', ns, key: 'n' }]);
        assert.deepEqual([after.value, after.expiresAt], [2, before.expiresAt]);
        await run([{ op: 'put', ns, key: 'n', value: 1, forever: true }]);
        assert.equal((await run([{ op: 'get', ns, key: 'n' }]))[0].expiresAt, null, 'a put replaces it');
    });

    it('pages through a prefix in byte order', async () => {
        const ns = space();
        const keys = ['a/', 'a/1', 'a/10', 'a/2', 'a/B', 'a/a', 'a/\u00e9', 'a/\uff5e', 'a/\ud83d\ude00'];
        await run([...keys, 'a', 'b'].reverse().map((key) => ({ op: 'put', ns, key, value: 1, forever: true })));
        const got = [];
        for (let after; ;) {
            const [page] = await run([{ op: 'getPrefix', ns, prefix: 'a/', after, limit: 2, keysOnly: true }]);
            assert.ok(page.rows.every((r) => !('value' in r) && r.version > 0));
            got.push(...page.rows.map((r) => r.key));
            if (!page.truncated) break;
            after = page.nextAfter;
        }
        assert.deepEqual(got, keys);
    });

    it('of many at once exactly one wins', async () => {
        const ns = space();
        const race = await Promise.all(Array.from({ length: 20 }, (_, i) => run([{ op: 'putIfAbsent', ns, key: 'lock', value: i, forever: true }])));
        const winners = race.flat().filter((r) => r.applied);
        assert.equal(winners.length, 1);
        for (const r of race.flat()) assert.deepEqual([r.value, r.version], [winners[0].value, winners[0].version]);
        const counted = await Promise.all(Array.from({ length: 40 }, () => run([{ op: 'incr', ns, key: 'n', delta: 1, forever: true }])));
        assert.deepEqual(counted.flat().map((r) => r.value).sort((x, y) => x - y), Array.from({ length: 40 }, (_, i) => i + 1));
    });

    it('overlapping batches in any order do not deadlock', async () => {
        const ns = space();
        const keys = ['a', 'b', 'c', 'd', 'e'];
        const rounds = await Promise.all(Array.from({ length: 60 }, (_, i) => {
            const order = [...keys].sort(() => ((i * 7919) % 3) - 1);
            if (i % 2) order.reverse();
            return batch(order.map((key) => ({ op: i % 5 ? 'incr' : 'delete', ns, key, delta: 1, forever: true })));
        }));
        for (const answer of rounds) assert.equal(answer.status, 200, answer.text);
    });

    it('refuses what is malformed with 400 and its reason, what is too large with 413', async () => {
        const op = (more) => batch([{ op: 'put', ns: 'n', key: 'k', value: 1, forever: true, ...more }]);
        const bad = 'kv_bad_request';
        for (const body of ['', '{', '5', '"x"', '{}', '{"operations":{}}', '{"operations":null}']) await refused(c.queen.post('/api/v1/kv', body), 400, bad, 'kv_bad_body');
        await refused(batch([5]), 400, bad, bad);
        await refused(op({ forever: undefined }), 400, bad, 'kv_expiry_not_specified');
        await refused(op({ ttlSeconds: 5 }), 400, bad, 'kv_expiry_not_specified');
        for (const ttlSeconds of [0, -1, 1.5, '5', {}]) await refused(op({ forever: undefined, ttlSeconds }), 400, bad, 'kv_bad_ttl');
        for (const expect of [-1, 1.5, '5', null]) await refused(op({ expect }), 400, bad, 'kv_bad_expect');
        await refused(op({ value: undefined }), 400, bad, bad);
        await refused(op({ op: 'nope' }), 400, bad, 'kv_unknown_op');
        await refused(op({ op: 5 }), 400, bad, 'kv_unknown_op');
        for (const ns of ['', 'a b', 'a/b', '\u00e9', 'x'.repeat(65), 5, 'a\u0000', undefined]) await refused(op({ ns }), 400, bad, 'kv_bad_namespace');
        for (const key of ['', 5, 'a\u0000b', undefined]) await refused(op({ key }), 400, bad, 'kv_bad_key');
        await refused(c.queen.post('/api/v1/kv', '[{"op":"get","ns":"n","key":"\\ud800"}]'), 400, bad, 'kv_bad_key');
        await refused(op({ tenant: 1 }), 400, bad, 'kv_tenant_not_an_input');
        await refused(batch([{ op: 'getPrefix', ns: 'n', prefix: '' }]), 400, bad, 'kv_prefix_required');
        await refused(batch(Array.from({ length: 257 }, () => ({ op: 'get', ns: 'n', key: 'k' }))), 400, bad, 'kv_too_many_ops');
        await refused(batch([{ op: 'getMany', ns: 'n', keys: Array.from({ length: 1025 }, (_, i) => `${i}`) }]), 400, bad, 'kv_too_many_keys');
        await refused(batch([{ op: 'put', ns: 'n', key: 'k', value: 1, forever: true }, { op: 'delete', ns: 'n', key: 'k' }]), 400, bad, 'kv_duplicate_key_in_call');
        await refused(c.queen.post('/api/v1/kv', '[{"op":"get","ns":"n","key":"k","key":"l"}]'), 400, bad, bad);
        await refused(c.queen.post('/api/v1/kv', '[{"op":"incr","ns":"n","key":"k","delta":1e999999,"forever":true}]'), 400, bad, bad);
        await refused(op({ value: 'x'.repeat(65535) }), 413, 'payload_too_large', 'kv_value_too_large');
        await refused(op({ key: 'x'.repeat(513) }), 413, 'payload_too_large', 'kv_key_too_large');
        const ns = space();
        const largest = await batch([{ op: 'put', ns, key: 'x'.repeat(512), value: 'y'.repeat(65534), forever: true }]);
        assert.equal(largest.status, 200, largest.text);
    });

    it('an operator switches it off and on', async () => {
        const ns = space();
        try {
            await c.instance.psql(`insert into queen.system_state (key, value) values ('kv_enabled', '{"enabled":false}')`);
            const answer = await batch([{ op: 'get', ns, key: 'k' }]);
            await refused(answer, 503, 'kv_disabled', 'kv_disabled');
            assert.equal(answer.headers['retry-after'], '1');
            assert.equal((await run([{ op: 'delete', ns, key: 'k' }]))[0].reason, 'absent', 'deletions go on');
        } finally {
            await c.instance.psql(`delete from queen.system_state where key = 'kv_enabled'`);
        }
        await run([{ op: 'get', ns, key: 'k' }]);
    });
});

describe('single keys', () => {
    it('PUT, GET, DELETE with an ETag', async () => {
        const ns = space();
        const put = await single('PUT', ns, 'k', { value: { a: 1 }, ttlSeconds: 100 });
        assert.equal(put.status, 200, put.text);
        assert.deepEqual([put.json.index, put.json.op, put.json.applied], [0, 'put', true]);
        assert.equal(put.headers.etag, `"${put.json.version}"`);
        const get = await single('GET', ns, 'k');
        assert.deepEqual([get.json.found, get.json.value, get.headers.etag], [true, { a: 1 }, put.headers.etag]);
        const lost = await single('PUT', ns, 'k', { value: 1, forever: true, expect: 0 });
        assert.deepEqual([lost.status, lost.json.applied, lost.json.reason, lost.headers.etag], [200, false, 'exists', undefined]);
        const required = await single('PUT', ns, 'k', { value: 1, forever: true, expect: 0, required: true });
        assert.deepEqual([required.status, required.json.ok, required.json.kvReason], [200, false, 'exists']);
        const wrong = await single('DELETE', ns, 'k', { expect: 1 });
        assert.deepEqual([wrong.status, wrong.json.reason], [200, 'version']);
        const gone = await single('DELETE', ns, 'k');
        assert.deepEqual([gone.status, gone.json.applied, gone.json.value], [200, true, { a: 1 }]);
        const miss = await single('GET', ns, 'k');
        assert.deepEqual([miss.status, miss.json], [200, { index: 0, op: 'get', found: false, key: 'k' }]);
        assert.equal(miss.headers.etag, undefined);
        assert.equal((await single('DELETE', ns, 'k', null)).json.reason, 'absent', 'a null body is none');
    });

    it('a key may hold slashes, escapes and many parts', async () => {
        const ns = space();
        for (const [encoded, key] of [['a/b/c/d/e/f/g/h/i/j/k', 'a/b/c/d/e/f/g/h/i/j/k'], ['a%2Fb', 'a/b'], ['%C3%A9%20x', '\u00e9 x'], ['100%25', '100%'], ['a//b/', 'a//b/']]) {
            const put = await single('PUT', ns, encoded, { value: 1, forever: true });
            assert.equal(put.status, 200, put.text);
            assert.equal(put.json.key, key);
            assert.equal((await run([{ op: 'get', ns, key }]))[0].found, true, key);
        }
    });

    it('refuses query strings, fields of the path in the body, bad names', async () => {
        const bad = 'kv_bad_request';
        for (const method of ['GET', 'PUT', 'DELETE']) await refused(c.queen.request(method, '/api/v1/kv/n/k?x=1'), 400, bad, 'kv_no_query_string');
        for (const field of ['op', 'ns', 'namespace', 'key']) await refused(single('PUT', 'n', 'k', { value: 1, forever: true, [field]: 'x' }), 400, bad, 'kv_field_in_path');
        await refused(single('PUT', 'n', 'k'), 400, bad, 'kv_bad_body');
        await refused(single('PUT', 'n', 'k', [1]), 400, bad, 'kv_bad_body');
        await refused(single('PUT', 'n', 'k', { value: 1 }), 400, bad, 'kv_expiry_not_specified');
        await refused(single('GET', 'a%20b', 'k'), 400, bad, 'kv_bad_namespace');
        await refused(single('GET', 'n', ''), 400, bad, 'kv_bad_key');
        assert.equal((await single('GET', 'n', 'a%00')).status, 400);
        await refused(single('GET', 'n', '%ff'), 400, bad, 'kv_bad_key');
        await refused(single('GET', 'n', 'x'.repeat(513)), 413, 'payload_too_large', 'kv_key_too_large');
        const method = await c.queen.post('/api/v1/kv/n/k', {});
        assert.deepEqual([method.status, method.headers.allow], [405, 'GET, PUT, DELETE']);
        assert.equal((await c.queen.get('/api/v1/kv/n')).status, 404);
    });
});

describe('listings', () => {
    it('namespaces and keys', async () => {
        const ns = space();
        await run(['b', 'a', 'c'].map((key) => ({ op: 'put', ns, key, value: key, forever: true })));
        await run([{ op: 'put', ns, key: 'd', value: 'd', ttlSeconds: 1 }]);
        const spaces = await c.queen.get('/api/v1/resources/kv/namespaces');
        assert.equal(spaces.status, 200, spaces.text);
        assert.ok(spaces.json.namespaces.find((n) => n.namespace === ns).keys >= 3);
        const list = async (more) => {
            const answer = await c.queen.post('/api/v1/resources/kv/list', { namespace: ns, ...more });
            assert.equal(answer.status, 200, answer.text);
            return answer.json;
        };
        const page = await list({ limit: 2 });
        assert.deepEqual(page.rows.map((r) => [r.key, r.value, r.expired]), [['a', 'a', false], ['b', 'b', false]]);
        assert.deepEqual([page.truncated, page.nextAfter, page.bytes], [true, 'b', 6]);
        assert.match(page.rows[0].updatedAt, TIME);
        assert.deepEqual((await list({ after: 'b', prefix: 'c', keysOnly: true })).rows.map((r) => Object.keys(r)), [['key', 'version', 'expiresAt', 'updatedAt', 'expired']]);
        await until(async () => (await list({})).rows.length === 3, 'the fourth expires');
        assert.deepEqual(await list({ namespace: 'unknown' }), { rows: [], truncated: false, nextAfter: null, bytes: 0 });
    });

    it('refusals', async () => {
        const bad = 'kv_bad_request';
        await refused(c.queen.get('/api/v1/resources/kv/namespaces?x'), 400, bad, 'kv_no_query_string');
        await refused(c.queen.post('/api/v1/resources/kv/list?x=1', { namespace: 'a' }), 400, bad, 'kv_no_query_string');
        await refused(c.queen.post('/api/v1/resources/kv/list', {}), 400, bad, 'kv_bad_namespace');
        await refused(c.queen.post('/api/v1/resources/kv/list', { namespace: 'a b' }), 400, bad, 'kv_bad_namespace');
        for (const more of [{ limit: 'x' }, { keysOnly: 1 }, { after: 5 }, { prefix: 'a\u0000' }])
            await refused(c.queen.post('/api/v1/resources/kv/list', { namespace: 'a', ...more }), 400, bad, 'kv_bad_body');
    });
});

describe('a lost connection', () => {
    it('is no failure of the calls after it', async () => {
        const ns = space();
        await run([{ op: 'put', ns, key: 'k', value: 1, forever: true }]);
        await c.instance.psql(`select pg_terminate_backend(pid) from pg_stat_activity where application_name like '%kv%'`);
        await sleep(20);
        assert.equal((await run([{ op: 'get', ns, key: 'k' }]))[0].value, 1);
    });
});
