-- Push: provisioning, offsets, dedup inside and outside the window, retries, refusals.
begin;
\ir helpers.psql
select no_plan();

-- Provisioning
select is(pg_temp.push('ns.task.rest', 'p', '{a}'), 'queued 0', 'the first push creates queue and partition');
select is((select namespace || '|' || task || '|' || lease_time from queen.queues where name = 'ns.task.rest'), 'ns|task|60',
          'namespace and task come from the dotted name, the lease time from the column');
select is(pg_temp.push(n, 'p', '{a}'), 'queued 0', 'pushed to ' || n) from unnest('{plain,one.two,.x,y.}'::text[]) as n;
select is((select string_agg(name || '=' || namespace || '|' || task, ' ' order by name) from queen.queues
           where name in ('plain', 'one.two', '.x', 'y.')), '.x=|x one.two=one|two plain=| y.=y|', 'names with one dot and none');

-- Offsets
select is(pg_temp.push('q', 'p', '{a,b,c}'), 'queued 0', 'three from 0');
select is(pg_temp.push('q', 'p', '{d}'), 'queued 3', 'gapless');
select is(pg_temp.push('q', 'o', '{a}'), 'queued 0', 'another partition counts for itself');
select is(pg_temp.rows(
    $$select s.base_offset, s.end_offset, convert_from(s.blob, 'UTF8'), t.end_offset, encode(t.hashes, 'hex')
      from queen.log_segments s join queen.log_txns t using (partition_id, base_offset)
      where s.partition_id = pg_temp.pid('q') order by 1$$),
    format('(0,2,"a,b,c",2,%s%s%s) (3,3,d,3,%s)', md5('a'), md5('b'), md5('c'), md5('d')),
    'segment and hash row of each push');
select is((select last_offset from queen.log_partitions where id = pg_temp.pid('q')), 3::bigint, 'last_offset');
select ok((select s.created_at = t.created_at and s.created_at = p.last_created_at and p.oldest_txn_at is not null and p.oldest_live_at is not null
           from queen.log_segments s join queen.log_txns t using (partition_id, base_offset) join queen.log_partitions p on p.id = s.partition_id
           where s.partition_id = pg_temp.pid('q') and s.base_offset = 3), 'one time for segment and hashes');

-- created_at never goes back, last_write_at moves at most once a second
update queen.log_partitions set last_created_at = '2100-01-01' where id = pg_temp.pid('q', 'o');
select is(pg_temp.push('q', 'o', '{b}'), 'queued 1', 'pushed after a clock that ran ahead');
select is((select created_at from queen.log_segments where partition_id = pg_temp.pid('q', 'o') and base_offset = 1), '2100-01-01'::timestamptz,
          'created_at does not go back with the clock');
create temp table wrote as select last_write_at from queen.log_partitions where id = pg_temp.pid('q', 'o');
select is(pg_temp.push('q', 'o', '{c}'), 'queued 2', 'again at once');
select is((select last_write_at from queen.log_partitions where id = pg_temp.pid('q', 'o')), (select last_write_at from wrote), 'last_write_at kept within a second');
update queen.log_partitions set last_write_at = now() - interval '1 hour' where id = pg_temp.pid('q', 'o');
select pg_temp.push('q', 'o', '{d}');
select ok((select last_write_at > now() - interval '1 minute' from queen.log_partitions where id = pg_temp.pid('q', 'o')), 'and moved after it');

-- Several partitions in one call: verdicts by ordinal
select is(pg_temp.rows(
    $$select p.ordinal, p.status, p.base_offset, p.partition_id = pg_temp.pid(x.q, x.p)
      from queen.log_push_multi_v1('{m2,m1,q}', '{p,p,p}', '{1,2,1}', array[pg_temp.hash('x'), pg_temp.hash('x') || pg_temp.hash('y'), pg_temp.hash('b')],
               '{-1,-1,-1}', '{x,xy,b}', gen_random_uuid(), false) as p
      join unnest('{m2,m1,q}'::text[], '{p,p,p}'::text[]) with ordinality as x (q, p, o) on x.o = p.ordinal order by 1$$),
    '(1,1,0,t) (2,1,0,t) (3,2,,t)', 'three partitions, one of them a duplicate');
select is((select count(*) from queen.log_segments where partition_id = pg_temp.pid('q')), 2::bigint, 'the duplicate stored nothing');

-- Dedup
select is(pg_temp.push('q', 'p', '{e,b,f,b,d}'), 'duplicate 1@1 3@1 4@3', 'each duplicate frame names its offset; nothing is stored');
select is(pg_temp.push('q', 'p', '{e,f}'), 'queued 4', 'the survivors get the next offsets');
select is(pg_temp.push('q', 'p', array(select 'n' || i from generate_series(1, 40) i) || '{a,f}'::text[]), 'duplicate 40@0 41@5', 'many hashes');
select is(pg_temp.push('q', 'p', '{b}', 0), 'duplicate 0@1', 'an offset behind the vouched ones');
select is(pg_temp.push('q', 'p', '{b}', 1), 'queued 6', 'vouched up to the original: not looked for there');
select is(pg_temp.push('q', 'p', '{b}'), 'duplicate 0@1', 'the lowest offset of several');
select is(pg_temp.push('q', 'p', '{c,z}', 5), 'queued 7', 'vouched for all');
update queen.log_partitions set txns_start = 4 where id = pg_temp.pid('q');
select is(pg_temp.push('q', 'p', '{a}'), 'queued 9', 'purged: below txns_start nothing is looked for');
update queen.log_partitions set txns_start = 0 where id = pg_temp.pid('q');
select is(pg_temp.push('w', 'p', '{a}'), 'queued 0', 'a queue with the default window');
select pg_temp.age('w', 'p', interval '3599 seconds');
select is(pg_temp.push('w', 'p', '{a}'), 'duplicate 0@0', 'just inside the window');
select pg_temp.age('w', 'p', interval '2 seconds');
select is(pg_temp.push('w', 'p', '{a}'), 'queued 1', 'outside the window');
select is(pg_temp.push('w', 'p', '{a}'), 'duplicate 0@1', 'the original inside the window is named, not the older one');
select pg_temp.configure('off', '{"dedupWindowSeconds":0}');
select is(pg_temp.push('off', 'p', '{a,a}'), 'queued 0', 'no window');
select is(pg_temp.push('off', 'p', '{a}'), 'queued 2', 'no window: twice');
select is((select count(*) from queen.log_txns where partition_id = pg_temp.pid('off')), 2::bigint, 'hashes are written all the same: acks need them');

