-- kv_limit_v1: the page size that a JSON number asks for: 100 by default, 1 to 1000.
create or replace function queen.kv_limit_v1(p_limit jsonb)
returns int
language sql immutable
as $$
    select case when jsonb_typeof(p_limit) = 'number'
                then least(greatest(trunc(p_limit::numeric), 1), 1000)::int
                else 100 end;
$$;
