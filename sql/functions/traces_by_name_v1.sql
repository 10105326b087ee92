-- traces_by_name_v1: the traces that carry a name, oldest first; those of deleted partitions do not show.
--
-- Parameters: p_name
--             p_limit, p_offset
-- Returns:    the number of all of them on every row; then one row per trace of the page. A page
--             without traces is one row whose id is NULL
-- Tables:     message_traces, message_trace_names, log_partitions, queues (read)
-- Locks:      none
create or replace function queen.traces_by_name_v1(p_name text, p_limit int, p_offset int)
returns table (total bigint, id uuid, event_type text, data text, consumer_group text, worker_id text,
               created_at timestamptz, names text, transaction_id bytea, partition_id uuid, queue text, partition text)
language sql stable
as $$
    select a.total, t.id, t.event_type, t.data, t.consumer_group, t.worker_id, t.created_at,
           (select json_agg(o.trace_name order by o.trace_name)::text
            from queen.message_trace_names o where o.trace_id = t.id),
           t.transaction_id, t.partition_id, t.queue, t.partition
    from (select count(*) as total
          from queen.message_trace_names n
          join queen.message_traces m on m.id = n.trace_id
          join queen.log_partitions p on p.id = m.partition_id
          where n.trace_name = p_name) as a
    left join (select m.*, q.name as queue, p.name as partition
               from queen.message_trace_names n
               join queen.message_traces m on m.id = n.trace_id
               join queen.log_partitions p on p.id = m.partition_id
               join queen.queues q on q.id = p.queue_id
               where n.trace_name = p_name
               order by n.created_at, n.trace_id
               limit p_limit offset p_offset) as t on true
    order by t.created_at, t.id;
$$;
