-- Time series: roll-up of counters and queues, windows, status pages, analytics, purge.
begin;
create extension if not exists pgtap;
select no_plan();
\ir helpers.psql

-- counters
create function pg_temp.roll(p_pushed bigint, p_acked bigint, p_rss bigint default 100) returns boolean language sql as $$
    select queen.metrics_rollup_v1('h', '/run', array['push_messages', 'ack_items', 'push_requests'], array[p_pushed, p_acked, 0], array['rss_bytes'], array[p_rss]) $$;
create function pg_temp.series() returns text language sql as $$
    select string_agg(concat_ws(' ', m.host, m.counters, m.gauges), '; ' order by m.minute) from queen.metrics_minute m $$;
select is(pg_temp.roll(10, 5), false, 'the first call sets the mark');
select is(pg_temp.series(), null, 'and writes nothing');
update queen.metrics_last set taken_at = taken_at - interval '60 s';
select is(pg_temp.roll(25, 5), true, 'the second');
select is(pg_temp.series(), 'h {"push_messages": 15} {"rss_bytes": 100}', 'the difference, without zeros');
select is((select seconds between 60 and 70 and minute between clock_timestamp() - interval '95 s' and clock_timestamp() from queen.metrics_minute), true, 'of the minute in the middle');
update queen.metrics_minute set minute = date_trunc('minute', clock_timestamp() - interval '0.0005 s');
select is(pg_temp.roll(30, 6, 300), true, 'again');
select is(regexp_replace(pg_temp.series(), '; .*', '') ~ 'push_messages": (20|15)', true, 'in the same minute the differences add up');
delete from queen.metrics_minute;
select is(pg_temp.roll(3, 2), true, 'lower totals');
select is(pg_temp.series(), 'h {"ack_items": 2, "push_messages": 3} {"rss_bytes": 100}', 'are those of an instance that began anew');

-- queues
create function pg_temp.queue_series(p_queue text) returns text language sql as $$
    select concat_ws(' ', sum(m.pushed), sum(m.consumed), max(m.partitions)) from queen.queue_metrics_minute m join queen.queues q on q.id = m.queue_id where q.name = p_queue $$;
create function pg_temp.usage(p_queue text) returns text language sql as $$
    select concat_ws(' ', u.segments, u.bytes, u.pushed, u.consumed) from queen.queue_usage u join queen.queues q on q.id = u.queue_id where q.name = p_queue $$;
select is(queen.stats_age_v1(), -1::bigint, 'never measured');
select is(pg_temp.push('q', 'p', '{a,b,c}'), 'queued 0', 'push');
insert into queen.queues (name, created_at) values ('old', clock_timestamp() - interval '1 day');
select is(pg_temp.push('old', 'p', '{x}'), 'queued 0', 'push');
select is(queen.queue_metrics_rollup_v1(0)::text, '(2,2)', 'two queues');
select is(pg_temp.queue_series('q'), '3 0 1', 'a young queue: all of it is new');
select is(pg_temp.queue_series('old'), '', 'an old one: who knows');
select is(pg_temp.usage('q'), '1 5 3 0', 'segments, bytes, totals');
select is(queen.queue_metrics_rollup_v1(60)::text, '(,)', 'not so soon again');
select is(queen.stats_age_v1() between 0 and 5, true, 'measured');
select is(pg_temp.pop('q', 'w1', 2), 'p:a,b', 'pop');
select is(queen.queue_metrics_rollup_v1(0) is null, false, 'a look');
select is(pg_temp.queue_series('q'), '3 0 1', 'a lease is nothing new');
select matches(pg_temp.ack('q', 'w1', 'a:completed b:completed'), 'acked=2$', 'ack');
select is(pg_temp.push('old', 'p', '{y,z}'), 'queued 1', 'push');
select is(queen.stats_refresh_v1()::jsonb ->> 'queuesUpdated', '2', 'refresh');
select is(pg_temp.queue_series('q'), '3 2 1', 'consumed');
select is(pg_temp.queue_series('old'), '2 0 1', 'pushed');
select is((select value -> 'offset' from queen.stats where topic = 'lag'), '{"avg":1,"median":1,"min":1,"max":1}', 'lag');
select is(queen.overview_v1()::jsonb -> 'lag' -> 'offset' ->> 'max', '1', 'in the overview');
select is((queen.queues_list_v1(10, 0)::jsonb -> 'queues' -> 1 ->> 'retainedBytes')::int, 5, 'bytes in the list');
update queen.queue_usage set consumed = 100;
select is(queen.queue_metrics_rollup_v1(0) is null, false, 'totals that went down');
select is(pg_temp.queue_series('q'), '3 2 1', 'are no news');
delete from queen.queues where name = 'old';
select is(queen.queue_metrics_rollup_v1(0)::text, '(1,1)', 'a queue less');
select is((select count(*) from queen.queue_usage), 1::bigint, 'is forgotten');

