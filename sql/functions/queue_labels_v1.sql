-- queue_labels_v1: the namespaces or the tasks that queues carry, with what lies under each.
--
-- Parameters: p_label            namespace or task
--             p_limit, p_offset
-- Returns:    the answer of GET /api/v1/resources/namespaces and /tasks (contract 2, section 1), as text
-- Tables:     queues, those of queue_load_v1 (read)
-- Locks:      none
create or replace function queen.queue_labels_v1(p_label text, p_limit int, p_offset int)
returns text
language sql stable
as $$
    select json_build_object(p_label || 's', coalesce(json_agg(json_build_object(
               p_label, t.label, 'queues', t.queues, 'partitions', t.partitions,
               'messages', json_build_object('total', t.total, 'pending', t.pending)) order by t.label), '[]'))::text
    from (select q.label, count(*) as queues, coalesce(sum(l.partitions), 0) as partitions,
                 coalesce(sum(l.total), 0) as total, coalesce(sum(l.pending), 0) as pending
          from (select x.id, case p_label when 'namespace' then x.namespace else x.task end as label
                from queen.queues x) as q
          left join queen.queue_load_v1(array(select x.id from queen.queues x)) as l on l.queue_id = q.id
          where q.label <> ''
          group by q.label
          order by q.label
          limit p_limit offset p_offset) as t;
$$;
