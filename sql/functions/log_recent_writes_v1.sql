-- log_recent_writes_v1: the queues that were written to lately.
--
-- Parameters: p_since  last_write_at is quantised to one second: the caller allows for it
-- Returns:    distinct queue names
-- Tables:     log_partitions (index range on last_write_at), queues (read)
-- Locks:      none
create or replace function queen.log_recent_writes_v1(p_since timestamptz)
returns table (queue text)
language sql stable
as $$
    select q.name
    from (select distinct p.queue_id from queen.log_partitions p where p.last_write_at >= p_since) as t
    join queen.queues q on q.id = t.queue_id;
$$;
