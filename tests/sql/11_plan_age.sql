-- Plans are made once, often when a table is nearly empty, and kept for the life of the connection:
-- what a pop reads must not grow with the segments that the partition retains.
begin;
\ir helpers.psql
select no_plan();

select pg_temp.push('long', 'p', '{first}') \g /dev/null
select pg_temp.pop('long', 'w', 1, 1, 'g', null, 0, true), pg_temp.pop('long', 'w', 1, 1, 'all', null, 0, true) \g /dev/null
select pg_temp.push('long', 'p', array['m' || k]) from generate_series(1, 600) k \g /dev/null
select is((select count(*) from queen.log_segments where partition_id = pg_temp.pid('long')), 601::bigint, 'the partition retains many segments');
select is(left(pg_temp.pop('long', 'w', 599, 1, 'g', null, 0, true), 7), 'p:m1,m2', 'a pop of nearly everything');

create function pg_temp.fetched() returns bigint language sql as $$
    select sum(coalesce(idx_tup_fetch, 0) + seq_tup_read)::bigint from pg_stat_xact_user_tables where schemaname = 'queen' and relname = 'log_segments' $$;
select pg_temp.fetched() as before \gset
select is(pg_temp.pop('long', 'w', 10, 1, 'g', null, 0, true), 'p:m600', 'the last one');
select cmp_ok(pg_temp.fetched() - :before, '<=', 12::bigint, 'reads its own segment only');
select pg_temp.fetched() as before \gset
select is(pg_temp.pop('long', 'w', 2, 1, 'all', null, 0, true), 'p:m1,m2', 'two from the other end');
select cmp_ok(pg_temp.fetched() - :before, '<=', 12::bigint, 'read those two segments only');

select * from finish();
rollback;
