-- status_v1: how the system does: throughput over a window, queues, messages, leases, dead letters, instances.
--
-- Parameters: p_from, p_to                 window of the time series, '' = the last hour
--             p_queue, p_namespace, p_task '' = all; with one of them, ingested, processed, and lags are
--                                          those of the queues that match; the rest is the instances'
-- Returns:    the answer of GET /api/v1/status (contract 2, section 8), as text
-- Algorithm:  counts are live, by watermarks. avgLagMs = age of messages when they were delivered (with a
--             filter: of the oldest unconsumed ones); maxLagMs = of the oldest unconsumed one.
-- Tables:     queues, metrics_minute, queue_metrics_minute, log_dlq, those of queue_load_v1 (read)
-- Locks:      none
create or replace function queen.status_v1(p_from text, p_to text, p_queue text, p_namespace text, p_task text)
returns text
language sql stable
as $$
    with w as materialized (
        select x.*, p_queue <> '' or p_namespace <> '' or p_task <> '' as filtered
        from queen.time_window_v1(p_from, p_to, interval '1 hour') as x
    ), chosen as materialized (
        select q.id, q.name, q.namespace, q.task, q.created_at from queen.queues q
        where (p_queue = '' or q.name = p_queue) and (p_namespace = '' or q.namespace = p_namespace)
          and (p_task = '' or q.task = p_task)
    ), hosts as materialized (
        select s.* from w cross join lateral queen.metrics_series_v1(w.since, w.until, w.minutes, '', '') as s
    ), queues as (
        select queen.time_bucket_v1(w.minutes, m.minute) as bucket, sum(m.pushed) as pushed, sum(m.consumed) as consumed,
               round(avg(m.lag_avg_ms)) as lag_avg_ms, max(m.lag_max_ms) as lag_max_ms
        from w
        join queen.queue_metrics_minute m on m.minute >= date_trunc('minute', w.since) and m.minute <= w.until
        where m.queue_id in (select c.id from chosen c)
        group by 1
    ), sums as (
        select h.bucket, max(h.seconds) as seconds, sum(h.push_messages) as push_messages, sum(h.ack_items) as ack_items,
               sum(h.pop_messages) as pop_messages, sum(h.pop_lag_ms) as pop_lag_ms, avg(h.loop_lag_ms) as loop_lag_ms,
               max(h.max_loop_lag_ms) as max_loop_lag_ms, sum(h.database_errors) as database_errors,
               sum(h.ack_failed) as ack_failed, sum(h.dead) as dead, sum(h.cpu_user_us) as cpu_user_us,
               sum(h.cpu_system_us) as cpu_system_us,
               sum((queen.gauge_json_v1(h.gauges, 'rss_bytes') ->> 'avg')::numeric) as rss,
               sum((queen.gauge_json_v1(h.gauges, 'database_connections') ->> 'avg')::numeric) as size,
               sum((queen.gauge_json_v1(h.gauges, 'database_idle') ->> 'avg')::numeric) as idle
        from hosts h group by h.bucket
    ), points as materialized (
        select coalesce(s.bucket, q.bucket) as bucket, s.pop_messages, s.loop_lag_ms, s.max_loop_lag_ms, s.database_errors,
               s.ack_failed, s.dead, s.cpu_user_us, s.cpu_system_us, s.rss, s.size, s.idle,
               case when w.filtered then w.minutes * 60 else coalesce(s.seconds, w.minutes * 60) end as span,
               case when w.filtered then coalesce(q.pushed, 0) else coalesce(s.push_messages, q.pushed, 0) end as ingested,
               case when w.filtered then coalesce(q.consumed, 0) else coalesce(s.ack_items, q.consumed, 0) end as processed,
               case when w.filtered then q.lag_avg_ms else round(s.pop_lag_ms / nullif(s.pop_messages, 0)) end as avg_lag_ms,
               q.lag_max_ms
        from w cross join (sums s full join queues q on q.bucket = s.bucket)
    ), load as materialized (
        select l.* from queen.queue_load_v1(array(select c.id from chosen c)) as l
    ), totals as (
        select sum(h.push_requests) as push, sum(h.pop_requests) as pop, sum(h.ack_requests) as ack,
               sum(h.push_messages) as pushed, sum(h.pop_messages) as popped, sum(h.ack_items) as acked,
               sum(h.database_errors) as database_errors, sum(h.ack_failed) as ack_failed, sum(h.dead) as dead
        from hosts h
    ), letters as materialized (
        select d.partition_id, left(d.error, 200) as error
        from queen.log_dlq d
        join queen.log_partitions p on p.id = d.partition_id
        where p.queue_id in (select c.id from chosen c)
        order by d.failed_at desc limit 10000
    )
    select json_build_object(
        'timeRange', queen.time_range_json_v1(w.since, w.until), 'bucketMinutes', w.minutes,
        'pointCount', (select count(*) from points),
        'throughput', (select coalesce(json_agg(json_build_object(
            'timestamp', queen.time_text_v1(p.bucket)::json, 'ingested', p.ingested, 'processed', p.processed,
            'popMessages', coalesce(p.pop_messages, 0),
            'ingestedPerSecond', round(p.ingested / p.span::numeric, 2),
            'processedPerSecond', round(p.processed / p.span::numeric, 2),
            'popPerSecond', round(coalesce(p.pop_messages, 0) / p.span::numeric, 2),
            'avgLagMs', coalesce(p.avg_lag_ms, 0), 'maxLagMs', coalesce(p.lag_max_ms, 0),
            'avgEventLoopLagMs', coalesce(round(p.loop_lag_ms, 2), 0), 'maxEventLoopLagMs', coalesce(p.max_loop_lag_ms, 0),
            'minFreeSlots', null, 'dbErrors', coalesce(p.database_errors, 0), 'ackFailed', coalesce(p.ack_failed, 0),
            'dlqCount', coalesce(p.dead, 0),
            'queenCpuUserPct', coalesce(round(p.cpu_user_us / p.span::numeric / 10000, 2), 0),
            'queenCpuSysPct', coalesce(round(p.cpu_system_us / p.span::numeric / 10000, 2), 0),
            'queenRssMb', coalesce(round(p.rss / 1048576, 1), 0),
            'dbPoolActive', coalesce(p.size - p.idle, 0), 'dbPoolIdle', coalesce(p.idle, 0),
            'dbPoolSize', coalesce(p.size, 0)) order by p.bucket desc), '[]') from points p),
        'queues', (select coalesce(json_agg(json_build_object(
            'id', c.id, 'name', c.name, 'namespace', c.namespace, 'task', c.task, 'partitions', c.partitions,
            'totalConsumed', c.consumed) order by c.name), '[]')
            from (select x.*, l.partitions, l.consumed from chosen x join load l on l.queue_id = x.id
                  where l.total > 0 order by x.name limit 1000) as c),
        'messages', (select json_build_object(
            'total', coalesce(sum(l.total), 0), 'pending', coalesce(sum(l.pending), 0), 'processing', coalesce(sum(l.processing), 0),
            'completed', coalesce(sum(l.completed), 0), 'failed', (select coalesce(t.ack_failed, 0) from totals t),
            'deadLetter', coalesce(sum(l.dead), 0),
            'requests', (select json_build_object('push', coalesce(t.push, 0), 'pop', coalesce(t.pop, 0), 'ack', coalesce(t.ack, 0)) from totals t),
            'batchEfficiency', (select json_build_object(
                'push', coalesce(round(t.pushed / nullif(t.push, 0), 2), 0), 'pop', coalesce(round(t.popped / nullif(t.pop, 0), 2), 0),
                'ack', coalesce(round(t.acked / nullif(t.ack, 0), 2), 0)) from totals t)) from load l),
        'leases', (select json_build_object(
            'active', count(*), 'partitionsWithLeases', count(distinct c.partition_id),
            'totalBatchSize', coalesce(sum(c.batch_end - c.committed), 0), 'totalAcked', 0)
            from queen.log_consumers c
            join queen.log_partitions p on p.id = c.partition_id
            where c.lease_expires_at >= clock_timestamp() and p.queue_id in (select x.id from chosen x)),
        'deadLetterQueue', json_build_object(
            'totalMessages', (select coalesce(sum(l.dead), 0) from load l),
            'currentMessages', (select coalesce(sum(l.dead), 0) from load l),
            'affectedPartitions', (select count(distinct d.partition_id) from letters d),
            'topErrors', (select coalesce(json_agg(json_build_object('error', e.error, 'count', e.n) order by e.n desc, e.error), '[]')
                          from (select d.error, count(*) as n from letters d group by d.error
                                order by n desc, d.error limit 5) as e)),
        'workers', queen.instances_json_v1(clock_timestamp() - interval '2 minutes', clock_timestamp()),
        'errors', (select json_build_object('dbErrors', coalesce(t.database_errors, 0), 'ackFailed', coalesce(t.ack_failed, 0),
                                            'dlqMessages', coalesce(t.dead, 0)) from totals t),
        'statsAge', queen.stats_age_v1())::text
    from w;
$$;
