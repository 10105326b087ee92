-- status_queues_v1: the queues, newest first, with their message counts.
--
-- Parameters: p_queue, p_namespace, p_task  '' = all
--             p_limit, p_offset
-- Returns:    the answer of GET /api/v1/status/queues (contract 2, section 8), as text
-- Tables:     queues, those of queue_load_v1 (read)
-- Locks:      none
create or replace function queen.status_queues_v1(p_queue text, p_namespace text, p_task text, p_limit int, p_offset int)
returns text
language sql stable
as $$
    with page as materialized (
        select q.* from queen.queues q
        where (p_queue = '' or q.name = p_queue) and (p_namespace = '' or q.namespace = p_namespace)
          and (p_task = '' or q.task = p_task)
        order by q.created_at desc, q.name limit p_limit offset p_offset
    )
    select json_build_object('queues', coalesce(json_agg(json_build_object(
               'id', q.id, 'name', q.name, 'namespace', q.namespace, 'task', q.task,
               'createdAt', queen.time_text_v1(q.created_at)::json, 'partitions', coalesce(l.partitions, 0),
               'messages', json_build_object(
                   'total', coalesce(l.total, 0), 'pending', coalesce(l.pending, 0), 'processing', coalesce(l.processing, 0),
                   'completed', coalesce(l.completed, 0), 'deadLetter', coalesce(l.dead, 0)))
               order by q.created_at desc, q.name), '[]'),
           'pagination', json_build_object('limit', p_limit, 'offset', p_offset))::text
    from page q
    left join queen.queue_load_v1(array(select id from page)) as l on l.queue_id = q.id;
$$;
