-- Key/value: every operation, precondition, refusal; expiry; versions; order; listings; sweep.
begin;
create extension if not exists pgtap;
select no_plan();

-- One operation: its result as jsonb (values here are plain enough for that).
create function pg_temp.one(p_op jsonb, p_value text default null, p_now timestamptz default now()) returns jsonb
language sql as $$ select (queen.kv_apply_v1(jsonb_build_array(p_op), array[p_value], p_now, false))[1]::jsonb $$;
create function pg_temp.op(p_name text, p_key text, p_more jsonb default '{}') returns jsonb
language sql as $$ select jsonb_build_object('op', p_name, 'ns', 'n', 'key', p_key) || p_more $$;
create function pg_temp.refused(p_ops jsonb, p_values text[], p_in_transaction boolean, out state text, out code text)
language plpgsql as $$
begin
    perform queen.kv_apply_v1(p_ops, p_values, now(), p_in_transaction);
exception when others then
    state := sqlstate;
    code := split_part(sqlerrm, ':', 1);
end $$;
create function pg_temp.is_refused(p_op jsonb, p_state text, p_code text, p_value text default '1') returns text
language sql as $$
    select is((select r.state || ' ' || r.code from pg_temp.refused(jsonb_build_array(p_op), array[p_value], false) r),
              p_state || ' ' || p_code, p_code || ': ' || left(p_op::text, 60))
$$;

-- put, get
select is(pg_temp.one(pg_temp.op('get', 'a')), '{"op":"get","found":false,"key":"a"}', 'get of nothing');
select is(pg_temp.one(pg_temp.op('put', 'a', '{"forever":true}'), '{"x":1}') - 'version',
          '{"op":"put","applied":true,"key":"a","value":{"x":1}}', 'put creates');
select is(pg_temp.one(pg_temp.op('get', 'a')) - 'version' - 'updatedAt',
          '{"op":"get","found":true,"key":"a","value":{"x":1},"expiresAt":null}', 'get finds it');
select matches(pg_temp.one(pg_temp.op('get', 'a')) ->> 'updatedAt', '^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$', 'times end in Z');
select is((queen.kv_apply_v1('[{"op":"put","ns":"n","key":"raw","forever":true},{"op":"get","ns":"n","key":"raw"}]',
                             array['{"b":1.0,"a":1e400,"a":"\u0000"}', null], null, false))[2] like
          '%"value":{"b":1.0,"a":1e400,"a":"\\u0000"},%', true, 'a value comes back as it was sent');
select is(pg_temp.one(pg_temp.op('put', 'nul', '{"forever":true}'), 'null') -> 'value', 'null', 'null is a value');
select is(pg_temp.one(pg_temp.op('get', 'nul')) -> 'found', 'true', 'and is found');

-- versions
create temporary table v as
    select (pg_temp.one(pg_temp.op('put', 'a', '{"forever":true}'), '1') ->> 'version')::bigint as a1;
select cmp_ok((pg_temp.one(pg_temp.op('put', 'b', '{"forever":true}'), '1') ->> 'version')::bigint, '>', a1,
              'versions grow over the whole store') from v;
select cmp_ok((pg_temp.one(pg_temp.op('put', 'a', '{"forever":true}'), '1') ->> 'version')::bigint, '>', a1,
              'and with every put') from v;

-- expect
select is(pg_temp.one(pg_temp.op('put', 'a', '{"forever":true,"expect":0}'), '2') ->> 'reason', 'exists', 'expect 0 on a live key');
select is(pg_temp.one(pg_temp.op('put', 'a', '{"forever":true,"expect":0}'), '2') -> 'value', '1', 'the loser sees the value');
select is(pg_temp.one(pg_temp.op('putIfAbsent', 'a', '{"forever":true}'), '2') ->> 'reason', 'exists', 'putIfAbsent on a live key');
select is(pg_temp.one(pg_temp.op('putIfAbsent', 'new', '{"forever":true,"expect":0}'), '2') -> 'applied', 'true', 'putIfAbsent creates');
select is(pg_temp.one(pg_temp.op('put', 'a', '{"forever":true,"expect":1000000}'), '2') ->> 'reason', 'version', 'another version');
select is(pg_temp.one(pg_temp.op('put', 'none', '{"forever":true,"expect":3}'), '2') - 'op',
          '{"applied":false,"key":"none","value":null,"version":0,"reason":"absent"}', 'expect N never inserts');
