-- consumer_lag_v1: how far each cursor is behind.
--
-- Parameters: p_group  one consumer group; NULL = all
-- Returns:    a row per cursor: lag in offsets (what is deleted does not count), oldest = created_at of the
--             first segment it has not consumed (NULL: nothing pending), leased = a lease is live
-- Algorithm:  watermarks; a cursor that lags costs one or two probes of the segments' primary key
-- Tables:     log_consumers, log_partitions, queues, log_segments (read)
-- Locks:      none
create or replace function queen.consumer_lag_v1(p_group text)
returns table (queue_id uuid, queue text, partition_id uuid, partition text, consumer_group text,
               worker_id text, leased boolean, total_consumed bigint, lag bigint, oldest timestamptz)
language sql stable
as $$
    select q.id, q.name, p.id, p.name, c.consumer_group, c.worker_id,
           coalesce(c.lease_expires_at >= clock_timestamp(), false), c.total_consumed, l.lag, h.created_at
    from queen.log_consumers c
    join queen.log_partitions p on p.id = c.partition_id
    join queen.queues q on q.id = p.queue_id
    cross join lateral (
        select greatest(p.last_offset - greatest(c.committed, p.log_start - 1), 0) as lag) as l
    left join lateral (
        select x.created_at from queen.log_head_v1(p.id, greatest(c.committed + 1, p.log_start)) as x
        where l.lag > 0) as h on true
    where p_group is null or c.consumer_group = p_group;
$$;
