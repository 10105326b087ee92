-- trace_add_v1: stores a trace. The message need not exist.
--
-- Parameters: p_id  minted by the caller: a repeat stores nothing more
--             p_partition_id, p_txn  the message's address
--             p_group, p_event, p_data (JSON text), p_worker (NULL = none)
--             p_names  repeats count once
-- Returns:    nothing
-- Tables:     message_traces, message_trace_names (insert)
-- Locks:      none of others'
create or replace function queen.trace_add_v1(p_id uuid, p_partition_id uuid, p_txn bytea, p_group text,
                                              p_event text, p_data text, p_worker text, p_names text[])
returns void
language sql
as $$
    with trace as (
        insert into queen.message_traces (id, partition_id, transaction_id, consumer_group, event_type, data,
                                          worker_id, created_at)
        values (p_id, p_partition_id, p_txn, p_group, p_event, p_data, p_worker, clock_timestamp())
        on conflict do nothing
        returning id, created_at
    )
    insert into queen.message_trace_names (trace_name, created_at, trace_id)
    select distinct u.name, t.created_at, t.id from trace t, unnest(p_names) as u (name);
$$;
