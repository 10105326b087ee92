-- log_timers_count_v1: how many timers of a queue have keys that start with a prefix.
--
-- Parameters: p_queue, p_prefix  the prefix is not empty
-- Returns:    the number
-- Algorithm:  counts along the primary key and stops at the first key behind the prefix.
-- Tables:     log_timers (read)
-- Locks:      none
create or replace function queen.log_timers_count_v1(p_queue text, p_prefix text)
returns bigint
language plpgsql stable
as $$
declare
    v_key text;
    v_count bigint := 0;
begin
    for v_key in
        select t.timer_key from queen.log_timers t
        where t.queue = p_queue and t.timer_key >= p_prefix
        order by t.timer_key
    loop
        exit when not starts_with(v_key, p_prefix);
        v_count := v_count + 1;
    end loop;
    return v_count;
end
$$;
