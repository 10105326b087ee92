-- status_queue_v1: one queue and its partitions, live.
--
-- Parameters: p_queue
--             p_limit, p_offset  of its partitions, by name; the totals are over all
-- Returns:    the answer of GET /api/v1/status/queues/:queue (contract 2, section 8), as text; NULL = no
--             such queue
-- Tables:     queues, log_segments, those of partition_load_v1 (read)
-- Locks:      none
create or replace function queen.status_queue_v1(p_queue text, p_limit int, p_offset int)
returns text
language sql stable
as $$
    select json_build_object(
        'queue', json_build_object(
            'id', q.id, 'name', q.name, 'namespace', q.namespace, 'task', q.task, 'priority', q.priority,
            'createdAt', queen.time_text_v1(q.created_at)::json,
            'config', json_build_object('leaseTime', q.lease_time, 'retryLimit', q.retry_limit, 'retryDelay', q.retry_delay,
                                        'ttl', q.ttl, 'maxQueueSize', q.max_size,
                                        'deadLetterQueue', q.dead_letter_queue or q.dlq_after_max_retries)),
        'partitions', coalesce(l.partitions, '[]'),
        'totals', json_build_object('messages', queen.load_json_v1(t.total, t.pending, t.processing, t.completed, t.dead)))::text
    from queen.queues q
    left join lateral (select * from queen.queue_load_v1(array[q.id])) as t on true
    cross join lateral (
        select json_agg(json_build_object(
                   'id', p.partition_id, 'name', p.partition, 'createdAt', queen.time_text_v1(p.created_at)::json,
                   'messages', p.load, 'stats', p.load,
                   'cursor', json_build_object('totalConsumed', p.consumed, 'batchesConsumed', 0),
                   'lastActivity', queen.time_text_v1(nullif(p.last_write_at, '-infinity'))::json,
                   'oldestMessage', queen.time_text_v1(h.created_at)::json,
                   'newestMessage', queen.time_text_v1(p.newest)::json) order by p.partition) as partitions
        from (select x.*, queen.load_json_v1(x.total, x.pending, x.processing,
                                             greatest(x.total - x.pending - x.dead, 0), x.dead) as load
              from queen.partition_load_v1(array[q.id]) as x
              order by x.partition limit p_limit offset p_offset) as p
        left join lateral (select y.created_at from queen.log_head_v1(p.partition_id, p.wanted) as y
                           where p.pending > 0) as h on true) as l
    where q.name = p_queue;
$$;
