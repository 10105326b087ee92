-- analytics_queue_ops_v1: what happened to each queue over a window.
--
-- Parameters: p_from, p_to  '' = the last hour
--             p_queue       '' = all
--             p_limit, p_offset
-- Returns:    the answer of GET /api/v1/analytics/queue-ops, as text; null = not counted per queue
-- Tables:     queues, queue_metrics_minute (read)
-- Locks:      none
create or replace function queen.analytics_queue_ops_v1(p_from text, p_to text, p_queue text, p_limit int, p_offset int)
returns text
language sql stable
as $$
    with w as materialized (
        select x.* from queen.time_window_v1(p_from, p_to, interval '1 hour') as x
    ), points as materialized (
        select queen.time_bucket_v1(w.minutes, m.minute) as bucket, q.name, sum(m.seconds)::numeric as seconds,
               sum(m.pushed) as pushed, sum(m.consumed) as consumed,
               (array_agg(m.partitions order by m.minute desc))[1] as partitions,
               (array_agg(m.partitions order by m.minute desc))[1] - (array_agg(m.partitions order by m.minute))[1] as grown,
               round(avg(m.lag_avg_ms)) as lag_avg_ms, max(m.lag_max_ms) as lag_max_ms
        from w
        join queen.queue_metrics_minute m on m.minute >= date_trunc('minute', w.since) and m.minute <= w.until
        join queen.queues q on q.id = m.queue_id
        where p_queue = '' or q.name = p_queue
        group by 1, 2
        order by 1 desc, 2
        limit p_limit offset p_offset
    )
    select json_build_object(
        'timeRange', queen.time_range_json_v1(w.since, w.until), 'bucketMinutes', w.minutes,
        'series', (select coalesce(json_agg(json_build_object(
            'bucket', queen.time_text_v1(p.bucket)::json, 'queueName', p.name, 'pushRequests', null, 'pushMessages', p.pushed,
            'popMessages', p.consumed, 'popEmpty', null, 'ackRequests', null, 'ackSuccess', p.consumed, 'ackFailed', null,
            'transactions', null, 'partitionsCreated', greatest(p.grown, 0), 'partitionsDeleted', greatest(-p.grown, 0),
            'partitionCount', p.partitions, 'avgLagMs', p.lag_avg_ms, 'maxLagMs', p.lag_max_ms,
            'pushPerSecond', round(p.pushed / p.seconds, 2), 'popPerSecond', round(p.consumed / p.seconds, 2),
            'ackPerSecond', round(p.consumed / p.seconds, 2), 'emptyPerSecond', null, 'parkedCount', null)
            order by p.bucket desc, p.name), '[]') from points p),
        'queues', (select coalesce(to_json(array_agg(distinct p.name)), '[]') from points p))::text
    from w;
$$;
