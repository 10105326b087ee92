-- metrics_series_v1: the time series of instances in points.
--
-- Parameters: p_since, p_until, p_minutes  a point's width
--             p_host, p_instance           '' = all
-- Returns:    a row per point and instance: sums of counters, gauges by average (and least and most where
--             the answers want them); loop_lag_ms = mean lateness of the event loops, max_loop_lag_ms = of
--             the worst minute
-- Tables:     metrics_minute (read)
-- Locks:      none
create or replace function queen.metrics_series_v1(p_since timestamptz, p_until timestamptz, p_minutes int,
                                                   p_host text, p_instance text)
returns table (bucket timestamptz, host text, instance text, samples bigint, seconds double precision,
               push_requests numeric, push_messages numeric, pop_requests numeric, pop_messages numeric,
               pop_empty numeric, pop_lag_ms numeric, ack_requests numeric, ack_items numeric,
               ack_failed numeric, dead numeric, database_errors numeric, cpu_user_us numeric,
               cpu_system_us numeric, loop_lag_ms numeric, max_loop_lag_ms numeric, gauges jsonb)
language sql stable
as $$
    select queen.time_bucket_v1(p_minutes, m.minute), m.host, m.instance, count(*), sum(m.seconds),
           sum(queen.json_number_v1(m.counters, 'push_requests')), sum(queen.json_number_v1(m.counters, 'push_messages')),
           sum(queen.json_number_v1(m.counters, 'pop_requests')), sum(queen.json_number_v1(m.counters, 'pop_messages')),
           sum(queen.json_number_v1(m.counters, 'pop_empty')), sum(queen.json_number_v1(m.counters, 'pop_lag_ms')),
           sum(queen.json_number_v1(m.counters, 'ack_requests')), sum(queen.json_number_v1(m.counters, 'ack_items')),
           sum(queen.json_number_v1(m.counters, 'ack_failed')), sum(queen.json_number_v1(m.counters, 'ack_dead_letters')),
           sum(queen.json_number_v1(m.counters, 'database_reconnects') + queen.json_number_v1(m.counters, 'flusher_errors')),
           sum(queen.json_number_v1(m.counters, 'cpu_user_us')), sum(queen.json_number_v1(m.counters, 'cpu_system_us')),
           round(sum(queen.json_number_v1(m.counters, 'loop_late_ms')) / nullif(sum(queen.json_number_v1(m.counters, 'loop_beats')), 0), 2),
           round(max(queen.json_number_v1(m.counters, 'loop_late_ms') / nullif(queen.json_number_v1(m.counters, 'loop_beats'), 0)), 2),
           jsonb_object_agg(m.minute, m.gauges)
    from queen.metrics_minute m
    where m.minute >= date_trunc('minute', p_since) and m.minute <= p_until
      and (p_host = '' or m.host = p_host) and (p_instance = '' or m.instance = p_instance)
    group by 1, 2, 3;
$$;
