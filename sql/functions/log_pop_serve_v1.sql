-- log_pop_serve_v1: serves locked cursor rows to their claims: reads the segments, writes the leases.
--
-- Parameters: p_claims, p_partition_ids, p_groups  the rows, aligned, in claim order
--             p_budgets, p_lease_seconds (<= 0 = the queue's), p_workers, p_auto_ack  by claim number
-- Returns:    per segment served one row; rank orders the partitions of a claim
-- Algorithm:  from committed + 1 on (over retention gaps), whole or part segments in offset order until
--             the claim's budget is spent, partition after partition; delayedProcessing and windowBuffer
--             are checked again, for the cursor may have moved before it was locked. Then, in the same
--             statement: autoAck commits what is delivered, else the batch is leased. A delivery from the
--             same start as the last one is the next attempt.
-- Tables:     queues, log_partitions, log_segments (read), log_consumers (update)
-- Locks:      the caller holds the log_consumers rows.
create or replace function queen.log_pop_serve_v1(p_claims int[], p_partition_ids uuid[], p_groups text[],
                                                  p_budgets int[], p_lease_seconds int[], p_workers text[],
                                                  p_auto_ack boolean[])
returns table (claim int, rank bigint, queue text, partition_id uuid, partition text, batch_end bigint,
               lease_seconds int, attempt int, base_offset bigint, start_idx int, take int,
               created_at timestamptz, blob bytea)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_now constant timestamptz := clock_timestamp();
begin
    return query
    with cursors as materialized (
        select u.claim, u.rank, q.name as queue, p.id, p.name, c.consumer_group,
               p_budgets[u.claim]::bigint as budget, p_workers[u.claim] as worker,
               p_auto_ack[u.claim] as auto_ack,
               case when p_lease_seconds[u.claim] > 0 then p_lease_seconds[u.claim]
                    else q.lease_time end as lease_seconds,
               make_interval(secs => q.delayed_processing) as delay,
               greatest(c.committed + 1, h.base_offset) as wanted, h.base_offset as head,
               c.attempt_offset, c.attempt_count
        from unnest(p_claims, p_partition_ids, p_groups) with ordinality
             as u (claim, partition_id, consumer_group, rank)
        join queen.log_consumers c
            on c.partition_id = u.partition_id and c.consumer_group = u.consumer_group
        join queen.log_partitions p on p.id = c.partition_id
        join queen.queues q on q.id = p.queue_id
        cross join lateral queen.log_head_v1(p.id, greatest(c.committed + 1, p.log_start)) as h
        where q.window_buffer = 0 or p.last_offset - greatest(c.committed, p.log_start - 1) >= 100
           or h.created_at <= v_now - make_interval(secs => q.window_buffer)
    ), offered as (
        select k.*, s.base_offset, s.created_at, s.blob, greatest(s.base_offset, k.wanted) as low,
               s.end_offset - greatest(s.base_offset, k.wanted) + 1 as frames
        from cursors k
        cross join lateral ( -- limit: a range of the index, not a join that reads the whole partition
            select x.base_offset, x.end_offset, x.created_at, x.blob from queen.log_segments x
            where x.partition_id = k.id and x.base_offset >= k.head and x.base_offset < k.wanted + k.budget
            order by x.base_offset
            limit k.budget) as s
        where s.created_at <= v_now - k.delay
    ), counted as (
        select o.*, sum(o.frames) over (partition by o.claim order by o.rank, o.base_offset) - o.frames as before
        from offered o
    ), served as materialized (
        select c.*, least(c.frames, c.budget - c.before) as take,
               (max(c.low + least(c.frames, c.budget - c.before) - 1) over (partition by c.rank))::bigint as batch_end
        from counted c
        where c.before < c.budget
    ), claimed as (
        update queen.log_consumers c
        set committed = case when b.auto_ack then b.batch_end else c.committed end,
            batch_end = case when not b.auto_ack then b.batch_end end,
            worker_id = case when not b.auto_ack then b.worker end,
            lease_expires_at = case when not b.auto_ack then v_now + make_interval(secs => b.lease_seconds) end,
            lease_acquired_at = case when not b.auto_ack then v_now end,
            lease_conflated = false,
            attempt_offset = case when b.auto_ack then c.attempt_offset else b.wanted end,
            attempt_count = case when b.auto_ack then c.attempt_count
                                 when c.attempt_offset = b.wanted then c.attempt_count + 1
                                 else 1 end,
            released_at = case when b.auto_ack then v_now else c.released_at end,
            handoff_from = null,
            total_consumed = c.total_consumed + case when b.auto_ack then b.messages else 0 end
        from (select s.id, s.consumer_group, s.auto_ack, s.worker, s.lease_seconds, s.wanted, s.batch_end,
                     sum(s.take) as messages
              from served s
              group by s.id, s.consumer_group, s.auto_ack, s.worker, s.lease_seconds, s.wanted, s.batch_end) as b
        where c.partition_id = b.id and c.consumer_group = b.consumer_group
    )
    select s.claim, s.rank, s.queue, s.id, s.name, s.batch_end, s.lease_seconds,
           case when not s.auto_ack and s.attempt_offset = s.wanted then s.attempt_count + 1 else 1 end,
           s.base_offset, (s.low - s.base_offset)::int, s.take::int, s.created_at, s.blob
    from served s;
end
$$;
