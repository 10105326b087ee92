-- Dead letters: what is filed, and the listing. Lease renewal.
begin;
\ir helpers.psql
select no_plan();

select pg_temp.push('q', 'p', '{a,b,c}');
select pg_temp.pop('q', 'w');
update queen.log_consumers set batch_retry_count = 2 where partition_id = pg_temp.pid('q');
select is(pg_temp.ack('q', 'w', 'a:completed b:dlq'), 'done dlq@1 acked=1 dlqHashes=b', 'handed over');
select is(pg_temp.file('q', 'other', 1), 'invalid or expired lease', 'not the holder');
select is(pg_temp.file('q', 'w', 3), 'invalid or expired lease', 'beyond the batch');
select is(pg_temp.file('q', 'w', 1, 'because'), 'done', 'filed');
select is(pg_temp.rows($$select d.partition_id = pg_temp.pid('q'), consumer_group, "offset", message_id, convert_from(transaction_id, 'UTF8'), convert_from(payload, 'UTF8'), error, retry_count,
    d.created_at = s.created_at, d.failed_at > s.created_at from queen.log_dlq d join queen.log_segments s on s.partition_id = d.partition_id and s.base_offset = 0$$),
    '(t,g,1,00000000-0000-7000-8000-000000000001,txn,"{""a"":1.0}",because,2,t,t)', 'with snapshot, reason, budget consumed, time of the message');
select is(pg_temp.cursor('q'), 'committed 1', 'past the one frame, state reset');
select is(pg_temp.pop('q', 'w2'), 'p:c', 'the rest');
select is(queen.log_dlq_head_v1(pg_temp.pid('q'), 'g', 'w2', 2, null, null, null, 'unreadable') ->> 'ok', 'true', 'a frame that cannot be read is filed without payload');
select is(queen.log_dlq_head_v1(pg_temp.pid('q'), 'stranger', 'w2', 2, null, null, null, 'x') ->> 'error', 'consumer not found', 'unknown group');
select pg_temp.push('q', 'p', '{d,e}');
select pg_temp.pop('q', 'w3');
select pg_temp.ack('q', '', 'd:completed');
select is(pg_temp.file('q', 'w3', 3), 'invalid or expired lease', 'the cursor has passed it: never backwards');
select pg_temp.expire('q');
select is(pg_temp.file('q', 'w3', 4), 'invalid or expired lease', 'expired');

-- Listing
select pg_temp.push('l' || i, 'p' || k, '{a,b}') from generate_series(1, 2) i, generate_series(1, 2) k;
select pg_temp.pop('l' || i, 'w', 9, 9) from generate_series(1, 2) i;
select pg_temp.file('l' || i, 'w', 0, 'l' || i || k, 'g', 'p' || k) from generate_series(1, 2) i, generate_series(1, 2) k;
update queen.log_dlq set failed_at = timestamptz '2026-01-01' + make_interval(days => substring(error from 2)::int) where error like 'l%';
create function pg_temp.list(p_queue text, p_group text, p_partition text, p_from text default null, p_to text default null, p_limit int default 100, p_offset int default 0) returns text language sql as $$
    select string_agg(d.error, ' ') from queen.dlq_list_v1(p_queue, p_group, p_partition, p_from::timestamptz, p_to::timestamptz, p_limit, p_offset) d $$;
select is(pg_temp.list('', '', ''), 'unreadable because l22 l21 l12 l11', 'all, newest first');
select is(pg_temp.list(null, null, null, null, null, 2, 2), 'l22 l21', 'a page');
select is(pg_temp.list('l1', '', ''), 'l12 l11', 'a queue');
select is(pg_temp.list('l1', '', 'p1'), 'l11', 'a partition');
select is(pg_temp.list('', '', 'p1'), 'l21 l11', 'a partition of any queue');
select is(pg_temp.list('l1', 'other', ''), null, 'another group');
select is(pg_temp.list('', 'g', '', '2026-01-13', '2026-01-22'), 'l21 l12', 'a time range, inclusive');
select is(pg_temp.list('', '', '', null, null, -1, -1), null, 'silly bounds');
select is(pg_temp.rows($$select queue, partition, consumer_group, retry_count, convert_from(payload, 'UTF8'), created_at is not null from queen.dlq_list_v1('l2', '', 'p2', null, null, 5, 0)$$),
          '(l2,p2,g,0,"{""a"":1.0}",t)', 'columns');

-- Renewal
select pg_temp.push('n', 'p' || i, '{a}') from generate_series(1, 3) i;
select pg_temp.pop('n', 'w', 9, 2, 'g', null, 30);
select pg_temp.pop('n', 'v', 9, 1, 'g', null, 30);
create function pg_temp.renew(p_worker text, p_seconds int) returns text language sql as $$
    select r.renewed || ' ' || coalesce(round(extract(epoch from r.expires_at - clock_timestamp()))::text, '-') from queen.log_renew_lease_v1(p_worker, p_seconds) r $$;
select is(pg_temp.renew('w', 100), '2 100', 'every row of the lease id');
select is(pg_temp.renew('w', 10), '2 100', 'never shortens');
select is(pg_temp.renew('w', -5), '2 100', 'at least a second');
update queen.log_consumers set lease_expires_at = clock_timestamp() + interval '20 seconds' where partition_id = (select partition_id from queen.log_consumers where worker_id = 'w' limit 1);
select is(pg_temp.renew('w', 1), '2 20', 'the earliest expiry');
update queen.log_consumers set lease_expires_at = clock_timestamp() - interval '1 second' where partition_id = (select partition_id from queen.log_consumers where worker_id = 'w' order by lease_expires_at limit 1);
select is(pg_temp.renew('w', 50), '1 100', 'an expired lease is not revived');
select is(pg_temp.renew('v', 60), '1 60', 'another lease is not touched by it');
select is(pg_temp.renew('unknown', 60), '0 -', 'unknown');
select is(pg_temp.renew('', 60), '0 -', 'empty');

-- A repeat after a lost answer: not ok, but told that this very dead letter was filed.
select is(pg_temp.push('filed', 'p', '{a,b}'), 'queued 0', 'push');
select is(pg_temp.pop('filed', 'w1'), 'p:a,b', 'pop');
select is(pg_temp.ack('filed', 'w1', 'a:dlq') ~ 'dlq@0', true, 'handed over');
create function pg_temp.again(p_worker text, p_off bigint) returns text language sql as $$
    select concat_ws(' ', a ->> 'ok', a ->> 'filed')
    from queen.log_dlq_head_v1(pg_temp.pid('filed'), 'g', p_worker, p_off, null, null, null, 'why') as a $$;
select is(pg_temp.again('w1', 0), 'true', 'filed');
select is(pg_temp.again('w1', 0), 'false true', 'again: filed before');
select is(pg_temp.again('w1', 1), 'false false', 'another offset was not');
select is(pg_temp.again('w2', 0), 'false false', 'nor by another lease');
select * from finish();
rollback;
