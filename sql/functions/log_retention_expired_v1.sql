-- log_retention_expired_v1: one bounded step of the rules that look at age alone.
--
-- Parameters: p_max_partitions, p_max_segments (per partition)
-- Returns:    segments deleted; 0 = nothing is due, or another host is at it
-- Algorithm:  per queue the later of two moments: retentionSeconds ago when retention is enabled, and
--             maxWaitTimeSeconds ago, which needs no switch and ignores leases. The work list is the index
--             (queue_id, oldest_live_at): the cost follows what is due, not the number of partitions.
-- Tables:     queues (read), log_partitions (update), log_segments (delete), retention_history (insert)
-- Locks, in order: advisory (try), log_partitions FOR UPDATE SKIP LOCKED ascending by id.
create or replace function queen.log_retention_expired_v1(p_max_partitions int, p_max_segments int)
returns bigint
language plpgsql
as $$
declare
    v_total bigint := 0;
    v_row record;
    v_cut record;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('queen.log_retention_expired', 42)) then
        return 0;
    end if;
    for v_row in
        select p.id, p.queue_id, d.before, d.kind
        from (select w.id, k.before, k.kind
              from (select q.id as queue_id,
                           greatest(r.retention, r.wait) as before,
                           case when r.wait is not null and r.wait >= coalesce(r.retention, r.wait)
                                then 'max_wait_time_eviction' else 'retention' end as kind
                    from queen.queues q
                    cross join lateral (
                        select case when q.retention_enabled and q.retention_seconds > 0
                                    then clock_timestamp() - make_interval(secs => q.retention_seconds) end as retention,
                               case when q.max_wait_time_seconds > 0
                                    then clock_timestamp() - make_interval(secs => q.max_wait_time_seconds) end as wait
                    ) as r
                    where coalesce(r.retention, r.wait) is not null) as k
              cross join lateral (
                  select x.id, x.oldest_live_at from queen.log_partitions x
                  where x.queue_id = k.queue_id and x.oldest_live_at < k.before
                  order by x.oldest_live_at
                  limit p_max_partitions) as w
              order by w.oldest_live_at
              limit p_max_partitions) as d
        join queen.log_partitions p on p.id = d.id
        order by p.id
        for update of p skip locked
    loop
        select * into v_cut from queen.log_retention_cut_v1(v_row.id, v_row.before, null, p_max_segments);
        if v_cut.segments > 0 then
            v_total := v_total + v_cut.segments;
            insert into queen.retention_history (queue_id, retention_type, segments, messages)
            values (v_row.queue_id, v_row.kind, v_cut.segments, v_cut.messages);
        end if;
    end loop;
    return v_total;
end
$$;
