-- seconds_since_v1: whole seconds from a moment until now, never negative; NULL becomes 0.
create or replace function queen.seconds_since_v1(p_time timestamptz)
returns bigint
language sql stable
as $$
    select coalesce(greatest(floor(extract(epoch from clock_timestamp() - p_time))::bigint, 0), 0);
$$;
