-- gauge_json_v1: one gauge over the minutes of a point.
--
-- Parameters: p_gauges  minute -> gauges, as metrics_series_v1 gives them
--             p_name
-- Returns:    {avg, min, max, last}
create or replace function queen.gauge_json_v1(p_gauges jsonb, p_name text)
returns json
language sql immutable
as $$
    select json_build_object('avg', round(avg(v)), 'min', min(v), 'max', max(v),
                             'last', (array_agg(v order by k desc))[1])
    from (select e.key as k, queen.json_number_v1(e.value, p_name) as v from jsonb_each(p_gauges) as e) as t;
$$;
