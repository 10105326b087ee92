-- instances_json_v1: the instances that reported in a window.
--
-- Parameters: p_since, p_until
-- Returns:    one element each: hostname, workerId = its run directory
-- Tables:     metrics_minute (read)
-- Locks:      none
create or replace function queen.instances_json_v1(p_since timestamptz, p_until timestamptz)
returns json
language sql stable
as $$
    select coalesce(json_agg(json_build_object(
               'hostname', t.host, 'workerId', t.instance, 'avgEventLoopLagMs', coalesce(t.loop_lag_ms, 0),
               'maxEventLoopLagMs', coalesce(t.max_loop_lag_ms, 0), 'freeSlots', null,
               'dbConnections', queen.json_number_v1(t.last, 'database_connections'), 'jobQueueSize', null,
               'messagesProcessed', t.messages, 'lastSeen', queen.time_text_v1(t.seen)::json)
               order by t.host, t.instance), '[]')
    from (select m.host, m.instance, max(m.minute) as seen,
                 (array_agg(m.gauges order by m.minute desc))[1] as last,
                 sum(queen.json_number_v1(m.counters, 'push_messages') + queen.json_number_v1(m.counters, 'pop_messages')
                     + queen.json_number_v1(m.counters, 'ack_items')) as messages,
                 round(sum(queen.json_number_v1(m.counters, 'loop_late_ms')) / nullif(sum(queen.json_number_v1(m.counters, 'loop_beats')), 0), 2) as loop_lag_ms,
                 round(max(queen.json_number_v1(m.counters, 'loop_late_ms') / nullif(queen.json_number_v1(m.counters, 'loop_beats'), 0)), 2) as max_loop_lag_ms
          from queen.metrics_minute m
          where m.minute >= date_trunc('minute', p_since) and m.minute <= p_until
          group by m.host, m.instance
          order by m.host, m.instance
          limit 1000) as t;
$$;
