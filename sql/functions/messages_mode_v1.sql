-- messages_mode_v1: who consumes the queues of a listing.
--
-- Parameters: p_queue, p_namespace, p_task  '' = all
-- Returns:    one row: is there a queue-mode group, how many named groups are there
-- Tables:     consumer_groups_metadata, queues (read)
-- Locks:      none
create or replace function queen.messages_mode_v1(p_queue text, p_namespace text, p_task text)
returns table (queue_mode boolean, bus_groups bigint)
language sql stable
as $$
    select coalesce(bool_or(m.consumer_group = '__QUEUE_MODE__'), false),
           count(distinct m.consumer_group) filter (where m.consumer_group <> '__QUEUE_MODE__')
    from queen.queues q
    join queen.consumer_groups_metadata m on m.queue_id = q.id
    where (p_queue = '' or q.name = p_queue) and (p_namespace = '' or q.namespace = p_namespace)
      and (p_task = '' or q.task = p_task);
$$;
