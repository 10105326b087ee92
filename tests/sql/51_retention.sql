-- Retention: the rules on age, the rule on cursors, the cleanup of empty partitions.
begin;
create extension if not exists pgtap;
select no_plan();
\ir helpers.psql

-- Three segments of a partition, the first two an hour old.
create function pg_temp.fill(p_queue text) returns void language plpgsql as $$
begin
    perform pg_temp.push(p_queue, 'p', '{a}'), pg_temp.push(p_queue, 'p', '{b,c}');
    update queen.log_segments set created_at = created_at - interval '1 hour' where partition_id = pg_temp.pid(p_queue);
    update queen.log_partitions set oldest_live_at = oldest_live_at - interval '1 hour' where id = pg_temp.pid(p_queue);
    perform pg_temp.push(p_queue, 'p', '{d}');
end $$;
create function pg_temp.kept(p_queue text) returns text language sql as $$
    select p.log_start || ' ' || (select count(*) from queen.log_segments s where s.partition_id = p.id)
           || case when p.oldest_live_at is null then ' empty' else '' end
    from queen.log_partitions p where p.id = pg_temp.pid(p_queue) $$;

do $$ begin perform pg_temp.fill('off'), pg_temp.fill('age'), pg_temp.fill('wait'), pg_temp.fill('done'), pg_temp.fill('all'); end $$;
update queen.queues set retention_seconds = 60, completed_retention_seconds = 60 where name = 'off';
update queen.queues set retention_enabled = true, retention_seconds = 60 where name = 'age';
update queen.queues set max_wait_time_seconds = 60 where name = 'wait';
update queen.queues set retention_enabled = true, completed_retention_seconds = 60 where name = 'done';

select is(queen.log_retention_expired_v1(10, 1), 2::bigint, 'a step is bounded per partition');
select is(pg_temp.kept('age'), '1 2', 'one segment of age');
select is(queen.log_retention_expired_v1(10, 100), 2::bigint, 'the next step takes the rest that is due');
select is(queen.log_retention_expired_v1(10, 100), 0::bigint, 'nothing is due any more');
select is(pg_temp.kept('age'), '3 1', 'retentionSeconds keeps what is young');
select is(pg_temp.kept('wait'), '3 1', 'maxWaitTimeSeconds needs no switch');
select is(pg_temp.kept('off'), '0 3', 'seconds without retentionEnabled delete nothing');
select is(pg_temp.kept('all'), '0 3', 'nor does a queue without rules');
select is((select string_agg(retention_type || ' ' || s, ', ' order by retention_type)
           from (select retention_type, sum(messages) as s from queen.retention_history group by 1) t),
          'max_wait_time_eviction 3, retention 3', 'history');

select is(queen.log_retention_completed_v1(10, 100), 0::bigint, 'nobody has consumed: nothing');
select is(pg_temp.pop('done', 'w1', 1), 'p:a', 'one group takes a');
select is(pg_temp.ack('done', 'w1', 'a:completed'), 'done released acked=1', 'and acks it');
select is(queen.log_retention_completed_v1(10, 100), 1::bigint, 'consumed by the only group');
select is(pg_temp.kept('done'), '1 2', 'the first segment is gone');
select is(pg_temp.pop('done', 'w2', 1, 1, 'h'), 'p:b', 'another group starts behind the gap');
select is(pg_temp.pop('done', 'w3', 10), 'p:b,c,d', 'the first goes on');
select is(pg_temp.ack('done', 'w3', 'd:completed'), 'done released acked=3', 'to the end');
select is(queen.log_retention_completed_v1(10, 100), 0::bigint, 'the slowest group decides');

-- An empty partition goes when it has long been idle, holds no dead letter and no lease.
select is(pg_temp.push('idle', 'p', '{x}'), 'queued 0', 'push');
delete from queen.log_segments where partition_id = pg_temp.pid('idle');
update queen.log_partitions set oldest_live_at = null, last_write_at = now() - interval '40 days', created_at = now() - interval '50 days'
where id = pg_temp.pid('idle');
select is(queen.log_partitions_cleanup_v1(10, 45), 0::bigint, 'not idle for so long');
insert into queen.log_dlq (partition_id, consumer_group, "offset", error) values (pg_temp.pid('idle'), 'g', 0, 'why');
select is(queen.log_partitions_cleanup_v1(10, 30), 0::bigint, 'a dead letter keeps it');
delete from queen.log_dlq;
select is(queen.log_partitions_cleanup_v1(10, 30), 1::bigint, 'now it goes');
select is((select count(*) from queen.log_txns t where not exists (select from queen.log_partitions p where p.id = t.partition_id)),
          0::bigint, 'with its hash rows');
select is(pg_temp.push('idle', 'p', '{x}'), 'queued 0', 'the name is born anew, from offset 0');
select * from finish();
rollback;
