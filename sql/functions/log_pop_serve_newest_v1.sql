-- log_pop_serve_newest_v1: serves locked cursor rows to conflating claims: the newest message of each.
--
-- Parameters: as log_pop_serve_v1; a claim has no budget here, its partitions were counted out
-- Returns:    per partition one row, as log_pop_serve_v1; conflated: the pending messages that the one
--             stands for
-- Algorithm:  the last message of the newest segment that delayedProcessing lets through. The lease (or,
--             with autoAck, the commit) spans everything from committed + 1 up to it; a delivery from the
--             same start is the next attempt, also when a newer message has come.
-- Tables:     queues, log_partitions, log_segments (read), log_consumers (update)
-- Locks:      the caller holds the log_consumers rows.
create or replace function queen.log_pop_serve_newest_v1(p_claims int[], p_partition_ids uuid[],
                                                         p_groups text[], p_lease_seconds int[],
                                                         p_workers text[], p_auto_ack boolean[])
returns table (claim int, rank bigint, queue text, partition_id uuid, partition text, batch_end bigint,
               lease_seconds int, attempt int, base_offset bigint, start_idx int, take int,
               created_at timestamptz, blob bytea, conflated int)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
begin
    return query
    with served as materialized (
        select u.claim, u.rank, q.name as queue, p.id, p.name, c.consumer_group, c.committed,
               p_workers[u.claim] as worker, p_auto_ack[u.claim] as auto_ack,
               case when p_lease_seconds[u.claim] > 0 then p_lease_seconds[u.claim]
                    else q.lease_time end as lease_seconds,
               greatest(c.committed + 1, h.base_offset) as wanted, c.attempt_offset, c.attempt_count,
               s.base_offset, s.end_offset, s.created_at, s.blob
        from unnest(p_claims, p_partition_ids, p_groups) with ordinality
             as u (claim, partition_id, consumer_group, rank)
        join queen.log_consumers c
            on c.partition_id = u.partition_id and c.consumer_group = u.consumer_group
        join queen.log_partitions p on p.id = c.partition_id
        join queen.queues q on q.id = p.queue_id
        cross join lateral queen.log_head_v1(p.id, greatest(c.committed + 1, p.log_start)) as h
        cross join lateral (
            select x.base_offset, x.end_offset, x.created_at, x.blob
            from queen.log_segments x
            where x.partition_id = p.id and x.base_offset >= h.base_offset
              and x.created_at <= v_now - make_interval(secs => q.delayed_processing)
            order by x.base_offset desc
            limit 1) as s
        where q.window_buffer = 0 or p.last_offset - greatest(c.committed, p.log_start - 1) >= 100
           or h.created_at <= v_now - make_interval(secs => q.window_buffer)
    ), claimed as (
        update queen.log_consumers c
        set committed = case when s.auto_ack then s.end_offset else c.committed end,
            batch_end = case when not s.auto_ack then s.end_offset end,
            worker_id = case when not s.auto_ack then s.worker end,
            lease_expires_at = case when not s.auto_ack then v_now + make_interval(secs => s.lease_seconds) end,
            lease_acquired_at = case when not s.auto_ack then v_now end,
            lease_conflated = true,
            attempt_offset = case when s.auto_ack then c.attempt_offset else s.wanted end,
            attempt_count = case when s.auto_ack then c.attempt_count
                                 when c.attempt_offset = s.wanted then c.attempt_count + 1
                                 else 1 end,
            released_at = case when s.auto_ack then v_now else c.released_at end,
            handoff_from = null,
            total_consumed = c.total_consumed + case when s.auto_ack then s.end_offset - c.committed else 0 end
        from served s
        where c.partition_id = s.id and c.consumer_group = s.consumer_group
    )
    select s.claim, s.rank, s.queue, s.id, s.name, s.end_offset, s.lease_seconds,
           case when not s.auto_ack and s.attempt_offset = s.wanted then s.attempt_count + 1 else 1 end,
           s.base_offset, (s.end_offset - s.base_offset)::int, 1, s.created_at, s.blob,
           least(s.end_offset - s.committed - 1, 2147483647)::int
    from served s;
end
$$;
