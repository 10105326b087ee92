-- Queues, partitions, depth, overview, clear: watermark arithmetic.
begin;
create extension if not exists pgtap;
select no_plan();
\ir helpers.psql

-- total pending processing completed dead
create function pg_temp.load(p_json json) returns text language sql as $$
    select concat_ws(' ', p_json ->> 'total', p_json ->> 'pending', p_json ->> 'processing', p_json ->> 'completed', p_json ->> 'deadLetter') $$;
create function pg_temp.totals(p_queue text) returns text language sql as $$
    select pg_temp.load(queen.queue_get_v1(p_queue, 100, 0)::json -> 'totals') $$;
create function pg_temp.depth(p_queue text, p_group text default '') returns text language sql as $$
    select concat_ws(' ', d ->> 'pending', d ->> 'processing', d ->> 'ready', d ->> 'partitionsPending', d ->> 'partitionsReady', d ->> 'effectivePending', d ->> 'effectiveReady')
    from (select queen.queue_depth_v1(p_queue, p_group, 100, 0)::json as d) t $$;

select is(queen.queue_get_v1('none', 1, 0), null, 'no such queue');
select is(queen.queue_depth_v1('none', '', 1, 0), null, 'no such queue');
select pg_temp.configure('q', '{"leaseTime":60,"priority":7}');
select is(pg_temp.totals('q'), '0 0 0 0 0', 'an empty queue');
select is(pg_temp.depth('q'), '0 0 0 0 0 0 0', 'an empty queue');
select is((select string_agg(k, ' ' order by k) from json_object_keys(queen.queue_get_v1('q', 1, 0)::json -> 'options') k),
          'completedRetentionSeconds deadLetterQueue dedupWindowSeconds delayedProcessing dlqAfterMaxRetries encryptionEnabled leaseTime maxSize maxWaitTimeSeconds minPopWaitTime namespace priority retentionEnabled retentionSeconds retentionSinkHold retentionSinkHoldMaxSeconds retryDelay retryLimit task ttl windowBuffer', 'all options');
select is(queen.queue_get_v1('q', 1, 0)::json -> 'options' ->> 'priority', '7', 'with their values');

select is(pg_temp.push('q', 'p', '{a,b,c,d}'), 'queued 0', 'push');
select is(pg_temp.push('q', 'r', '{x,y}'), 'queued 0', 'push');
select is(pg_temp.totals('q'), '6 6 0 0 0', 'nobody reads: everything is pending');
select is(pg_temp.pop('q', 'w1', 2), 'p:a,b', 'a lease');
select is(pg_temp.totals('q'), '6 6 2 0 0', 'leased messages are pending');
select is(pg_temp.depth('q'), '6 2 4 2 2 6 4', 'and not ready');
select matches(pg_temp.ack('q', 'w1', 'a:completed b:completed'), ' released acked=2$', 'ack');
select is(pg_temp.totals('q'), '6 4 0 2 0', 'completed');
select is(pg_temp.pop('q', 'w2', 4, p_group => 'h', p_partition => 'p'), 'p:a,b,c,d', 'a second group, all of a partition');
select is(pg_temp.totals('q'), '6 6 4 0 0', 'the lowest cursor counts');
select is(pg_temp.depth('q', 'g'), '4 0 4 2 2 4 4', 'a group has its own');
select is(pg_temp.depth('q', 'h'), '6 4 2 2 1 6 2', 'and its own leases');
select is(pg_temp.depth('q', 'nobody'), '6 0 6 2 2 6 6', 'a group without cursors: everything');
select pg_temp.expire('q', 'h');
select is(pg_temp.depth('q', 'h'), '6 0 6 2 2 6 6', 'a lease that has run out does not count');
insert into queen.log_dlq (partition_id, consumer_group, "offset", error) values (pg_temp.pid('q'), 'g', 0, 'e');
select queen.group_delete_v1('h', null, true);
select is(pg_temp.totals('q'), '6 4 0 1 1', 'a dead letter is not completed');
update queen.log_partitions set log_start = 3 where id = pg_temp.pid('q');
delete from queen.log_segments where partition_id = pg_temp.pid('q');
select is(pg_temp.depth('q'), '3 0 3 2 2 3 3', 'what is deleted does not count');
select is((select string_agg(concat_ws(' ', p ->> 'name', pg_temp.load(p -> 'stats'), p ->> 'oldestMessage' is null, p ->> 'newestMessage' is null), ', ')
           from json_array_elements(queen.queue_get_v1('q', 100, 0)::json -> 'partitions') p), 'p 1 1 0 0 1 t f, r 2 2 0 0 0 f f', 'per partition');
