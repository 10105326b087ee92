-- queue_load_v1: partition_load_v1, summed per queue.
--
-- Parameters: p_queue_ids
-- Returns:    a row per queue that has partitions; completed = neither pending nor dead-lettered
-- Tables:     those of partition_load_v1 (read)
-- Locks:      none
create or replace function queen.queue_load_v1(p_queue_ids uuid[])
returns table (queue_id uuid, partitions bigint, total bigint, pending bigint, processing bigint,
               completed bigint, dead bigint, consumed bigint, pushed bigint)
language sql stable
as $$
    select l.queue_id, count(*), sum(l.total)::bigint, sum(l.pending)::bigint, sum(l.processing)::bigint,
           sum(greatest(l.total - l.pending - l.dead, 0))::bigint, sum(l.dead)::bigint,
           sum(l.consumed)::bigint, sum(l.last_offset + 1)::bigint
    from queen.partition_load_v1(p_queue_ids) as l
    group by l.queue_id;
$$;
