-- First contact: where a group starts.
begin;
\ir helpers.psql
select no_plan();

create function pg_temp.start(p_group text, p_mode text, p_from text, p_partition text default 'p') returns bigint language plpgsql as $$
begin
    perform pg_temp.pop('q', 'w', 1, 1, p_group, null, 0, false, p_mode, p_from);
    return (select committed from queen.log_consumers where partition_id = pg_temp.pid('q', p_partition) and consumer_group = p_group);
end $$;

select pg_temp.push('q', 'p', '{a,b}');
select pg_temp.push('q', 'p', '{c}');
select pg_temp.push('q', 'p', '{d,e,f}');
update queen.log_segments set created_at = timestamptz '2026-01-01 00:00:00.000001Z' + make_interval(days => base_offset::int) where partition_id = pg_temp.pid('q');
update queen.log_partitions set last_created_at = '2026-01-04 00:00:00.000001Z' where id = pg_temp.pid('q');
-- Segments: 0-1 on the 1st, 2 on the 3rd, 3-5 on the 4th.

select is(pg_temp.start('all', 'all', ''), -1::bigint, 'all');
select is(pg_temp.start('new', 'new', ''), 5::bigint, 'new: from the last offset');
select is(pg_temp.start('now', 'all', 'now'), 5::bigint, 'now');
select is(pg_temp.start('t0', 'all', '2020-01-01T00:00:00Z'), -1::bigint, 'a time before everything');
select is(pg_temp.start('t1', 'all', '2026-01-01T00:00:00.000001Z'), -1::bigint, 'inclusive, to the microsecond');
select is(pg_temp.start('t2', 'all', '2026-01-01T00:00:00.000002Z'), 1::bigint, 'just after the first segment');
select is(pg_temp.start('t3', 'new', '2026-01-03T02:00:00+02:00'), 1::bigint, 'a zone; the time goes before the mode');
select is(pg_temp.start('t4', 'all', '2026-01-03 12:00'), 2::bigint, 'without zone: UTC');
select is(pg_temp.start('t5', 'all', '2100-01-01'), 5::bigint, 'later than everything: the last offset');
select is(pg_temp.start('bad' || row_number() over (), 'all', f), -1::bigint, 'not a time: ' || f)
from unnest(array['yesterday', 'infinity', '2026-13-45', '2026-01-01T99', '{}', '''; select 1', 'NOW', '2026-01-01 garbage']) f;
select is(pg_temp.start('badnew', 'new', 'garbage'), 5::bigint, 'not a time: the mode counts');
select is(pg_temp.start('__QUEUE_MODE__', 'new', 'now'), -1::bigint, 'queue mode has everything');
select is((select string_agg(subscription_mode, ',' order by consumer_group) from queen.consumer_groups_metadata where consumer_group in ('all', 'new', 't2', '__QUEUE_MODE__')),
          'all,all,new,timestamp', 'recorded');
select is((select subscription_timestamp from queen.consumer_groups_metadata where consumer_group = 'all'), '1970-01-01 00:00:00+00'::timestamptz, 'all: 1970');

select is(pg_temp.start('new', 'all', '2020-01-01'), 5::bigint, 'later pops that say otherwise change nothing');
select is(pg_temp.pop('q', 'w', 1, 1, 'pinned', 'p', 0, false, 'new'), 'nothing', 'pinned: registers as well');
select is((select committed from queen.log_consumers where consumer_group = 'pinned'), 5::bigint, 'from its mode');

update queen.log_partitions set log_start = 2 where id = pg_temp.pid('q');
select is(pg_temp.start('all2', 'all', ''), 1::bigint, 'all of what is retained');

select pg_temp.push('q', 'late', '{x}');
select is((select string_agg(distinct committed::text, ',') from queen.log_consumers where partition_id = pg_temp.pid('q', 'late')), '-1', 'a partition born later is delivered whole to every group');
select is(pg_temp.pop('q', 'w', 9, 9, 'new', null, 0, true), 'late:x', 'also to a new one');

-- Cursor rows that were lost are placed by the record
delete from queen.log_consumers where partition_id = pg_temp.pid('q', 'late');
delete from queen.log_consumers where partition_id = pg_temp.pid('q');
select is(queen.log_consumers_seed_v1(array_agg(queue_id), array_agg(consumer_group)), 2::bigint * count(*), 'seeded again') from queen.consumer_groups_metadata where consumer_group in ('t2', 'all', 'new');
select is(pg_temp.rows($$select p.name, c.consumer_group, c.committed from queen.log_consumers c join queen.log_partitions p on p.id = c.partition_id order by 1, 2$$),
          '(late,all,-1) (late,new,-1) (late,t2,-1) (p,all,1) (p,new,5) (p,t2,1)', 'where the subscription says');

-- log_offset_at over many segments: the same as a walk
select pg_temp.push('walk', 'p', array(select 'w' || i || '-' || k from generate_series(1, 1 + i % 7) k)) from generate_series(1, 60) i;
update queen.log_segments set created_at = timestamptz '2026-01-01' + make_interval(secs => (base_offset / 3)::int * 10) where partition_id = pg_temp.pid('walk');
update queen.log_partitions set last_created_at = (select max(created_at) from queen.log_segments where partition_id = pg_temp.pid('walk')) where id = pg_temp.pid('walk');
delete from queen.log_segments where partition_id = pg_temp.pid('walk') and base_offset < 20;
update queen.log_partitions set log_start = (select min(base_offset) from queen.log_segments where partition_id = pg_temp.pid('walk')) where id = pg_temp.pid('walk');
select is(count(*) filter (where queen.log_offset_at_v1(pg_temp.pid('walk'), t.at) is distinct from coalesce(
              (select min(base_offset) - 1 from queen.log_segments where partition_id = pg_temp.pid('walk') and created_at >= t.at),
              (select last_offset from queen.log_partitions where id = pg_temp.pid('walk')))), 0::bigint, 'halving finds what a walk finds')
from (select timestamptz '2026-01-01' + make_interval(secs => s) as at from generate_series(-5, 1000, 5) s) as t;
select is(queen.log_offset_at_v1(gen_random_uuid(), now()), null, 'no such partition');

select * from finish();
rollback;
