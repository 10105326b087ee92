-- log_pop_pending_v1: what a group has not consumed yet on some queues, and when it may.
--
-- Parameters: p_queue_ids; p_partition (name; NULL = all of the queues); p_group
--             p_now  the moment that leases are judged at
-- Returns:    per partition with something behind the cursor:
--             claimable_at  since when it is claimable, or when it will be; NULL when all of it was
--                           deleted, or when missing
--             sure          messages that a claim at claimable_at gets at least
--             missing       the group has no cursor row there
-- Algorithm:  only partitions written since the group had consumed everything (drained_before) are looked at:
--             the cost follows what is active, not how many partitions a queue has.
--             A partition under a live lease is claimable when that ends. Else it is since the latest of:
--             its first pending segment is delayedProcessing old, and windowBuffer old too unless 100
--             messages have gathered; its last lease was released, or ran out.
--             (A window ends at first pending + W: the quiet period that windowBuffer asks for can only
--             end later, and a partition that is written all the time must not starve.)
-- Tables:     queues, consumer_groups_metadata, log_partitions, log_consumers, log_segments (read)
-- Locks:      none
create or replace function queen.log_pop_pending_v1(p_queue_ids uuid[], p_partition text, p_group text,
                                                    p_now timestamptz)
returns table (partition_id uuid, queue_id uuid, claimable_at timestamptz, sure bigint, missing boolean)
language sql stable
as $$
    select p.id, p.queue_id,
           case when c.lease_expires_at >= p_now then c.lease_expires_at
                when h.created_at is not null then
                    greatest(h.created_at + make_interval(secs => greatest(
                                 q.delayed_processing,
                                 case when p.last_offset - w.wanted < 99 then q.window_buffer end)),
                             c.released_at, c.lease_expires_at)
           end,
           case when q.delayed_processing = 0 then p.last_offset else h.end_offset end - w.wanted + 1,
           c.partition_id is null
    from (
        select x.id, x.queue_id, x.last_offset, x.log_start
        from queen.consumer_groups_metadata m
        join queen.log_partitions x on x.queue_id = m.queue_id and x.last_write_at > m.drained_before
        where p_partition is null and m.queue_id = any (p_queue_ids) and m.consumer_group = p_group
        union all
        select x.id, x.queue_id, x.last_offset, x.log_start from queen.log_partitions x
        where x.queue_id = any (p_queue_ids) and x.name = p_partition
    ) as p
    join queen.queues q on q.id = p.queue_id
    left join lateral ( -- limit: a look-up per partition, whatever the statistics make the planner believe
        select x.partition_id, x.committed, x.lease_expires_at, x.released_at from queen.log_consumers x
        where x.partition_id = p.id and x.consumer_group = p_group
        limit 1) as c on true
    cross join lateral (select greatest(c.committed + 1, p.log_start) as wanted) as w
    left join lateral (
        select x.created_at, x.end_offset from queen.log_head_v1(p.id, w.wanted) as x
        where (c.lease_expires_at >= p_now) is not true) as h on true
    where c.partition_id is null or p.last_offset > c.committed;
$$;
