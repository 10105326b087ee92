-- log_timers_page_v1: timers of a queue in byte order of their keys.
--
-- Parameters: p_queue  the queue
--             p_after  exclusive; '' = from the first
--             p_limit  most rows
-- Returns:    the rows, without their message
-- Tables:     log_timers (read)
-- Locks:      none
create or replace function queen.log_timers_page_v1(p_queue text, p_after text, p_limit int)
returns table (timer_key text, partition text, deliver_at timestamptz, txn bytea, message_id uuid,
               attempts int, last_error text, created_at timestamptz, updated_at timestamptz)
language sql stable
as $$
    select t.timer_key, t.partition, t.deliver_at, t.txn, t.message_id, t.attempts, t.last_error,
           t.created_at, t.updated_at
    from queen.log_timers t
    where t.queue = p_queue and t.timer_key > p_after
    order by t.timer_key
    limit p_limit;
$$;
