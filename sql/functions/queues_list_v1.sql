-- queues_list_v1: the queues by name, with what lies in them.
--
-- Parameters: p_limit, p_offset
-- Returns:    the answer of GET /api/v1/resources/queues (contract 2, section 1), as text
-- Tables:     queues, queue_usage, those of queue_load_v1 (read)
-- Locks:      none
create or replace function queen.queues_list_v1(p_limit int, p_offset int)
returns text
language sql stable
as $$
    with page as materialized (
        select q.id, q.name, q.namespace, q.task, q.created_at
        from queen.queues q order by q.name limit p_limit offset p_offset
    )
    select json_build_object('queues', coalesce(json_agg(json_build_object(
               'id', q.id, 'name', q.name, 'namespace', q.namespace, 'task', q.task,
               'createdAt', queen.time_text_v1(q.created_at)::json,
               'partitions', coalesce(l.partitions, 0), 'retainedBytes', coalesce(u.bytes, 0),
               'segments', json_build_object('segments', coalesce(u.segments, 0), 'messages', coalesce(l.total, 0)),
               'messages', json_build_object('total', coalesce(l.total, 0), 'pending', coalesce(l.pending, 0),
                                             'processing', coalesce(l.processing, 0)))
               order by q.name), '[]'))::text
    from page q
    left join queen.queue_load_v1(array(select id from page)) as l on l.queue_id = q.id
    left join queen.queue_usage u on u.queue_id = q.id;
$$;