select is(pg_temp.one(pg_temp.op('put', 'a', jsonb_build_object('forever', true, 'expect',
          (pg_temp.one(pg_temp.op('get', 'a')) -> 'version'))), '2') -> 'applied', 'true', 'the right version');

-- delete
select is(pg_temp.one(pg_temp.op('delete', 'none')) ->> 'reason', 'absent', 'delete of nothing');
select is(pg_temp.one(pg_temp.op('delete', 'none', '{"expect":0}')) - 'op',
          '{"applied":true,"key":"none","value":null,"version":0}', 'delete with expect 0 of nothing');
select is(pg_temp.one(pg_temp.op('delete', 'a', '{"expect":0}')) ->> 'reason', 'exists', 'delete with expect 0 of something');
select is(pg_temp.one(pg_temp.op('delete', 'a', '{"expect":1}')) ->> 'reason', 'version', 'delete of another version');
select is(pg_temp.one(pg_temp.op('delete', 'a')) -> 'value', '2', 'delete tells what it deleted');
select is(pg_temp.one(pg_temp.op('get', 'a')) -> 'found', 'false', 'and it is gone');

-- incr
select is(pg_temp.one(pg_temp.op('incr', 'i', '{"delta":12345678901234567890,"forever":true}')) ->> 'value', '12345678901234567890', 'incr creates');
select is(pg_temp.one(pg_temp.op('incr', 'i', '{"delta":0.50,"forever":true}')) ->> 'value', '12345678901234567890.5', 'decimals are exact');
select is(pg_temp.one(pg_temp.op('incr', 'i', '{"delta":0.5,"forever":true}')) ->> 'value', '12345678901234567891', 'without trailing zeros');
select is(pg_temp.one(pg_temp.op('incr', 'i', '{"delta":1,"max":5,"forever":true}')) ->> 'reason', 'limit', 'max');
select is(pg_temp.one(pg_temp.op('incr', 'i', '{"delta":1,"max":5,"forever":true}')) ->> 'value', '12345678901234567891', 'the current value');
select is(pg_temp.one(pg_temp.op('incr', 'j', '{"delta":1,"min":2,"forever":true}')) - 'op',
          '{"applied":false,"key":"j","value":null,"version":0,"reason":"limit"}', 'min on creation tests delta');
select is(pg_temp.one(pg_temp.op('incr', 'j', '{"delta":2,"min":2,"max":2,"forever":true}')) -> 'applied', 'true', 'limits are inclusive');
select is(pg_temp.one(pg_temp.op('incr', 'new', '{"delta":1,"forever":true}')) -> 'applied', 'true', 'a stored number counts on');
select is(pg_temp.one(pg_temp.op('put', 's', '{"forever":true}'), '"5"') -> 'applied', 'true', 'a string');
select is(pg_temp.one(pg_temp.op('incr', 's', '{"delta":1,"forever":true}')) ->> 'reason', 'type', 'is no number');
select is(pg_temp.one(pg_temp.op('put', 's', '{"forever":true}'), '1e99999') -> 'applied', 'true', 'a number beyond numeric is a value');
select is(pg_temp.one(pg_temp.op('incr', 's', '{"delta":1,"forever":true}')) ->> 'reason', 'type', 'but cannot be counted on');

