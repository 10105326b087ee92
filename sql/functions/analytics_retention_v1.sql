-- analytics_retention_v1: what retention deleted over a window.
--
-- Parameters: p_from, p_to  '' = the last hour
--             p_queue       '' = all
-- Returns:    the answer of GET /api/v1/analytics/retention, as text
-- Tables:     queues, retention_history (read)
-- Locks:      none
create or replace function queen.analytics_retention_v1(p_from text, p_to text, p_queue text)
returns text
language sql stable
as $$
    with w as materialized (
        select x.* from queen.time_window_v1(p_from, p_to, interval '1 hour') as x
    ), points as materialized (
        select queen.time_bucket_v1(w.minutes, h.executed_at) as bucket,
               coalesce(sum(h.messages) filter (where h.retention_type = 'retention'), 0) as retention,
               coalesce(sum(h.messages) filter (where h.retention_type = 'completed_retention'), 0) as completed,
               coalesce(sum(h.messages) filter (where h.retention_type = 'max_wait_time_eviction'), 0) as eviction,
               sum(h.messages) as total, count(*) as events
        from w
        join queen.retention_history h on h.executed_at >= w.since and h.executed_at <= w.until
        where p_queue = '' or h.queue_id = (select q.id from queen.queues q where q.name = p_queue)
        group by 1
    )
    select json_build_object(
        'timeRange', queen.time_range_json_v1(w.since, w.until), 'bucketMinutes', w.minutes,
        'series', (select coalesce(json_agg(json_build_object(
            'bucket', queen.time_text_v1(p.bucket)::json, 'retentionMsgs', p.retention, 'completedRetentionMsgs', p.completed,
            'evictionMsgs', p.eviction, 'totalMsgs', p.total, 'eventCount', p.events) order by p.bucket desc), '[]') from points p),
        'totals', (select json_build_object(
            'retentionMsgs', coalesce(sum(p.retention), 0), 'completedRetentionMsgs', coalesce(sum(p.completed), 0),
            'evictionMsgs', coalesce(sum(p.eviction), 0), 'totalMsgs', coalesce(sum(p.total), 0),
            'eventCount', coalesce(sum(p.events), 0)) from points p))::text
    from w;
$$;
