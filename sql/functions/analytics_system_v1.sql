-- analytics_system_v1: processor time, memory and connections of every instance over a window.
--
-- Parameters: p_from, p_to          '' = the last hour
--             p_host, p_instance    '' = all
-- Returns:    the answer of GET /api/v1/analytics/system-metrics, as text; cpu: microseconds per second
-- Tables:     metrics_minute (read)
-- Locks:      none
create or replace function queen.analytics_system_v1(p_from text, p_to text, p_host text, p_instance text)
returns text
language sql stable
as $$
    with w as materialized (
        select x.* from queen.time_window_v1(p_from, p_to, interval '1 hour') as x
    ), points as materialized (
        select s.*, round(s.cpu_user_us / s.seconds::numeric) as cpu_user, round(s.cpu_system_us / s.seconds::numeric) as cpu_system
        from w cross join lateral queen.metrics_series_v1(w.since, w.until, w.minutes, p_host, p_instance) as s
    )
    select json_build_object(
        'timeRange', queen.time_range_json_v1(w.since, w.until),
        'replicas', (select coalesce(json_agg(json_build_object(
                         'hostname', r.host, 'port', null, 'workerId', r.instance, 'timeSeries', r.series) order by r.host, r.instance), '[]')
                     from (select p.host, p.instance, json_agg(json_build_object(
                               'timestamp', queen.time_text_v1(p.bucket)::json, 'sampleCount', p.samples,
                               'metrics', json_build_object(
                                   'cpu', json_build_object(
                                       'user_us', json_build_object('avg', p.cpu_user, 'min', p.cpu_user, 'max', p.cpu_user, 'last', p.cpu_user),
                                       'system_us', json_build_object('avg', p.cpu_system, 'min', p.cpu_system, 'max', p.cpu_system, 'last', p.cpu_system)),
                                   'memory', json_build_object(
                                       'rss_bytes', queen.gauge_json_v1(p.gauges, 'rss_bytes'),
                                       'virtual_bytes', queen.gauge_json_v1(p.gauges, 'virtual_bytes')),
                                   'database', json_build_object(
                                       'pool_size', queen.gauge_json_v1(p.gauges, 'database_connections'),
                                       'pool_idle', queen.gauge_json_v1(p.gauges, 'database_idle'),
                                       'pool_waiting', queen.gauge_json_v1(p.gauges, 'database_waiting')),
                                   'shared_state', json_build_object(
                                       'pop_parked', queen.gauge_json_v1(p.gauges, 'pop_parked'),
                                       'connections', queen.gauge_json_v1(p.gauges, 'connections')))) order by p.bucket) as series
                           from points p group by p.host, p.instance) as r),
        'replicaCount', (select count(distinct (p.host, p.instance)) from points p),
        'bucketMinutes', w.minutes,
        'pointCount', (select count(distinct p.bucket) from points p))::text
    from w;
$$;
