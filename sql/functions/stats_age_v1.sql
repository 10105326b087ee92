-- stats_age_v1: seconds since the queues were last measured, -1 = never.
--
-- Tables:     queue_usage (read)
-- Locks:      none
create or replace function queen.stats_age_v1()
returns bigint
language sql stable
as $$
    select case when max(u.measured_at) is null then -1 else queen.seconds_since_v1(max(u.measured_at)) end
    from queen.queue_usage u;
$$;