-- Retries
select is(pg_temp.push('r', 'p', '{a,b}', -1, '00000000-0000-0000-0000-00000000000a'), 'queued 0', 'a flush');
select is(pg_temp.push('r', 'p', '{c}', -1, '00000000-0000-0000-0000-00000000000b'), 'queued 2', 'another');
select is(pg_temp.push('r', 'p', '{a,b}', -1, '00000000-0000-0000-0000-00000000000a', true), 'queued 0', 'its retry is answered as the first time, not as a duplicate');
select is((select count(*) from queen.log_segments where partition_id = pg_temp.pid('r')), 2::bigint, 'and stores nothing');
select is(pg_temp.push('r', 'p', '{d}', -1, '00000000-0000-0000-0000-00000000000c', true), 'queued 3', 'a retry whose first try was lost');
select is(pg_temp.push('r', 'p', '{a}', -1, '00000000-0000-0000-0000-00000000000d', true), 'duplicate 0@0', 'a retry that is a duplicate');
select is(pg_temp.rows(
    $$select p.ordinal, p.status, p.base_offset from queen.log_push_multi_v1('{r,r2}', '{p,p}', '{1,1}', array[pg_temp.hash('c'), pg_temp.hash('c')],
               '{-1,-1}', '{c,c}', '00000000-0000-0000-0000-00000000000b', true) as p order by 1$$),
    '(1,1,2) (2,1,0)', 'a retry of which one segment was stored');
select pg_temp.age('r', 'p', interval '11 minutes');
select pg_temp.configure('r', '{"dedupWindowSeconds":0}');
select is(pg_temp.push('r', 'p', '{a,b}', -1, '00000000-0000-0000-0000-00000000000a', true), 'queued 4', 'the record is looked for in the last 10 minutes');

-- Cursor rows of new partitions
select is(pg_temp.pop('q', 'w1', 1, 1, 'late', null, 0, true), 'p:a', 'a group registers');
select pg_temp.push('q', 'born-later', '{x}');
select is((select c.committed from queen.log_consumers c where c.partition_id = pg_temp.pid('q', 'born-later') and c.consumer_group = 'late'), -1::bigint,
          'a partition gets the cursor rows of the registered groups');

-- Refusals
select matches(pg_temp.raises($$select queen.log_push_multi_v1('{q}', '{p,o}', '{1}', '{}', '{-1}', '{x}', null, false)$$), '^22023 .*misaligned', 'misaligned arrays');
select matches(pg_temp.raises(format($$select queen.log_push_multi_v1('{%s}', '{%s}', '{%s}', array['\x%s'::bytea], '{-1}', array[%s]::bytea[], null, false)$$, q, p, n, h, b)),
               '^22023 .*bad segment 1', 'refused: ' || why)
from (values ('""', 'p', 1, md5('a'), '''x''', 'empty queue'), ('q', '""', 1, md5('a'), '''x''', 'empty partition'), ('q', 'p', 0, '', '''x''', 'no message'),
             ('q', 'p', 2, md5('a'), '''x''', 'too few hashes'), ('q', 'p', 1, md5('a') || '00', '''x''', 'odd hashes'), ('q', 'p', 1, md5('a'), 'null', 'no blob')) as v (q, p, n, h, b, why);
select matches(pg_temp.raises($$select queen.log_push_multi_v1('{q,q}', '{p,p}', '{1,1}', array[pg_temp.hash('u1'), pg_temp.hash('u2')], '{-1,-1}', '{x,x}', null, false)$$),
               '^22023 .*twice', 'a partition named twice');
select is((select count(*) from queen.log_push_multi_v1('{}', '{}', '{}', '{}', '{}', '{}', null, false)), 0::bigint, 'nothing to push');

-- Segments by offset
select is(pg_temp.rows(
    $$select s.ordinal, s.base_offset, s.end_offset, convert_from(s.blob, 'UTF8')
      from queen.log_segments_at_v1(array[pg_temp.pid('q'), pg_temp.pid('q'), pg_temp.pid('q'), gen_random_uuid(), pg_temp.pid('q', 'o')], '{1,3,1000,0,-1}') s order by 1$$),
    '(1,0,2,"a,b,c") (2,3,3,d)', 'the covering segments, no row where none covers');
select is((select queen.log_offset_at_v1(pg_temp.pid('q'), s.created_at) from queen.log_segments s where s.partition_id = pg_temp.pid('q') and s.base_offset = 4), 3::bigint,
          'log_offset_at: just before the first segment of that moment');

select * from finish();
rollback;
