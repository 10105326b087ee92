-- switches_set_v1: the operator's switches of key/value and timers.
--
-- Parameters: p_kv, p_timers_schedule, p_timers_fire  NULL = untouched
-- Returns:    the three switches as they are then
-- Tables:     system_state (insert, update)
-- Locks:      the system_state rows, in ascending order of their keys
create or replace function queen.switches_set_v1(p_kv boolean, p_timers_schedule boolean, p_timers_fire boolean)
returns table (kv boolean, timers_schedule boolean, timers_fire boolean)
language plpgsql
as $$
begin
    insert into queen.system_state as s (key, value, updated_at)
    select u.key, jsonb_build_object('enabled', u.enabled), clock_timestamp()
    from (values ('kv_enabled', p_kv), ('timers_fire_enabled', p_timers_fire),
                 ('timers_schedule_enabled', p_timers_schedule)) as u (key, enabled)
    where u.enabled is not null
    order by u.key
    on conflict (key) do update set value = excluded.value, updated_at = excluded.updated_at;
    return query select queen.switch_is_on_v1('kv_enabled'), queen.switch_is_on_v1('timers_schedule_enabled'),
                        queen.switch_is_on_v1('timers_fire_enabled');
end
$$;
