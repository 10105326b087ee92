-- log_timers_defer_v1: puts off the one timer that is due first and cannot be fired, so that it does not
-- hold up the others.
--
-- Parameters: p_error  why it failed; kept for whoever looks at the timer
-- Returns:    nothing
-- Algorithm:  a pause of 1 s, doubled with every attempt, at most a minute; deliver_at stays as promised.
-- Tables:     log_timers (update)
-- Locks:      one log_timers row, never waiting
create or replace function queen.log_timers_defer_v1(p_error text)
returns void
language sql
as $$
    update queen.log_timers t
    set attempts = t.attempts + 1,
        last_error = left(p_error, 500),
        visible_at = clock_timestamp() + least(power(2, least(t.attempts, 6)), 60) * interval '1 second'
    from (select x.queue, x.timer_key
          from queen.log_timers x
          where x.visible_at <= now()
          order by x.visible_at limit 1
          for update skip locked) as d
    where t.queue = d.queue and t.timer_key = d.timer_key;
$$;
