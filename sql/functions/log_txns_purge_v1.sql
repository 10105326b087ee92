-- log_txns_purge_v1: one bounded step of purging hash rows on their clock.
--
-- Parameters: p_max_partitions, p_max_rows  bounds of the step; rows per partition share the latter
-- Returns:    rows purged
-- Algorithm:  a row may go when it is older than GREATEST(dedupWindow, completedRetention, 900 s). The
--             work list is the index on oldest_txn_at: the cost follows what is due. Per partition the
--             oldest rows go in one range, txns_start moves behind them. One host at a time: an advisory
--             lock is tried, a miss purges nothing.
-- Tables:     queues (read), log_partitions (update), log_txns (delete)
-- Locks, in order: advisory (try), log_partitions FOR UPDATE ascending by id, skipping locked ones.
create or replace function queen.log_txns_purge_v1(p_max_partitions int, p_max_rows int)
returns bigint
language plpgsql
set enable_seqscan = off
as $$
declare
    v_total bigint := 0;
    v_row record;
    v_end bigint;
    v_count bigint;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('queen.log_txns_purge', 42)) then
        return 0;
    end if;
    for v_row in
        select d.id, now() - make_interval(secs => d.age) as cutoff
        from (select w.id, w.age
              from (select q.id as queue_id,
                           greatest(q.dedup_window_seconds, q.completed_retention_seconds, 900) as age
                    from queen.queues q) as k
              cross join lateral (
                  select x.id, k.age, x.oldest_txn_at from queen.log_partitions x
                  where x.queue_id = k.queue_id
                    and x.oldest_txn_at < now() - make_interval(secs => k.age)
                  order by x.oldest_txn_at limit p_max_partitions) as w
              order by w.oldest_txn_at limit p_max_partitions) as d
        order by d.id
    loop
        exit when v_total >= p_max_rows;
        perform 1 from queen.log_partitions p where p.id = v_row.id for update skip locked;
        continue when not found;
        select max(t.end_offset), count(*) into v_end, v_count
        from (select x.end_offset, x.created_at from queen.log_txns x
              where x.partition_id = v_row.id order by x.base_offset limit p_max_rows - v_total) as t
        where t.created_at < v_row.cutoff;
        if v_end is not null then
            delete from queen.log_txns t where t.partition_id = v_row.id and t.base_offset <= v_end;
        end if;
        update queen.log_partitions p
        set txns_start = coalesce(v_end + 1, p.txns_start),
            oldest_txn_at = (select t.created_at from queen.log_txns t
                             where t.partition_id = v_row.id order by t.base_offset limit 1)
        where p.id = v_row.id;
        v_total := v_total + coalesce(v_count, 0);
    end loop;
    return v_total;
end
$$;
