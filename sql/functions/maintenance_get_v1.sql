-- maintenance_get_v1: the maintenance switches.
--
-- Returns:    one row: push (pushes go to the spool), pop (every pop is empty); absent rows are off
-- Tables:     system_state (read)
-- Locks:      none
create or replace function queen.maintenance_get_v1()
returns table (push boolean, pop boolean)
language sql stable
as $$
    select coalesce(bool_or(s.key = 'maintenance_mode' and s.value = '{"enabled": true}'), false),
           coalesce(bool_or(s.key = 'pop_maintenance_mode' and s.value = '{"enabled": true}'), false)
    from queen.system_state s
    where s.key in ('maintenance_mode', 'pop_maintenance_mode')
$$;
