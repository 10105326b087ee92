-- traces_of_message_v1: the traces of a message, oldest first.
--
-- Parameters: p_partition_id, p_txn  its address
--             p_limit, p_offset
-- Returns:    one row per trace; names sorted, as JSON
-- Tables:     message_traces, message_trace_names (read)
-- Locks:      none
create or replace function queen.traces_of_message_v1(p_partition_id uuid, p_txn bytea, p_limit int, p_offset int)
returns table (id uuid, event_type text, data text, consumer_group text, worker_id text, created_at timestamptz,
               names text)
language sql stable
as $$
    select t.id, t.event_type, t.data, t.consumer_group, t.worker_id, t.created_at,
           coalesce((select json_agg(n.trace_name order by n.trace_name)::text
                     from queen.message_trace_names n where n.trace_id = t.id), '[]')
    from queen.message_traces t
    where t.partition_id = p_partition_id and md5(t.transaction_id) = md5(p_txn) and t.transaction_id = p_txn
    order by t.created_at, t.id
    limit p_limit offset p_offset;
$$;
