-- drained_before: pops look only at what was written since a group had consumed everything.
begin;
create extension if not exists pgtap;
select no_plan();
\ir helpers.psql

create function pg_temp.mark(p_group text default 'g') returns text language sql as $$
    select case when m.drained_before = '-infinity' then 'everything'
                when m.drained_before > clock_timestamp() - interval '1 minute' then 'recent' else 'old' end || ' ' || m.moved
    from queen.consumer_groups_metadata m join queen.queues q on q.id = m.queue_id
    where q.name = 'd' and m.consumer_group = p_group $$;
-- As if the partition had been written (and everything found consumed) long ago.
create function pg_temp.written_ago(p_partition text, p_age interval) returns void language sql as $$
    update queen.log_partitions p set last_write_at = clock_timestamp() - p_age
    from queen.queues q where q.id = p.queue_id and q.name = 'd' and p.name = p_partition $$;

select is(pg_temp.push('d', 'a', '{1}'), 'queued 0', 'push to a');
select is(pg_temp.push('d', 'b', '{2}'), 'queued 0', 'push to b');
select is(pg_temp.pop('d', 'w1', 10), 'a:1', 'pop a');
select is(pg_temp.mark(), 'everything 0', 'while something is pending, nothing is remembered');
select is(pg_temp.pop('d', 'w2', 10), 'b:2', 'pop b');
select is(pg_temp.pop('d', 'w3', 10) ~ '^(wait|nothing)', true, 'both leased');
select is(pg_temp.mark(), 'everything 0', 'a leased batch counts as pending');
select is(pg_temp.ack('d', 'w1', '1:completed', p_partition => 'a'), 'done released acked=1', 'ack a');
select is(pg_temp.ack('d', 'w2', '2:completed', p_partition => 'b'), 'done released acked=1', 'ack b');
select is(pg_temp.pop('d', 'w4', 10) ~ '^(wait|nothing)', true, 'nothing left');
select is(pg_temp.mark(), 'recent 0', 'now it is remembered');

select is(pg_temp.push('d', 'b', '{3}'), 'queued 1', 'a later push');
select is(pg_temp.pop('d', 'w5', 10), 'b:3', 'is found');
select is(pg_temp.ack('d', 'w5', '3:completed', p_partition => 'b'), 'done released acked=1', 'ack');

-- A seek back makes an old partition pending again, and must be seen.
select pg_temp.written_ago('a', '1 hour');
select is(queen.group_seek_v1('g', 'd', 'a', false, '1970-01-01T00:00:00Z'), 1::bigint, 'seek back');
select is(pg_temp.mark(), 'everything 1', 'a seek starts over');
select is(pg_temp.pop('d', 'w6', 10), 'a:1', 'the old message is found');
select is(pg_temp.ack('d', 'w6', '1:completed', p_partition => 'a'), 'done released acked=1', 'ack');

-- A finding from before the seek must not be put back after it.
select queen.log_pop_drained_v1(array_agg(m.queue_id), array_agg(0::bigint), clock_timestamp(), 'g')
from queen.consumer_groups_metadata m join queen.queues q on q.id = m.queue_id where q.name = 'd';
select is(pg_temp.mark(), 'everything 1', 'a stale finding changes nothing');

-- Deleted cursors with the subscription kept.
select is(pg_temp.pop('d', 'w7', 10) ~ '^(wait|nothing)', true, 'all consumed again');
select is(pg_temp.mark(), 'recent 1', 'remembered again');
select is((queen.group_delete_v1('g', 'd', false)).cursors, 2::bigint, 'cursors deleted, subscription kept');
select is(pg_temp.mark(), 'everything 2', 'starts over');
select * from finish();
rollback;
