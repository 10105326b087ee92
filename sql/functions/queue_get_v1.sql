-- queue_get_v1: one queue with its options and partitions, live.
--
-- Parameters: p_queue
--             p_limit, p_offset  of its partitions, by name; the totals are over all
-- Returns:    the answer of GET /api/v1/resources/queues/:queue (contract 2, section 1), as text; NULL = no
--             such queue
-- Tables:     queues, queue_usage, log_segments, those of partition_load_v1 (read)
-- Locks:      none
create or replace function queen.queue_get_v1(p_queue text, p_limit int, p_offset int)
returns text
language sql stable
as $$
    select json_build_object(
        'id', q.id, 'name', q.name, 'namespace', q.namespace, 'task', q.task,
        'createdAt', queen.time_text_v1(q.created_at)::json,
        'options', (select json_object_agg(o.option, to_jsonb(q) -> o.col) from queen.queue_options_v1() as o),
        'partitions', coalesce(l.partitions, '[]'),
        'totals', queen.load_json_v1(t.total, t.pending, t.processing, t.completed, t.dead),
        'retainedBytes', coalesce(u.bytes, 0),
        'segments', json_build_object('segments', coalesce(u.segments, 0), 'messages', coalesce(t.total, 0)))::text
    from queen.queues q
    left join queen.queue_usage u on u.queue_id = q.id
    left join lateral (select * from queen.queue_load_v1(array[q.id])) as t on true
    cross join lateral (
        select json_agg(json_build_object(
                   'id', p.partition_id, 'name', p.partition,
                   'createdAt', queen.time_text_v1(p.created_at)::json,
                   'stats', queen.load_json_v1(p.total, p.pending, p.processing,
                                               greatest(p.total - p.pending - p.dead, 0), p.dead),
                   'oldestMessage', queen.time_text_v1(h.created_at)::json,
                   'newestMessage', queen.time_text_v1(p.newest)::json) order by p.partition) as partitions
        from (select * from queen.partition_load_v1(array[q.id]) as x
              order by x.partition limit p_limit offset p_offset) as p
        left join lateral (select y.created_at from queen.log_head_v1(p.partition_id, p.wanted) as y
                           where p.pending > 0) as h on true) as l
    where q.name = p_queue;
$$;
