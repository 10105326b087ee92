-- switch_is_on_v1: whether an operator's switch is on; one that was never set is.
--
-- Parameters: p_key  row of system_state: kv_enabled, timers_schedule_enabled, timers_fire_enabled
-- Returns:    false only when the row says {"enabled":false}
-- Tables:     system_state (read)
-- Locks:      none
create or replace function queen.switch_is_on_v1(p_key text)
returns boolean
language sql stable
as $$
    select not exists (select 1 from queen.system_state s
                       where s.key = p_key and s.value ->> 'enabled' = 'false');
$$;
