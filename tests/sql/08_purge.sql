-- log_txns_purge_v1, log_recent_writes_v1.
begin;
\ir helpers.psql
select no_plan();

create function pg_temp.state(p_queue text, p_partition text default 'p') returns text language sql as $$
    select 'start ' || p.txns_start || ' rows ' || (select count(*) from queen.log_txns t where t.partition_id = p.id)
           || case when p.oldest_txn_at is null then ' none'
                   when p.oldest_txn_at = (select min(created_at) from queen.log_txns t where t.partition_id = p.id) then '' else ' WRONG' end
    from queen.log_partitions p where p.id = pg_temp.pid(p_queue, p_partition) $$;

-- Each row has its age in seconds.
create function pg_temp.aged(p_queue text, p_ages int[], p_partition text default 'p') returns void language plpgsql as $$
begin
    for i in 1 .. cardinality(p_ages) loop
        perform pg_temp.push(p_queue, p_partition, array['m' || i, 'n' || i]);
        update queen.log_txns set created_at = now() - make_interval(secs => p_ages[i])
        where partition_id = pg_temp.pid(p_queue, p_partition) and base_offset = 2 * (i - 1);
    end loop;
    update queen.log_partitions set oldest_txn_at = now() - make_interval(secs => p_ages[1]) where id = pg_temp.pid(p_queue, p_partition);
end $$;

-- The clock: GREATEST(dedupWindow, completedRetention, 900)
select pg_temp.configure('q', '{"dedupWindowSeconds":0}');
select pg_temp.aged('q', '{1000,950,901,899,10}');
select pg_temp.aged('hour', '{3700,3601,3599,10}');
select pg_temp.configure('long', '{"completedRetentionSeconds":7200}');
select pg_temp.aged('long', '{7300,7199}');
select pg_temp.aged('young', '{3000}');
select is(queen.log_txns_purge_v1(100, 1000), 6::bigint, 'rows purged');
select is(pg_temp.state('q'), 'start 6 rows 2', '900 s at least');
select is(pg_temp.state('hour'), 'start 4 rows 2', 'the dedup window');
select is(pg_temp.state('long'), 'start 2 rows 1', 'the completed retention');
select is(pg_temp.state('young'), 'start 0 rows 1', 'nothing due');
select is(queen.log_txns_purge_v1(100, 1000), 0::bigint, 'nothing more');
select is(pg_temp.push('hour', 'p', '{m1,m3}'), 'duplicate 1@4', 'dedup goes on with what is left');

-- Bounds
select pg_temp.aged('bound' || i, '{9000,9000,9000}') from generate_series(1, 3) i;
select is(queen.log_txns_purge_v1(2, 1000), 6::bigint, 'so many partitions');
select is(queen.log_txns_purge_v1(100, 2), 2::bigint, 'so many rows');
select is(queen.log_txns_purge_v1(100, 1000), 1::bigint, 'the rest');
select is((select string_agg(distinct pg_temp.state('bound' || i), ',') from generate_series(1, 3) i), 'start 6 rows 0 none', 'all gone: off the work list');
select pg_temp.push('bound1', 'p', '{x}');
select is(pg_temp.state('bound1'), 'start 6 rows 1', 'a push puts it on again');

-- A work list that promises more than there is mends itself
update queen.log_partitions set oldest_txn_at = now() - interval '1 day' where id = pg_temp.pid('young');
select is(queen.log_txns_purge_v1(100, 1000), 0::bigint, 'nothing to purge');
select is(pg_temp.state('young'), 'start 0 rows 1', 'corrected');

-- Recent writes
update queen.log_partitions set last_write_at = timestamptz '2026-01-01';
update queen.log_partitions set last_write_at = timestamptz '2026-01-03' where id = pg_temp.pid('q');
select pg_temp.push('q', 'p2', '{a}'), pg_temp.push('two', 'p', '{a}');
select is((select string_agg(queue, ' ' order by queue) from queen.log_recent_writes_v1('2026-01-02')), 'q two', 'distinct queues written since');
select is((select count(*) from queen.log_recent_writes_v1(now() + interval '1 hour')), 0::bigint, 'none');

select * from finish();
rollback;