-- expiry
select is(pg_temp.one(pg_temp.op('put', 'e', '{"ttlSeconds":10}'), '1') -> 'applied', 'true', 'a key that expires');
select is(pg_temp.one(pg_temp.op('get', 'e'), null, now() + interval '9.999 s') -> 'found', 'true', 'is there until then');
select is(pg_temp.one(pg_temp.op('get', 'e'), null, now() + interval '10 s') -> 'found', 'false', 'not at that instant');
select is(pg_temp.one(pg_temp.op('delete', 'e'), null, now() + interval '10 s') ->> 'reason', 'absent', 'absent for delete');
select is(pg_temp.one(pg_temp.op('put', 'e', '{"forever":true,"expect":1}'), '1', now() + interval '10 s') ->> 'reason', 'absent', 'for expect N');
select is(pg_temp.one(pg_temp.op('incr', 'e', '{"delta":5,"ttlSeconds":10}'), null, now() + interval '10 s') -> 'value', '5', 'incr starts over');
select is(pg_temp.one(pg_temp.op('incr', 'e', '{"delta":5,"ttlSeconds":99}'), null, now() + interval '15 s') -> 'value', '10', 'incr on a live key');
select is(pg_temp.one(pg_temp.op('get', 'e'), null, now() + interval '20 s') -> 'found', 'false', 'leaves its expiry alone');
select is(pg_temp.one(pg_temp.op('putIfAbsent', 'e', '{"forever":true}'), '7', now() + interval '30 s') -> 'applied', 'true', 'putIfAbsent wins over an expired key');
select is((select k.created_at = k.updated_at and k.expires_at is null from queen.kv k where k.namespace = 'n' and k.key = 'e'), true,
          'created anew, for ever');

-- many keys, prefixes, order inside a call
select is((queen.kv_apply_v1('[{"op":"getMany","ns":"m","keys":["z","a","q","z"]},{"op":"put","ns":"m","key":"a","forever":true},
                              {"op":"put","ns":"m","key":"Z","forever":true},{"op":"put","ns":"m","key":"z","forever":true}]',
                             array[null, '1', '2', '3'], null, false))[1]::jsonb #>> '{rows,0,key}', 'a', 'getMany sees the writes of its call');
select is((select array_agg(e ->> 'key') from jsonb_array_elements(
              pg_temp.one('{"op":"getMany","ns":"m","keys":["z","Z","q","a","b"]}') -> 'rows') as e), '{Z,a,z}', 'rows in byte order');
