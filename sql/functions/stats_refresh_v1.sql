-- stats_refresh_v1: measures every queue now.
--
-- Returns:    the answer of POST /api/v1/stats/refresh (contract 2, section 8), as text; zeros when another
--             measurement is under way
-- Tables:     queues (read), those of queue_metrics_rollup_v1
-- Locks:      those of queue_metrics_rollup_v1
create or replace function queen.stats_refresh_v1()
returns text
language sql
as $$
    select json_build_object(
        'engine', 'segments', 'queuesUpdated', coalesce(r.queues, 0), 'segPartitions', coalesce(r.partitions, 0),
        'namespaces', json_build_object('namespacesUpdated', (select count(distinct q.namespace) from queen.queues q where q.namespace <> '')),
        'tasks', json_build_object('tasksUpdated', (select count(distinct q.task) from queen.queues q where q.task <> '')),
        'system', json_build_object('systemUpdated', (r.queues is not null)::int),
        'refreshedAt', queen.time_text_v1(clock_timestamp())::json)::text
    from queen.queue_metrics_rollup_v1(0) as r;
$$;
