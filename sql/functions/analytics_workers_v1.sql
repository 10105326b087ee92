-- analytics_workers_v1: what the instances did over a window.
--
-- Parameters: p_from, p_to        '' = the last hour
--             p_host, p_instance  '' = all
-- Returns:    the answer of GET /api/v1/analytics/worker-metrics, as text
-- Tables:     metrics_minute, queue_metrics_minute, those of queue_load_v1 (read)
-- Locks:      none
create or replace function queen.analytics_workers_v1(p_from text, p_to text, p_host text, p_instance text)
returns text
language sql stable
as $$
    with w as materialized (
        select x.* from queen.time_window_v1(p_from, p_to, interval '1 hour') as x
    ), points as materialized (
        select s.bucket, max(s.seconds)::numeric as seconds, sum(s.push_requests) as push_requests, sum(s.push_messages) as push_messages,
               sum(s.pop_requests) as pop_requests, sum(s.pop_messages) as pop_messages, sum(s.pop_lag_ms) as pop_lag_ms,
               sum(s.ack_requests) as ack_requests, sum(s.ack_items) as ack_items, sum(s.ack_failed) as ack_failed,
               sum(s.dead) as dead, sum(s.database_errors) as database_errors, avg(s.loop_lag_ms) as loop_lag_ms,
               max(s.max_loop_lag_ms) as max_loop_lag_ms,
               sum((queen.gauge_json_v1(s.gauges, 'database_connections') ->> 'avg')::numeric) as connections,
               sum((queen.gauge_json_v1(s.gauges, 'database_waiting') ->> 'avg')::numeric) as waiting,
               sum((queen.gauge_json_v1(s.gauges, 'database_waiting') ->> 'max')::numeric) as waiting_max
        from w cross join lateral queen.metrics_series_v1(w.since, w.until, w.minutes, p_host, p_instance) as s
        group by s.bucket
    ), queues as materialized (
        select queen.time_bucket_v1(w.minutes, m.minute) as bucket, m.queue_id, sum(m.consumed) as consumed,
               round(avg(m.lag_avg_ms)) as lag_avg_ms, max(m.lag_max_ms) as lag_max_ms
        from w
        join queen.queue_metrics_minute m on m.minute >= date_trunc('minute', w.since) and m.minute <= w.until
        group by 1, 2
    )
    select json_build_object(
        'timeRange', queen.time_range_json_v1(w.since, w.until), 'bucketMinutes', w.minutes,
        'pointCount', (select count(*) from points),
        'timeSeries', (select coalesce(json_agg(json_build_object(
            'timestamp', queen.time_text_v1(p.bucket)::json, 'pushMessages', p.push_messages, 'popMessages', p.pop_messages,
            'ackMessages', p.ack_items, 'pushRequests', p.push_requests, 'popRequests', p.pop_requests,
            'ackRequests', p.ack_requests, 'jobsDone', p.push_requests + p.pop_requests + p.ack_requests,
            'pushPerSecond', round(p.push_messages / p.seconds, 2), 'popPerSecond', round(p.pop_messages / p.seconds, 2),
            'ackPerSecond', round(p.ack_items / p.seconds, 2), 'avgEventLoopLagMs', coalesce(round(p.loop_lag_ms, 2), 0),
            'maxEventLoopLagMs', coalesce(p.max_loop_lag_ms, 0), 'avgFreeSlots', null, 'minFreeSlots', null,
            'dbConnections', p.connections, 'avgJobQueueSize', p.waiting, 'maxJobQueueSize', p.waiting_max, 'backoffSize', 0,
            'avgLagMs', coalesce(round(p.pop_lag_ms / nullif(p.pop_messages, 0)), 0),
            'maxLagMs', coalesce((select max(q.lag_max_ms) from queues q where q.bucket = p.bucket), 0),
            'lagCount', p.pop_messages, 'dbErrors', p.database_errors, 'ackSuccess', p.ack_items - p.ack_failed,
            'ackFailed', p.ack_failed, 'dlqCount', p.dead) order by p.bucket desc), '[]') from points p),
        'workers', queen.instances_json_v1(w.since, w.until),
        'queues', (select coalesce(json_agg(json_build_object(
            'queueName', t.name, 'popCount', t.consumed, 'avgLagMs', t.lag_avg_ms, 'maxLagMs', t.lag_max_ms) order by t.name), '[]')
            from (select q.name, sum(x.consumed) as consumed, round(avg(x.lag_avg_ms)) as lag_avg_ms, max(x.lag_max_ms) as lag_max_ms
                  from queues x join queen.queues q on q.id = x.queue_id
                  group by q.name order by q.name limit 1000) as t),
        'summary', (select json_build_object(
            'totalPushMessages', coalesce(sum(p.push_messages), 0), 'totalPopMessages', coalesce(sum(p.pop_messages), 0),
            'totalAckMessages', coalesce(sum(p.ack_items), 0), 'totalPushRequests', coalesce(sum(p.push_requests), 0),
            'totalPopRequests', coalesce(sum(p.pop_requests), 0), 'totalAckRequests', coalesce(sum(p.ack_requests), 0),
            'totalDbErrors', coalesce(sum(p.database_errors), 0), 'totalAckFailed', coalesce(sum(p.ack_failed), 0),
            'totalDlq', coalesce(sum(p.dead), 0),
            'pendingMessages', (select coalesce(sum(l.pending), 0) from queen.queue_load_v1(array(select q.id from queen.queues q)) as l))
            from points p))::text
    from w;
$$;
