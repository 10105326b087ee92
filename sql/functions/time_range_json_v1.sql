-- time_range_json_v1: a window as the answers write it.
create or replace function queen.time_range_json_v1(p_since timestamptz, p_until timestamptz)
returns json
language sql immutable
as $$
    select json_build_object('from', queen.time_text_v1(p_since)::json, 'to', queen.time_text_v1(p_until)::json);
$$;
