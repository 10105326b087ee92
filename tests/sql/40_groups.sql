-- Consumer groups: lag, listings, subscription, seek, delete.
begin;
create extension if not exists pgtap;
select no_plan();
\ir helpers.psql

create function pg_temp.lag(p_queue text, p_group text default 'g') returns text language sql as $$
    select string_agg(c.partition || ':' || c.lag || case when c.oldest is null then ' none' else '' end
                      || case when c.leased then ' leased' else '' end, ', ' order by c.partition)
    from queen.consumer_lag_v1(p_group) c where c.queue = p_queue $$;

-- lag
select is(pg_temp.push('q', 'p', '{a,b,c}'), 'queued 0', 'push');
select is(pg_temp.push('q', 'p2', '{x}'), 'queued 0', 'push');
select is(pg_temp.lag('q'), null, 'no cursor, no lag');
select is(pg_temp.pop('q', 'w1', 2), 'p:a,b', 'pop');
select is(pg_temp.lag('q'), 'p:3 leased, p2:1', 'leased messages are not consumed');
select is(pg_temp.ack('q', 'w1', 'a:completed b:completed'), 'done released acked=2', 'ack');
select is(pg_temp.lag('q'), 'p:1, p2:1', 'consumed');
update queen.log_partitions set log_start = 3 where id = pg_temp.pid('q');
select is(pg_temp.lag('q'), 'p:0 none, p2:1', 'what is deleted does not count');
update queen.log_partitions set log_start = 0 where id = pg_temp.pid('q');
select is(pg_temp.lag('q', null), 'p:1, p2:1', 'all groups');
delete from queen.log_segments where partition_id = pg_temp.pid('q', 'p2');
select is(pg_temp.lag('q'), 'p:1, p2:1 none', 'nothing stored any more: no age');
select is(pg_temp.push('q', 'p2', '{y}'), 'queued 1', 'push');

-- list
select is((select string_agg(concat_ws(' ', g ->> 'name', g ->> 'queueName', g ->> 'members', g ->> 'partitionsWithLag', g ->> 'totalLag', g ->> 'maxTimeLag', g ->> 'state',
                                       g ->> 'subscriptionMode', g ->> 'conflation'), '; ')
           from json_array_elements(queen.groups_list_v1(10, 0)::json) g), 'g q 2 2 3 0 Stable all false', 'list');
select pg_temp.age('q', 'p', '10 minutes');
select is((select g ->> 'state' from json_array_elements(queen.groups_list_v1(10, 0)::json) g), 'Lagging', 'above 300 s');
select is(queen.groups_list_v1(10, 1), '[]', 'behind the end');
update queen.log_consumers set total_consumed = 0;
select pg_temp.age('q', 'p', '-10 minutes');
select is((select g ->> 'state' from json_array_elements(queen.groups_list_v1(10, 0)::json) g), 'Dead', 'never consumed');

-- lagging
select pg_temp.age('q', 'p', '90 minutes');
select is((select string_agg(concat_ws(' ', l ->> 'consumer_group', l ->> 'partition_name', l ->> 'offset_lag', l ->> 'lag_hours'), '; ')
           from json_array_elements(queen.groups_lagging_v1(60, 10, 0)::json) l), 'g p 1 1.50', 'lagging');
select is(queen.groups_lagging_v1(6000, 10, 0), '[]', 'not lagging enough');
select is(json_array_length(queen.groups_lagging_v1(0, 1, 0)::json), 1, 'limit');

-- detail
select is((select string_agg(concat_ws(' ', p ->> 'partition', p ->> 'offsetLag', p ->> 'leaseActive'), '; ')
           from json_array_elements(queen.group_detail_v1('g', 10, 0)::json -> 'q' -> 'partitions') p), 'p 1 false; p2 2 false', 'detail');
select is(json_array_length(queen.group_detail_v1('g', 1, 1)::json -> 'q' -> 'partitions'), 1, 'page');
select is(queen.group_detail_v1('nobody', 10, 0), '{}', 'unknown');

