-- maintenance_set_v1: turns a maintenance switch on or off.
--
-- Parameters: p_key      maintenance_mode or pop_maintenance_mode
--             p_enabled  what it shall be
-- Returns:    one row: both switches as they are now
-- Tables:     system_state (upsert)
-- Locks:      the row of system_state
create or replace function queen.maintenance_set_v1(p_key text, p_enabled boolean)
returns table (push boolean, pop boolean)
language plpgsql
as $$
begin
    if p_key is null or p_key not in ('maintenance_mode', 'pop_maintenance_mode') or p_enabled is null then
        raise exception 'no such switch: %', p_key using errcode = '22023';
    end if;
    insert into queen.system_state as s (key, value, updated_at)
    values (p_key, jsonb_build_object('enabled', p_enabled), clock_timestamp())
    on conflict (key) do update set value = excluded.value, updated_at = excluded.updated_at;
    return query select g.push, g.pop from queen.maintenance_get_v1() as g;
end
$$;
