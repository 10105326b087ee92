-- status_analytics_v1: messages pushed per minute, hour or day.
--
-- Parameters: p_from, p_to                  '' = the last 24 hours
--             p_interval                    minute, hour or day; '' = hour
--             p_queue, p_namespace, p_task  '' = all
-- Returns:    the answer of GET /api/v1/status/analytics (contract 2, section 8), as text; empty points
--             count 0. Another interval, and more than 10000 points, are refused (SQLSTATE 22023).
-- Tables:     queues, queue_metrics_minute (read)
-- Locks:      none
create or replace function queen.status_analytics_v1(p_from text, p_to text, p_interval text, p_queue text,
                                                     p_namespace text, p_task text)
returns text
language plpgsql stable
as $$
declare
    c_points constant int := 10000;
    v_interval constant text := coalesce(nullif(p_interval, ''), 'hour');
    v_window record;
begin
    if v_interval not in ('minute', 'hour', 'day') then
        raise exception 'interval must be minute, hour or day, found "%"', left(v_interval, 64) using errcode = '22023';
    end if;
    select * into v_window from queen.time_window_v1(p_from, p_to, interval '24 hours');
    if v_window.until - v_window.since > c_points * ('1 ' || v_interval)::interval then
        raise exception 'interval % makes more than % points between from and to', v_interval, c_points
            using errcode = '22023';
    end if;
    return (
        select json_build_object(
            'dataPoints', coalesce(json_agg(json_build_object(
                'timestamp', queen.time_text_v1(b.bucket)::json, 'messages', coalesce(t.pushed, 0)) order by b.bucket), '[]'),
            'interval', v_interval, 'from', queen.time_text_v1(v_window.since)::json,
            'to', queen.time_text_v1(v_window.until)::json)::text
        from generate_series(date_trunc(v_interval, v_window.since), v_window.until, ('1 ' || v_interval)::interval) as b (bucket)
        left join (
            select date_trunc(v_interval, m.minute) as bucket, sum(m.pushed) as pushed
            from queen.queue_metrics_minute m
            join queen.queues q on q.id = m.queue_id
            where m.minute >= date_trunc('minute', v_window.since) and m.minute <= v_window.until
              and (p_queue = '' or q.name = p_queue) and (p_namespace = '' or q.namespace = p_namespace)
              and (p_task = '' or q.task = p_task)
            group by 1) as t on t.bucket = b.bucket);
end
$$;
