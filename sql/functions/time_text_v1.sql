-- time_text_v1: a point in time as JSON: UTC, microseconds, literal Z, with quotes; NULL becomes null.
create or replace function queen.time_text_v1(p_time timestamptz)
returns text
language sql immutable
as $$
    select coalesce(to_char(p_time at time zone 'UTC', '"\""YYYY-MM-DD"T"HH24:MI:SS.US"Z\""'), 'null');
$$;
