-- What the hot functions touch, by the counters of this transaction: no scan of a big table, rows read
-- in proportion to the work and not to what the tables hold, HOT updates.
begin;
\ir helpers.psql
select no_plan();
set local statement_timeout = '120s';

select queen.log_push_multi_v1((select array_agg('big'::text) from generate_series(1, 2000)), (select array_agg('p' || i) from generate_series(1, 2000) i),
    (select array_agg(2) from generate_series(1, 2000)), array_fill(pg_temp.hash('a' || k) || pg_temp.hash('b' || k), array[2000]),
    (select array_agg(-1::bigint) from generate_series(1, 2000)), (select array_agg('a,b'::bytea) from generate_series(1, 2000)), gen_random_uuid(), false)
from generate_series(1, 3) k \g /dev/null
select pg_temp.push('small', 'p', array['x' || k, 'y' || k]) from generate_series(1, 3) k \g /dev/null
select pg_temp.pop('big', 'w', 1, 1), pg_temp.pop('small', 'w', 1, 1, 'other') \g /dev/null

create function pg_temp.counters(out scans bigint, out fetched bigint, out updated bigint, out hot bigint) language sql as $$
    select sum(seq_scan), sum(coalesce(idx_tup_fetch, 0)), sum(n_tup_upd), sum(n_tup_hot_upd) from pg_stat_xact_user_tables
    where schemaname = 'queen' and relname in ('log_partitions', 'log_consumers', 'log_segments', 'log_txns') $$;
-- Runs a statement; what it cost: 'scans 0 fetched 12 cold 0' (cold: updates that were not HOT).
create function pg_temp.cost(p_sql text, out scans bigint, out fetched bigint, out cold bigint, out answer text) language plpgsql as $$
declare v_before record; v_after record;
begin
    v_before := pg_temp.counters();
    execute p_sql into answer;
    v_after := pg_temp.counters();
    scans := v_after.scans - v_before.scans;
    fetched := v_after.fetched - v_before.fetched;
    cold := (v_after.updated - v_before.updated) - (v_after.hot - v_before.hot);
end $$;
create function pg_temp.cheap(p_sql text, p_most bigint, p_name text) returns setof text language plpgsql as $$
declare c record;
begin
    c := pg_temp.cost(p_sql);
    return next is(c.scans, 0::bigint, p_name || ': no table is scanned');
    return next cmp_ok(c.fetched, '<=', p_most, p_name || ': rows fetched (' || coalesce(c.answer, 'nothing') || ')');
    return next is(c.cold, 0::bigint, p_name || ': updates are HOT');
end $$;

select pg_temp.cheap($$select pg_temp.push('small', 'p', '{z}')$$, 20, 'push');
select pg_temp.cheap($$select pg_temp.push('small', 'p', '{z}')$$, 20, 'a duplicate push');
select pg_temp.cheap($$select pg_temp.pop('small', 'w', 3, 1)$$, 60, 'first contact and pop');
select pg_temp.cheap($$select pg_temp.pop('small', 'w2', 3, 1)$$, 30, 'a pop that finds everything leased');
select pg_temp.cheap($$select pg_temp.ack('small', 'w', 'x1:completed')$$, 20, 'a partial ack by hash');
select pg_temp.cheap($$select pg_temp.ack('small', 'w', 'x1:completed x2:completed')$$, 20, 'the rest of it');
select pg_temp.cheap($$select pg_temp.pop('small', 'w', 3, 1, 'g', 'p')$$, 40, 'a pinned pop');
select pg_temp.cheap($$select string_agg(ok::text, ' ') from queen.log_ack_multi_v1(array[pg_temp.pid('small')], '{g}', '{5}', '{w}', '{3}')$$, 10, 'a positional ack');
select pg_temp.cheap($$select pg_temp.pop('big', 'w3', 10, 1, 'g', 'p1000')$$, 40, 'a pinned pop in a queue of 2000 partitions');
select pg_temp.cheap($$select queen.log_ack_at_v1(pg_temp.pid('big', 'p1000'), 'g', 'w3', null, false, 0)::text$$, 10, 'handing it back');
select pg_temp.cheap($$select left(pg_temp.pop('big', 'w4', 5, 1), 2)$$, 2000 * 4, 'a pop over 2000 pending partitions');
select pg_temp.cheap($$select count(*)::text from queen.log_segments_at_v1(array[pg_temp.pid('big', 'p7'), pg_temp.pid('small')], '{3,1}')$$, 10, 'reading segments');
select pg_temp.cheap($$select count(*)::text from queen.log_recent_writes_v1(clock_timestamp() + interval '1 second')$$, 5, 'recent writes, none');
select pg_temp.cheap($$select queen.log_txns_purge_v1(100, 1000)::text$$, 5, 'a purge with nothing due');
select pg_temp.age('small', 'p', interval '2 hours') \g /dev/null
select ok((pg_temp.cost($$select queen.log_txns_purge_v1(100, 1000)::text$$)).fetched < 40, 'a purge of one partition among 2001');

select * from finish();
rollback;