-- windows
select is((select string_agg(w.minutes::text, ' ' order by h) from unnest(array[1, 2, 6, 7, 24, 25, 168, 169]) h
           cross join lateral queen.time_window_v1((timestamptz '2026-01-10' - make_interval(hours => h))::text, '2026-01-10', '1 hour') w), '1 5 5 15 15 60 60 360', 'width of points');
select is((select until - since from queen.time_window_v1('', '', interval '1 hour')), interval '1 hour', 'the default');
select is(pg_temp.raises($$ select queen.time_window_v1('soon', '', '1 hour') $$), '22007 from does not parse as a time, found "soon"', 'a bad time');
select is(left(pg_temp.raises($$ select queen.time_window_v1('1970-01-01', '', '1 hour') $$), 5), '22023', 'too long');
select is(left(pg_temp.raises($$ select queen.time_window_v1('-infinity', '', '1 hour') $$), 5), '22023', 'without end');
select is(queen.time_bucket_v1(5, '2026-01-01 00:07:00+00'), '2026-01-01 00:05:00+00', 'a point');

-- answers
delete from queen.metrics_minute;
insert into queen.metrics_minute values
    (date_trunc('minute', clock_timestamp() - interval '1 min'), 'h', 'a', 60, '{"push_messages":120,"push_requests":12,"pop_messages":60,"pop_lag_ms":600,"loop_beats":60,"loop_late_ms":30,"ack_items":60,"ack_requests":6,"ack_failed":1,"cpu_user_us":6000000}', '{"rss_bytes":1048576,"database_connections":4,"database_idle":3}'),
    (date_trunc('minute', clock_timestamp() - interval '1 min'), 'i', 'b', 60, '{"push_messages":60}', '{"rss_bytes":1048576,"database_connections":4,"database_idle":4}');
select is((select concat_ws(' ', t ->> 'ingested', t ->> 'ingestedPerSecond', t ->> 'processed', t ->> 'avgLagMs', t ->> 'avgEventLoopLagMs', t ->> 'ackFailed', t ->> 'queenCpuUserPct', t ->> 'queenRssMb', t ->> 'dbPoolSize', t ->> 'dbPoolActive')
           from jsonb_array_elements(queen.status_v1('', '', '', '', '')::jsonb -> 'throughput') t where t ->> 'popMessages' = '60'), '180 3.00 60 10 0.50 1 10.00 2.0 8 1', 'status: hosts add up');
select is((select concat_ws(' ', s -> 'messages' ->> 'total', s -> 'messages' -> 'requests' ->> 'push', s -> 'messages' -> 'batchEfficiency' ->> 'push', s -> 'errors' ->> 'ackFailed', jsonb_array_length(s -> 'workers'), s -> 'queues' -> 0 ->> 'totalConsumed')
           from (select queen.status_v1('', '', '', '', '')::jsonb as s) t), '3 12 15.00 1 2 2', 'status: totals');
select is((select sum((t ->> 'ingested')::int) || ' ' || sum((t ->> 'processed')::int) from jsonb_array_elements(queen.status_v1('', '', 'q', '', '')::jsonb -> 'throughput') t), '3 2', 'status of one queue');
select is(jsonb_array_length(queen.status_v1('', '', 'none', '', '')::jsonb -> 'queues'), 0, 'status of none');
insert into queen.log_dlq (partition_id, consumer_group, "offset", error) select pg_temp.pid('q'), 'g', i, 'e' || i % 2 from generate_series(1, 3) i;
select is(queen.status_v1('', '', '', '', '')::jsonb -> 'deadLetterQueue', '{"totalMessages":3,"currentMessages":3,"affectedPartitions":1,"topErrors":[{"error":"e1","count":2},{"error":"e0","count":1}]}', 'dead letters');
select is(pg_temp.pop('q', 'w3', 1), 'p:c', 'pop');
select is(queen.status_v1('', '', '', '', '')::jsonb -> 'leases', '{"active":1,"partitionsWithLeases":1,"totalBatchSize":1,"totalAcked":0}', 'leases');
select is((select concat_ws(' ', q ->> 'name', q ->> 'partitions', q -> 'messages' ->> 'pending', q -> 'messages' ->> 'deadLetter') from jsonb_array_elements(queen.status_queues_v1('', '', '', 10, 0)::jsonb -> 'queues') q), 'q 1 1 3', 'status/queues');
select is(queen.status_queues_v1('none', '', '', 10, 0)::jsonb, '{"queues":[],"pagination":{"limit":10,"offset":0}}', 'status/queues of none');
select is(queen.status_queue_v1('none', 1, 0), null, 'status/queues/none');
select is((select concat_ws(' ', d -> 'queue' ->> 'name', d -> 'partitions' -> 0 -> 'cursor' ->> 'totalConsumed', d -> 'totals' -> 'messages' ->> 'total') from (select queen.status_queue_v1('q', 10, 0)::jsonb as d) t), 'q 2 3', 'status/queues/q');
select is((select sum((p ->> 'messages')::int) || ' ' || count(*) from jsonb_array_elements(queen.status_analytics_v1('', '', '', '', '', '')::jsonb -> 'dataPoints') p), '3 25', 'analytics by hour, with empty points');
select is((select sum((p ->> 'messages')::int) from jsonb_array_elements(queen.status_analytics_v1('', '', 'day', 'none', '', '')::jsonb -> 'dataPoints') p), 0::bigint, 'of none');
select is(left(pg_temp.raises($$ select queen.status_analytics_v1('', '', 'week', '', '', '') $$), 5), '22023', 'another interval');
select is(left(pg_temp.raises($$ select queen.status_analytics_v1('2026-01-01', '2026-02-01', 'minute', '', '', '') $$), 5), '22023', 'too many points');
select is((select concat_ws(' ', s ->> 'replicaCount', s -> 'replicas' -> 0 ->> 'hostname', s -> 'replicas' -> 0 -> 'timeSeries' -> 0 -> 'metrics' -> 'cpu' -> 'user_us' ->> 'avg', s -> 'replicas' -> 0 -> 'timeSeries' -> 0 -> 'metrics' -> 'memory' -> 'rss_bytes' ->> 'last')
           from (select queen.analytics_system_v1('', '', '', '')::jsonb as s) t), '2 h 100000 1048576', 'system metrics');
