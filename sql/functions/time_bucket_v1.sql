-- time_bucket_v1: start of the point of a time series that a moment belongs to.
create or replace function queen.time_bucket_v1(p_minutes int, p_time timestamptz)
returns timestamptz
language sql immutable
as $$
    select date_bin(make_interval(mins => p_minutes), p_time, '2000-01-01 00:00:00+00');
$$;
