-- metrics_rollup_v1: adds what an instance counted since its last call to the time series.
--
-- Parameters: p_host, p_instance
--             p_counter_names, p_counters  running totals, aligned
--             p_gauge_names, p_gauges      as they stand, aligned
-- Returns:    whether a row was written: not at an instance's first call, which only sets the mark
-- Algorithm:  a total that is lower than last time says that the instance began anew: then all of it is new.
--             The row belongs to the minute in the middle of the time it covers; two in one minute add up.
-- Tables:     metrics_last, metrics_minute (insert, update)
-- Locks, in order: the metrics_last row, the metrics_minute row
create or replace function queen.metrics_rollup_v1(p_host text, p_instance text, p_counter_names text[],
                                                   p_counters bigint[], p_gauge_names text[], p_gauges bigint[])
returns boolean
language plpgsql
as $$
declare
    v_now constant timestamptz := clock_timestamp();
    v_counters constant jsonb := (select jsonb_object_agg(n, v) from unnest(p_counter_names, p_counters) as u (n, v));
    v_last queen.metrics_last;
    v_anew boolean;
    v_seconds real;
    v_difference jsonb;
begin
    select * into v_last from queen.metrics_last l where l.host = p_host and l.instance = p_instance for update;
    insert into queen.metrics_last as l (host, instance, counters, taken_at)
    values (p_host, p_instance, v_counters, v_now)
    on conflict (host, instance) do update set counters = excluded.counters, taken_at = excluded.taken_at;
    if v_last.host is null then
        return false;
    end if;
    v_seconds := greatest(extract(epoch from v_now - v_last.taken_at), 0.001);
    select bool_or(u.v < queen.json_number_v1(v_last.counters, u.n)) into v_anew
    from unnest(p_counter_names, p_counters) as u (n, v);
    select coalesce(jsonb_object_agg(t.n, t.d) filter (where t.d <> 0), '{}') into v_difference
    from (select u.n, u.v - case when v_anew then 0 else queen.json_number_v1(v_last.counters, u.n) end as d
          from unnest(p_counter_names, p_counters) as u (n, v)) as t;
    insert into queen.metrics_minute as m (minute, host, instance, seconds, counters, gauges)
    select date_trunc('minute', v_now - make_interval(secs => v_seconds / 2)), p_host, p_instance, v_seconds, v_difference,
           coalesce((select jsonb_object_agg(n, v) from unnest(p_gauge_names, p_gauges) as u (n, v)), '{}')
    on conflict (minute, host, instance) do update
    set seconds = m.seconds + excluded.seconds, gauges = excluded.gauges,
        counters = (select coalesce(jsonb_object_agg(t.key, t.value), '{}')
                    from (select e.key, sum(e.value::numeric) as value
                          from (select * from jsonb_each_text(m.counters)
                                union all select * from jsonb_each_text(excluded.counters)) as e
                          group by e.key) as t);
    return true;
end
$$;