select is(pg_temp.one('{"op":"getMany","ns":"m","keys":["z","q","a","b"]}') -> 'missing', '["q", "b"]', 'missing in request order');
select is(pg_temp.one('{"op":"getMany","ns":"m","keys":[]}') - 'op', '{"rows":[],"missing":[],"truncated":false}', 'getMany of nothing');
select is(jsonb_array_length(to_jsonb(queen.kv_apply_v1('[]', '{}', null, false))), 0, 'no operations');
insert into queen.kv select 'p', 'k' || lpad(i::text, 3, '0'), i::text, i, null, now(), now() from generate_series(1, 150) i;
insert into queen.kv values ('p', 'j', '0', 0, null, now(), now()), ('p', 'l', '0', 0, null, now(), now()), ('p', 'k0000', '0', 0, now(), now(), now());
create function pg_temp.page(p_more jsonb) returns jsonb language sql as
$$ select pg_temp.one('{"op":"getPrefix","ns":"p","prefix":"k"}' || p_more) $$;
select is(jsonb_array_length(pg_temp.page('{}') -> 'rows'), 100, 'getPrefix: 100 by default');
select is(pg_temp.page('{}') - 'rows' - 'op', '{"truncated":true,"nextAfter":"k100"}', 'the page ends with a cursor');
select is(jsonb_array_length(pg_temp.page('{"after":"k100"}') -> 'rows'), 50, 'the rest, not what lies behind the prefix');
select is(pg_temp.page('{"after":"k100"}') - 'rows' - 'op', '{"truncated":false,"nextAfter":null}', 'and no more');
select is(jsonb_array_length(pg_temp.page('{"limit":0}') -> 'rows'), 1, 'limit is at least 1');
select is(jsonb_array_length(pg_temp.page('{"limit":5000}') -> 'rows'), 150, 'and clamped to 1000');
select is(pg_temp.page('{"limit":1,"keysOnly":true}') #> '{rows,0}' ? 'value', false, 'keysOnly');
insert into queen.kv select 'big', i::text, '"' || repeat('x', 65000) || '"', i, null, now(), now() from generate_series(1, 70) i;
select is(pg_temp.one('{"op":"getPrefix","ns":"big","prefix":"1","limit":1000}') -> 'truncated', 'false', 'below the budget');
select is((select jsonb_array_length(r -> 'rows') + jsonb_array_length(r -> 'missing') < 70 and (r -> 'truncated')::boolean
           from pg_temp.one(jsonb_build_object('op', 'getMany', 'ns', 'big', 'keys',
                (select jsonb_agg(i::text) from generate_series(1, 70) i))) as r), true, '4 MiB of values a call');
select is((select count(r::jsonb -> 'rows' -> 0) = 2 and count(r) = 2 and bool_and((r::jsonb -> 'truncated')::boolean)
           from unnest(queen.kv_apply_v1(jsonb_build_array(
                    jsonb_build_object('op', 'getMany', 'ns', 'big', 'keys', (select jsonb_agg(i::text) from generate_series(1, 70) i)),
                    '{"op":"getPrefix","ns":"big","prefix":"2"}'::jsonb), array[null, null]::text[], null, false)) as r), true,
          'a budget that is spent leaves one row to each read');

-- required
select throws_matching($$ select queen.kv_apply_v1('[{"op":"put","ns":"n","key":"x1","forever":true},
    {"op":"putIfAbsent","ns":"n","key":"b","forever":true,"required":true}]', '{5,6}', null, true) $$, '^kv_precondition_failed', 'a lost required raises');
select is((select index is null and result::jsonb - 'version' =
                  '{"index":1,"op":"putIfAbsent","ns":"n","key":"b","reason":"exists","value":1}'
           from queen.kv_call_v1('[{"op":"put","ns":"n","key":"x1","forever":true},{"op":"putIfAbsent","ns":"n","key":"b","forever":true,"required":true}]', '{5,6}')),
          true, 'as a call of its own it is told');
select is(pg_temp.one(pg_temp.op('get', 'x1')) -> 'found', 'false', 'and nothing was written');
select is((select count(*) from queen.kv_call_v1('[{"op":"put","ns":"n","key":"x1","forever":true,"required":true},{"op":"get","ns":"n","key":"x1"}]', '{5,null}')), 2::bigint, 'a required that applies');

-- refusals
select pg_temp.is_refused('{"op":"put","ns":"n","key":"k"}', '22023', 'kv_expiry_not_specified');
select pg_temp.is_refused('{"op":"put","ns":"n","key":"k","forever":true,"ttlSeconds":5}', '22023', 'kv_expiry_not_specified');
select pg_temp.is_refused('{"op":"put","ns":"n","key":"k","forever":false}', '22023', 'kv_expiry_not_specified');
select pg_temp.is_refused('{"op":"incr","ns":"n","key":"k","delta":1}', '22023', 'kv_expiry_not_specified');
select pg_temp.is_refused(pg_temp.op('put', 'k', jsonb_build_object('ttlSeconds', t)), '22023', 'kv_bad_ttl')
from unnest(array['0', '-1', '1.5', '"5"', '1e30', 'true']::jsonb[]) t;
select is(pg_temp.one(pg_temp.op('put', 'k', '{"ttlSeconds":5.0}'), '1') -> 'applied', 'true', 'a whole number with a point is one');
select pg_temp.is_refused(pg_temp.op('put', 'k', jsonb_build_object('forever', true, 'expect', t)), '22023', 'kv_bad_expect')
from unnest(array['-1', '1.5', '"5"', '1e30', 'null']::jsonb[]) t;
select pg_temp.is_refused('{"op":"putIfAbsent","ns":"n","key":"k","forever":true,"expect":2}', '22023', 'kv_bad_expect');
select pg_temp.is_refused('{"op":"incr","ns":"n","key":"k","forever":true,"delta":1,"expect":0}', '22023', 'kv_bad_expect');
select pg_temp.is_refused('{"op":"incr","ns":"n","key":"k","forever":true}', '22023', 'kv_bad_request');
select pg_temp.is_refused('{"op":"incr","ns":"n","key":"k","forever":true,"delta":1,"min":"a"}', '22023', 'kv_bad_request');
select pg_temp.is_refused('{"op":"put","ns":"n","key":"k","forever":true,"required":1}', '22023', 'kv_bad_request');
select pg_temp.is_refused('{"op":"put","ns":"n","key":"k","forever":true}', '22023', 'kv_bad_request', null);
select pg_temp.is_refused('{"op":"mystery","ns":"n","key":"k"}', '22023', 'kv_unknown_op');
select pg_temp.is_refused('{"ns":"n","key":"k"}', '22023', 'kv_unknown_op');
select pg_temp.is_refused('5', '22023', 'kv_bad_request');
select pg_temp.is_refused('{"op":"get","ns":"n","key":"k","tenant":"t"}', '22023', 'kv_tenant_not_an_input');
select pg_temp.is_refused(jsonb_build_object('op', 'get', 'ns', t, 'key', 'k'), '22023', 'kv_bad_namespace')
from unnest(array['', 'a b', 'é', 'a/b', repeat('x', 65), E'a\n']) t;
select pg_temp.is_refused('{"op":"get","key":"k"}', '22023', 'kv_bad_namespace');
select is(pg_temp.one(jsonb_build_object('op', 'get', 'ns', '-A.z_9' || repeat('x', 58), 'key', 'k')) -> 'found', 'false', 'a namespace of 64 characters');
select pg_temp.is_refused('{"op":"get","ns":"n","key":""}', '22023', 'kv_bad_key');
select pg_temp.is_refused('{"op":"get","ns":"n"}', '22023', 'kv_bad_key');
select pg_temp.is_refused('{"op":"getMany","ns":"n","keys":["a",""]}', '22023', 'kv_bad_key');
select pg_temp.is_refused('{"op":"getMany","ns":"n","keys":"a"}', '22023', 'kv_bad_key');
select pg_temp.is_refused(jsonb_build_object('op', 'get', 'ns', 'n', 'key', repeat('é', 257)), '22001', 'kv_key_too_large');
select pg_temp.is_refused(jsonb_build_object('op', 'getMany', 'ns', 'n', 'keys', array[repeat('x', 513)]), '22001', 'kv_key_too_large');
select is(pg_temp.one(pg_temp.op('get', repeat('é', 256))) -> 'found', 'false', 'a key of 512 bytes');
select pg_temp.is_refused('{"op":"put","ns":"n","key":"k","forever":true}', '22001', 'kv_value_too_large', '"' || repeat('x', 65535) || '"');
select is(pg_temp.one(pg_temp.op('put', 'k', '{"forever":true}'), '"' || repeat('x', 65534) || '"') -> 'applied', 'true', 'a value of 65536 bytes');
select pg_temp.is_refused('{"op":"getPrefix","ns":"n","prefix":""}', '22023', 'kv_prefix_required');
select pg_temp.is_refused('{"op":"getPrefix","ns":"n"}', '22023', 'kv_prefix_required');
select pg_temp.is_refused('{"op":"getPrefix","ns":"n","prefix":"a","limit":"x"}', '22023', 'kv_bad_request');
select is((select code from pg_temp.refused('[{"op":"getPrefix","ns":"n","prefix":"a"}]', array[null::text], true)),
          'kv_get_prefix_not_allowed_in_transaction', 'no getPrefix in a transaction');
select is((select code from pg_temp.refused('{}', '{}', false)), 'kv_bad_request', 'not an array');
select is((select code from pg_temp.refused('[]', '{1}', false)), 'kv_bad_request', 'misaligned');
select is((select code from pg_temp.refused('[{"op":"put","ns":"n","key":"k","forever":true},{"op":"delete","ns":"n","key":"k"}]', '{1,null}', false)),
          'kv_duplicate_key_in_call', 'a key is written once a call');
select is((select code from pg_temp.refused('[{"op":"get","ns":"n","key":"k"},{"op":"get","ns":"n","key":"k"},{"op":"delete","ns":"n","key":"k"}]', array[null, null, null]::text[], false)),
          null, 'reads of it are free');
create function pg_temp.gets(n int) returns jsonb language sql as
$$ select jsonb_agg(jsonb_build_object('op', 'get', 'ns', 'n', 'key', i::text)) from generate_series(1, n) i $$;
select is((select code from pg_temp.refused(pg_temp.gets(257), array_fill(null::text, array[257]), false)), 'kv_too_many_ops', '257 operations');
select is((select code from pg_temp.refused(pg_temp.gets(256), array_fill(null::text, array[256]), false)), null, '256 operations');
select is((select code from pg_temp.refused(pg_temp.gets(65), array_fill(null::text, array[65]), true)), 'kv_too_many_ops', '65 in a transaction');
select is((select code from pg_temp.refused(jsonb_build_array(jsonb_build_object('op', 'getMany', 'ns', 'n', 'keys',
           (select jsonb_agg(i::text) from generate_series(1, n) i))), array[null::text], n < 1000)),
          case when n in (257, 1025) then 'kv_too_many_keys' end, n || ' keys')
from unnest(array[256, 257, 1024, 1025]) n;

-- the switch
insert into queen.system_state (key, value) values ('kv_enabled', '{"enabled":false}');
select is((select state || ' ' || code from pg_temp.refused('[{"op":"get","ns":"n","key":"k"}]', array[null::text], false)), 'QS001 kv_disabled', 'switched off');
select is(pg_temp.one(pg_temp.op('delete', 'b')) -> 'applied', 'true', 'deletions go on');
update queen.system_state set value = '{"enabled":true}' where key = 'kv_enabled';
select is(pg_temp.one(pg_temp.op('get', 'k')) -> 'found', 'false', 'switched on again');

-- listings and sweep
delete from queen.kv;
insert into queen.kv values ('a', 'x', '1', 1, null, now(), now()), ('b', 'y', '22', 2, now(), now(), now()),
                            ('b', 'z', '333', 3, now() + interval '1 h', now(), now()), ('c', 'q', '4', 4, now() - interval '1 h', now(), now());
select is((select string_agg(namespace || keys, ' ') from queen.kv_namespaces_v1(10)), 'a1 b2 c1', 'namespaces, expired keys count');
select is((select count(*) from queen.kv_namespaces_v1(2)), 2::bigint, 'at most so many');
select is((select p.rows::jsonb -> 0 ->> 'key' || p.bytes from queen.kv_page_v1('b', '', '', 10, 1000, false, false, now()) p), 'z3', 'a listing without expired ones');
select is((select p.rows::jsonb -> 0 -> 'expired' from queen.kv_page_v1('b', '', '', 10, 1000, false, true, now()) p), 'true', 'with them');
select is((select p.rows from queen.kv_page_v1('none', '', '', 10, 1000, false, true, now()) p), '[]', 'an unknown namespace');
select is(queen.kv_sweep_v1(1), 1, 'a sweep step is bounded');
select is(queen.kv_sweep_v1(10), 1, 'the rest');
select is(queen.kv_sweep_v1(10), 0, 'nothing');
select is((select array_agg(k.key order by k.key) from queen.kv k), '{x,z}', 'live keys stay');

select * from finish();
rollback;
