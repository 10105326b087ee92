-- The maintenance switches.
begin;
create extension if not exists pgtap;
select no_plan();

create function pg_temp.now() returns text
language sql as $$ select g.push || ' ' || g.pop from queen.maintenance_get_v1() as g $$;
create function pg_temp.set(p_key text, p_enabled boolean) returns text
language sql as $$ select s.push || ' ' || s.pop from queen.maintenance_set_v1(p_key, p_enabled) as s $$;

select is(pg_temp.now(), 'false false', 'off without rows');
select is(pg_temp.set('maintenance_mode', true), 'true false', 'push on, as the answer says');
select is(pg_temp.set('maintenance_mode', true), 'true false', 'once more');
select is(pg_temp.set('pop_maintenance_mode', true), 'true true', 'pop on');
select is(pg_temp.now(), 'true true', 'both are on');
select is((select string_agg(s.key || s.value::text, ' ' order by s.key) from queen.system_state s where s.key like '%maintenance_mode'),
          'maintenance_mode{"enabled": true} pop_maintenance_mode{"enabled": true}', 'the rows');
select is(pg_temp.set('maintenance_mode', false), 'false true', 'push off');
select is(pg_temp.set('pop_maintenance_mode', false), 'false false', 'pop off');
update queen.system_state set value = '{"enabled": "x"}' where key = 'maintenance_mode';
select is(pg_temp.now(), 'false false', 'a value nobody wrote is off');
select throws_ok($$ select pg_temp.set('kv_enabled', true) $$, '22023', null, 'other keys are refused');
select throws_ok($$ select pg_temp.set('maintenance_mode', null) $$, '22023', null, 'null is refused');
select throws_ok($$ select pg_temp.set(null, true) $$, '22023', null, 'no key');

select * from finish();
rollback;
