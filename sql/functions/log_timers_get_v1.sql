-- log_timers_get_v1: one timer with its message.
--
-- Parameters: p_queue, p_key  which
-- Returns:    its row, or none
-- Tables:     log_timers (read)
-- Locks:      none
create or replace function queen.log_timers_get_v1(p_queue text, p_key text)
returns table (timer_key text, partition text, deliver_at timestamptz, txn bytea, message_id uuid,
               attempts int, last_error text, created_at timestamptz, updated_at timestamptz, blob bytea)
language sql stable
as $$
    select t.timer_key, t.partition, t.deliver_at, t.txn, t.message_id, t.attempts, t.last_error,
           t.created_at, t.updated_at, t.blob
    from queen.log_timers t
    where t.queue = p_queue and t.timer_key = p_key;
$$;
