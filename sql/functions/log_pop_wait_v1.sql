-- log_pop_wait_v1: when a group may find something on a queue.
--
-- Parameters: p_queue_id, p_partition (NULL = any), p_group
-- Returns:    milliseconds until something may become claimable; NULL = nothing is pending
-- Algorithm:  over the partitions with something pending: a live lease ends it, the delay or the window
--             of the first pending segment is over; what is claimable now was locked by another claim:
--             20 ms.
-- Tables:     queues, log_partitions, log_consumers, log_segments (read)
-- Locks:      none
create or replace function queen.log_pop_wait_v1(p_queue_id uuid, p_partition text, p_group text)
returns int
language sql stable
as $$
    select (1000 * extract(epoch from min(greatest(t.at - clock_timestamp(), interval '20 milliseconds'))))::int
    from (
        select greatest(
                   case when c.worker_id is not null and c.lease_expires_at >= clock_timestamp()
                        then c.lease_expires_at end,
                   h.created_at + make_interval(secs => q.delayed_processing),
                   case when q.window_buffer > 0 and p.last_offset - c.committed < 100
                        then least(h.created_at, p.last_created_at) + make_interval(secs => q.window_buffer) end,
                   clock_timestamp()) as at
        from queen.queues q
        join queen.log_partitions p on p.queue_id = q.id
        join queen.log_consumers c on c.partition_id = p.id and c.consumer_group = p_group
        cross join lateral (
            select s.created_at from queen.log_segments s
            where s.partition_id = p.id
              and s.base_offset >= coalesce((select b.base_offset
                                             from queen.log_segments b
                                             where b.partition_id = p.id and b.base_offset <= c.committed + 1
                                             order by b.base_offset desc limit 1), c.committed + 1)
              and s.end_offset > c.committed
            order by s.base_offset
            limit 1) as h
        where q.id = p_queue_id and (p_partition is null or p.name = p_partition)
          and p.last_offset > c.committed) as t;
$$;
