-- json_number_v1: a number of a JSON object; absent = 0.
create or replace function queen.json_number_v1(p_object jsonb, p_key text)
returns numeric
language sql immutable
as $$
    select coalesce((p_object ->> p_key)::numeric, 0);
$$;