-- seek
select is(queen.group_seek_v1('g', 'none', null, true, ''), 0::bigint, 'no such queue');
select is(queen.group_seek_v1('g', 'q', 'none', true, ''), 0::bigint, 'no such partition');
select is(pg_temp.pop('q', 'w2', 2, p_partition => 'p'), 'p:c', 'a lease');
update queen.log_consumers set batch_retry_count = 2, handoff_from = 1 where partition_id = pg_temp.pid('q');
select is(queen.group_seek_v1('g', 'q', 'p', false, '1970-01-01T00:00:00Z'), 1::bigint, 'one partition');
select is(pg_temp.cursor('q'), 'committed -1', 'to the beginning, without lease, retries and attempts');
select is((select handoff_from from queen.log_consumers where partition_id = pg_temp.pid('q')), null, 'nor a poison under way');
select is(pg_temp.ack('q', 'w2', 'c:completed'), 'invalid or expired lease', 'the lease is gone');
select is(queen.group_seek_v1('g', 'q', null, true, ''), 2::bigint, 'all partitions');
select is(pg_temp.cursor('q') || ', ' || pg_temp.cursor('q', p_partition => 'p2'), 'committed 2, committed 1', 'to the end');
select is(queen.group_seek_v1('new', 'q', null, false, '2000-01-01'), 2::bigint, 'cursors are made');
select is(pg_temp.cursor('q', 'new'), 'committed -1', 'and placed');
select is((select count(*) from queen.consumer_groups_metadata where consumer_group = 'new'), 0::bigint, 'no subscription');
select is(pg_temp.push('q', 'p', '{d}'), 'queued 3', 'a younger segment');
select is(queen.group_seek_v1('g', 'q', 'p', false, (clock_timestamp() - interval '30 minutes')::text), 1::bigint, 'between two segments');
select is(pg_temp.cursor('q'), 'committed 2', 'just before the younger');
select is(queen.group_seek_v1('g', 'q', 'p', false, (clock_timestamp() + interval '1 minute')::text), 1::bigint, 'after all');
select is(pg_temp.cursor('q'), 'committed 3', 'is the end');
update queen.log_partitions set log_start = 1 where id = pg_temp.pid('q');
select is(queen.group_seek_v1('g', 'q', 'p', false, '1970-01-01'), 1::bigint, 'the beginning');
select is(pg_temp.cursor('q'), 'committed 0', 'is the retention watermark');
select is(left(pg_temp.raises($$ select queen.group_seek_v1('g', 'q', null, false, 'soon') $$), 15), '22007 timestamp', 'a bad time');
select is((select total_consumed from queen.log_consumers where partition_id = pg_temp.pid('q') and consumer_group = 'g'), 0::bigint, 'what it consumed stays');

-- subscription
select is(queen.group_subscription_v1('g', '2020-01-01')::jsonb, '{"success":true,"consumerGroup":"g","newTimestamp":"2020-01-01","rowsUpdated":1}', 'subscription');
select is((select subscription_mode || ' ' || subscription_timestamp from queen.consumer_groups_metadata where consumer_group = 'g'), 'all 2020-01-01 00:00:00+00', 'stored; the mode stays');
select is(queen.group_subscription_v1('nobody', '2020-01-01')::jsonb ->> 'rowsUpdated', '0', 'unknown group');
select is(left(pg_temp.raises($$ select queen.group_subscription_v1('g', 'x') $$), 27), '22007 subscriptionTimestamp', 'a bad time');

-- delete
select is(queen.group_delete_v1('nobody', null, true)::text, '(0,0)', 'unknown group');
select is(queen.group_delete_v1('new', 'q', true)::text, '(2,0)', 'a group without subscription');
select is(queen.group_delete_v1('g', 'other', true)::text, '(0,0)', 'not on that queue');
select queen.group_subscription_v1('g', (clock_timestamp() - interval '30 minutes')::text);
select is(queen.group_delete_v1('g', null, false)::text, '(2,0)', 'its subscription stays');
select is(queen.log_consumers_seed_v1(array[(select id from queen.queues where name = 'q')], '{g}'), 2::bigint, 'cursors made again');
select is(pg_temp.cursor('q'), 'committed 2', 'where the changed subscription says');
select is(queen.group_delete_v1('g', 'q', true)::text, '(2,1)', 'everything');
select is(pg_temp.pop('q', 'w9', p_partition => 'p2'), 'p2:y', 'a first contact: what is retained');

select * from finish();
rollback;
