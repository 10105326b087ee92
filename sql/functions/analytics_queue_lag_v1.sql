-- analytics_queue_lag_v1: how much was consumed of each queue, and how late, over a window.
--
-- Parameters: p_from, p_to  '' = the last hour
--             p_queue       '' = all
--             p_limit, p_offset
-- Returns:    the answer of GET /api/v1/analytics/queue-lag, as text: newest first
-- Tables:     queues, queue_metrics_minute (read)
-- Locks:      none
create or replace function queen.analytics_queue_lag_v1(p_from text, p_to text, p_queue text, p_limit int, p_offset int)
returns text
language sql stable
as $$
    select coalesce(json_agg(json_build_object(
               'queueName', t.name, 'popCount', t.consumed, 'avgLagMs', t.lag_avg_ms, 'maxLagMs', t.lag_max_ms,
               'bucketMinutes', t.minutes, 'bucketTime', queen.time_text_v1(t.bucket)::json)
               order by t.bucket desc, t.name), '[]')::text
    from (select queen.time_bucket_v1(w.minutes, m.minute) as bucket, w.minutes, q.name, sum(m.consumed) as consumed,
                 round(avg(m.lag_avg_ms)) as lag_avg_ms, max(m.lag_max_ms) as lag_max_ms
          from queen.time_window_v1(p_from, p_to, interval '1 hour') as w
          join queen.queue_metrics_minute m on m.minute >= date_trunc('minute', w.since) and m.minute <= w.until
          join queen.queues q on q.id = m.queue_id
          where p_queue = '' or q.name = p_queue
          group by 1, 2, 3
          order by 1 desc, 3
          limit p_limit offset p_offset) as t;
$$;
