-- overview_v1: everything in one answer.
--
-- Returns:    the answer of GET /api/v1/resources/overview (contract 2, section 1), as text
-- Algorithm:  counts are live, by watermarks; lags as measured last, statsAge seconds ago (-1 = never); per
--             second: means of the last five minutes
-- Tables:     queues, metrics_minute, stats, those of queue_load_v1 (read)
-- Locks:      none
create or replace function queen.overview_v1()
returns text
language sql stable
as $$
    select json_build_object(
        'queues', q.queues, 'partitions', l.partitions, 'namespaces', q.namespaces, 'tasks', q.tasks,
        'messages', queen.load_json_v1(l.total, l.pending, l.processing, l.completed, l.dead),
        'lag', coalesce((select x.value from queen.stats x where x.topic = 'lag'),
                        '{"time":{"avg":0,"median":0,"min":0,"max":0},"offset":{"avg":0,"median":0,"min":0,"max":0}}'),
        'throughput', (select json_build_object(
                           'ingestedPerSecond', coalesce(round(sum((m.counters ->> 'push_messages')::numeric) / 300, 2), 0),
                           'processedPerSecond', coalesce(round(sum((m.counters ->> 'ack_items')::numeric) / 300, 2), 0))
                       from queen.metrics_minute m where m.minute > clock_timestamp() - interval '6 minutes'),
        'timestamp', queen.time_text_v1(clock_timestamp())::json,
        'statsAge', queen.stats_age_v1())::text
    from (select count(*) as queues, count(distinct nullif(x.namespace, '')) as namespaces,
                 count(distinct nullif(x.task, '')) as tasks from queen.queues x) as q
    cross join (select coalesce(sum(y.partitions), 0)::bigint as partitions, sum(y.total)::bigint as total, sum(y.pending)::bigint as pending,
                       sum(y.processing)::bigint as processing, sum(y.completed)::bigint as completed, sum(y.dead)::bigint as dead
                from queen.queue_load_v1(array(select x.id from queen.queues x)) as y) as l;
$$;