select is((select string_agg(p ->> 'name', ' ') from json_array_elements(queen.queue_get_v1('q', 1, 1)::json -> 'partitions') p), 'r', 'a page of partitions');
select is((select string_agg(p ->> 'partition', ' ') from json_array_elements(queen.queue_depth_v1('q', '', 1, 1)::json -> 'partitions') p), 'r', 'a page of the depth');
select is(pg_temp.totals('q'), '3 3 0 0 1', 'the sums are over all');
select is((select extract(epoch from clock_timestamp() - (p ->> 'oldestMessage')::timestamptz) < 60 from json_array_elements(queen.queue_get_v1('q', 1, 1)::json -> 'partitions') p), true, 'oldest message');

-- lists
select is(queen.queue_get_v1('dot.ted.q', 1, 0), null, 'not yet');
select is(pg_temp.push('dot.ted.q', 'p', '{m}'), 'queued 0', 'a dotted name');
select is((select string_agg(concat_ws(' ', q ->> 'name', q ->> 'partitions', q -> 'messages' ->> 'total', q -> 'messages' ->> 'pending', q -> 'segments' ->> 'messages'), ', ')
           from json_array_elements(queen.queues_list_v1(10, 0)::json -> 'queues') q), 'dot.ted.q 1 1 1 1, q 2 3 3 3', 'queues by name');
select is((select string_agg(q ->> 'name', ' ') from json_array_elements(queen.queues_list_v1(1, 1)::json -> 'queues') q), 'q', 'a page');
select is(queen.queue_labels_v1('namespace', 10, 0)::jsonb, '{"namespaces":[{"namespace":"dot","queues":1,"partitions":1,"messages":{"total":1,"pending":1}}]}', 'namespaces');
select is(queen.queue_labels_v1('task', 10, 0)::jsonb, '{"tasks":[{"task":"ted","queues":1,"partitions":1,"messages":{"total":1,"pending":1}}]}', 'tasks');
select is(queen.queue_labels_v1('task', 10, 1)::jsonb, '{"tasks":[]}', 'a page');
select is((select string_agg(concat_ws(' ', p ->> 'queue', p ->> 'name', p ->> 'lastOffset', p ->> 'logStart'), ', ')
           from json_array_elements(queen.partitions_list_v1('', 10, 0)::json -> 'partitions') p), 'dot.ted.q p 0 0, q p 3 3, q r 1 0', 'partitions');
select is((select string_agg(p ->> 'name', ' ') from json_array_elements(queen.partitions_list_v1('q', 1, 1)::json -> 'partitions') p), 'r', 'of one queue, a page');
select is(queen.partitions_list_v1('none', 1, 0)::jsonb, '{"partitions":[]}', 'of no queue');
update queen.log_partitions set last_write_at = '-infinity' where id = pg_temp.pid('q');
select is(queen.partitions_list_v1('q', 1, 0)::json -> 'partitions' -> 0 ->> 'lastWriteAt', null, 'never written');

-- overview
select queen.stats_refresh_v1();
select is(concat_ws(' ', o ->> 'queues', o ->> 'partitions', o ->> 'namespaces', o ->> 'tasks', pg_temp.load(o -> 'messages'), o ->> 'statsAge',
                    o -> 'lag' -> 'offset' ->> 'max', o -> 'lag' -> 'offset' ->> 'min', o -> 'lag' -> 'time' ->> 'max'), '2 3 1 1 4 4 0 0 1 0 2 1 0', 'overview')
from (select queen.overview_v1()::json as o) t;

-- clear
select is(queen.queue_clear_v1('none', ''), null, 'no such queue');
select is(queen.queue_clear_v1('q', 'none'), null, 'no such partition');
select is(pg_temp.pop('q', 'w3', 1, p_partition => 'r'), 'r:x', 'a lease');
select is(queen.queue_clear_v1('q', 'r'), 2::bigint, 'one partition');
select is(pg_temp.cursor('q', p_partition => 'r'), 'committed 1', 'cursor at the end, lease gone');
select is((select last_offset || ' ' || log_start || ' ' || coalesce(oldest_live_at::text, 'none') from queen.log_partitions where id = pg_temp.pid('q', 'r')), '1 2 none', 'nothing retained');
select is((select count(*) from queen.log_segments where partition_id = pg_temp.pid('q', 'r')), 0::bigint, 'segments gone');
select is(pg_temp.push('q', 'r', '{y,z}'), 'duplicate 0@1', 'a repeated push is still a duplicate');
select is(pg_temp.push('q', 'r', '{z}'), 'queued 2', 'offsets go on');
select is(pg_temp.pop('q', 'w4', p_partition => 'r'), 'r:z', 'and are delivered');
select is(queen.queue_clear_v1('q', ''), 2::bigint, 'the rest');
select is(pg_temp.totals('q'), '0 0 0 0 1', 'empty; dead letters stay');
insert into queen.queues (name) values ('bare');
select is(queen.queue_clear_v1('bare', ''), 0::bigint, 'a queue without partitions');

select * from finish();
rollback;