select is(queen.analytics_system_v1('', '', 'i', '')::jsonb ->> 'replicaCount', '1', 'of one host');
select is(queen.analytics_system_v1('', '', '', 'a')::jsonb ->> 'replicaCount', '1', 'of one instance');
select is((select concat_ws(' ', s -> 'summary' ->> 'totalPushMessages', s -> 'summary' ->> 'pendingMessages', s -> 'timeSeries' -> 0 ->> 'ackSuccess', s -> 'queues' -> 0 ->> 'popCount')
           from (select queen.analytics_workers_v1('', '', '', '')::jsonb as s) t), '180 1 59 2', 'worker metrics');
select is((select sum((l ->> 'popCount')::int) from jsonb_array_elements(queen.analytics_queue_lag_v1('', '', 'q', 10, 0)::jsonb) l), 2::bigint, 'queue lag');
select is(queen.analytics_queue_lag_v1('', '', 'none', 10, 0), '[]', 'of none');
select is((select sum((l ->> 'pushMessages')::int) || ' ' || sum((l ->> 'popMessages')::int) from jsonb_array_elements(queen.analytics_queue_ops_v1('', '', '', 10, 0)::jsonb -> 'series') l), '3 2', 'queue ops');
select is(queen.analytics_queue_ops_v1('', '', '', 10, 0)::jsonb -> 'queues', '["q"]', 'their queues');
insert into queen.retention_history (queue_id, retention_type, segments, messages) select id, r, 1, 5 from queen.queues, unnest('{retention,completed_retention,max_wait_time_eviction}'::text[]) r;
select is(queen.analytics_retention_v1('', '', 'q')::jsonb -> 'totals', '{"retentionMsgs":5,"completedRetentionMsgs":5,"evictionMsgs":5,"totalMsgs":15,"eventCount":3}', 'retention');
select is(queen.analytics_retention_v1('', '', 'none')::jsonb -> 'totals' ->> 'totalMsgs', '0', 'of none');
select is((select count(*) from jsonb_object_keys(queen.analytics_postgres_v1()::jsonb)), 13::bigint, 'postgres stats');

-- purge
insert into queen.metrics_minute select clock_timestamp() - interval '91 days' - i * interval '1 min', 'h', 'a', 60, '{}', '{}' from generate_series(1, 3) i;
insert into queen.queue_metrics_minute select clock_timestamp() - interval '91 days', gen_random_uuid(), 60, 1, 1, 1, 1, null, null;
insert into queen.retention_history (queue_id, retention_type, segments, messages, executed_at) values (gen_random_uuid(), 'retention', 1, 1, clock_timestamp() - interval '91 days');
select is(queen.metrics_purge_v1(90, 2), 4::bigint, 'a bounded number a table');
select is(queen.metrics_purge_v1(90, 2), 1::bigint, 'the rest');
select is(queen.metrics_purge_v1(90, 2), 0::bigint, 'nothing is due');
select is((select count(*) from queen.metrics_minute) || ' ' || (select count(*) from queen.retention_history), '2 3', 'the young stay');

select * from finish();
rollback;
