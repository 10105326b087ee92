-- log_pop_wait_v1: after a claim that got nothing: when may there be something?
--
-- Parameters: p_queue_ids, p_partition (NULL = any), p_group
-- Returns:    milliseconds, at least 20; NULL = nothing is pending
-- Algorithm:  the earliest claimable_at of log_pop_pending_v1; what is claimable already is locked by
--             another call right now: 20 ms. Two things are mended on the way: a cursor whose pending
--             segments were all deleted is sealed to last_offset, and cursor rows that were deleted while
--             the group's subscription stayed are made again. Nothing pending at all is remembered
--             (log_pop_drained_v1).
-- Tables:     those of log_pop_pending_v1 (read), log_consumers (update, insert)
-- Locks, in order: log_consumers FOR UPDATE SKIP LOCKED of sealed cursors; or advisory (try), then
--             log_consumers_seed_v1's; or consumer_groups_metadata FOR UPDATE SKIP LOCKED. None when nothing is to be mended.
create or replace function queen.log_pop_wait_v1(p_queue_ids uuid[], p_partition text, p_group text)
returns int
language plpgsql
as $$
declare
    c_soon constant int := 20;      -- ms
    v_now constant timestamptz := clock_timestamp();
    v_at timestamptz;
    v_gone uuid[];
    v_missing uuid[];
    v_queues uuid[];
    v_moved bigint[];
    v_since timestamptz;
begin
    -- Before the look: what commits after it must be younger than the horizon.
    select array_agg(m.queue_id), array_agg(m.moved),
           case when bool_or(m.drained_before < v_now - interval '2 minutes') then queen.log_pop_horizon_v1() end
    into v_queues, v_moved, v_since
    from queen.consumer_groups_metadata m
    where m.queue_id = any (p_queue_ids) and m.consumer_group = p_group;
    select min(k.claimable_at), array_agg(distinct k.queue_id) filter (where k.missing),
           array_agg(k.partition_id) filter (where k.claimable_at is null and not k.missing)
    into v_at, v_missing, v_gone
    from queen.log_pop_pending_v1(p_queue_ids, p_partition, p_group, v_now) as k;

    if v_missing is not null then
        select array_agg(m) into v_missing
        from unnest(v_missing) as m
        where pg_try_advisory_xact_lock(hashtextextended(m || '/' || p_group, 42));
        if v_missing is not null then
            perform queen.log_consumers_seed_v1(v_missing, array_fill(p_group, array[cardinality(v_missing)]));
        end if;
        return c_soon;
    end if;
    if v_gone is not null then
        update queen.log_consumers c
        set committed = t.last_offset
        from (select l.partition_id, p.last_offset
              from queen.log_consumers l
              join queen.log_partitions p on p.id = l.partition_id
              where l.partition_id = any (v_gone) and l.consumer_group = p_group
                and p.last_offset > l.committed
                and coalesce((select s.end_offset from queen.log_segments s
                              where s.partition_id = p.id
                              order by s.base_offset desc limit 1), -1) <= l.committed
              for update of l skip locked) as t
        where c.partition_id = t.partition_id and c.consumer_group = p_group;
    end if;
    if v_at is null then
        if v_gone is null and p_partition is null and v_since is not null then
            perform queen.log_pop_drained_v1(v_queues, v_moved, v_since, p_group);
        end if;
        return null;
    end if;
    return least(greatest(ceil(1000 * extract(epoch from v_at - v_now)), c_soon), 2147483647)::int;
end
$$;
