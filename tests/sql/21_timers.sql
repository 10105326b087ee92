-- Timers: schedule, reschedule, cancel, fire (order, segments, dedup, switch), put off, listings.
begin;
create extension if not exists pgtap;
select no_plan();

create function pg_temp.schedule(p_key text, p_delay_ms numeric, p_txn text default null, p_partition text default 'Default',
                                 p_queue text default 'q', p_op text default 'schedule') returns text
language sql as $$
    select a.status from queen.log_timers_apply_v1(array[p_op], array[p_queue], array[p_key], array[p_partition],
        array[(p_delay_ms * 1000)::bigint], array[coalesce(p_txn, p_key)::bytea], array[gen_random_uuid()],
        array[decode(md5(coalesce(p_txn, p_key)), 'hex')], array[('<' || p_key || '>')::bytea], clock_timestamp()) a $$;
create function pg_temp.cancel(p_key text) returns text
language sql as $$
    select a.status || coalesce(':' || convert_from(a.txn, 'UTF8'), '') from queen.log_timers_apply_v1('{cancel}', '{q}', array[p_key], array[null::text], array[null::bigint],
        array[null::bytea], array[null::uuid], array[null::bytea], array[null::bytea], null) a $$;
create function pg_temp.stored(p_partition text default 'Default') returns text
language sql as $$
    select string_agg(convert_from(s.blob, 'UTF8'), '|' order by s.base_offset)
    from queen.log_segments s join queen.log_partitions p on p.id = s.partition_id
    join queen.queues q on q.id = p.queue_id where q.name = 'q' and p.name = p_partition $$;
create function pg_temp.fire(p_limit int default 100) returns text
language sql as $$
    select string_agg(coalesce(f.queue || '/' || f.partition || ':', 'all:') || f.fired, ' ' order by f.queue, f.partition)
    from queen.log_timers_fire_v1(p_limit) f $$;

-- schedule, reschedule, cancel
select is(pg_temp.schedule('a', 60000), 'scheduled', 'a new timer');
select is(pg_temp.schedule('a', 70000, 't2'), 'rescheduled', 'the same key again');
select is(pg_temp.schedule('a', 80000, 't3', 'p', 'q', 'reschedule'), 'rescheduled', 'reschedule is the same');
select is((select count(*) || ' ' || max(partition) || ' ' || max(convert_from(txn, 'UTF8')) || ' ' || max(convert_from(blob, 'UTF8')) from queen.log_timers),
          '1 p t3 <a>', 'all of it is replaced');
select is((select deliver_at between clock_timestamp() + interval '79 s' and clock_timestamp() + interval '80 s' from queen.log_timers), true, 'due from now');
select is(pg_temp.cancel('a'), 'cancelled:t3', 'cancelled, with its transaction id');
select is(pg_temp.cancel('a'), 'absent', 'nothing to cancel');
select throws_matching($$ select pg_temp.schedule('a', 1, p_op => 'mystery') $$, '^QTIMER op 0: unknown operation', 'an unknown operation');
select throws_matching($$ select * from queen.log_timers_apply_v1('{cancel,cancel}', '{q,q}', '{a,a}', array[null,null]::text[], array[null,null]::bigint[], array[null,null]::bytea[],
    array[null,null]::uuid[], array[null,null]::bytea[], array[null,null]::bytea[], null) $$, '^QTIMER a .queue, timerKey. appears more than once', 'one operation a timer');
select throws_matching($$ select * from queen.log_timers_apply_v1('{cancel}', '{q,q}', '{a,a}', array[null]::text[], array[null]::bigint[], array[null]::bytea[],
    array[null]::uuid[], array[null]::bytea[], array[null]::bytea[], null) $$, '^QTIMER misaligned', 'aligned arrays');

-- fire
select is(pg_temp.fire(), 'all:0', 'nothing is due');
select is((select next_us from queen.log_timers_fire_v1(10)), null, 'nothing will be');
select is(pg_temp.schedule('later', 60000), 'scheduled', 'one that is due later');
select is((select fired = 0 and next_us between 59000000 and 60000000 from queen.log_timers_fire_v1(10)), true, 'says when');
select is(pg_temp.schedule('b', -5000), 'scheduled', 'a negative delay');
select is((select deliver_at <= clock_timestamp() and deliver_at > clock_timestamp() - interval '4 s' from queen.log_timers where timer_key = 'b'), true, 'is now');
select is(pg_temp.schedule('a', 0), 'scheduled', 'due later than b');
select is(pg_temp.schedule('x', 0, p_partition => 'p'), 'scheduled', 'another partition');
select is(pg_temp.fire(), 'q/Default:2 q/p:1 all:3', 'those that are due');
select is(pg_temp.stored() || ' ' || pg_temp.stored('p'), '<b><a> <x>', 'one segment a partition, in the order in which they were due');
select is((select hashes from queen.log_txns t join queen.log_partitions p on p.id = t.partition_id where p.name = 'Default'),
          decode(md5('b') || md5('a'), 'hex'), 'hashes in the same order');
select is((select last_offset from queen.log_partitions where name = 'Default'), 1::bigint, 'offsets');
select is((select string_agg(timer_key, ' ') from queen.log_timers), 'later', 'they are gone');
select is(pg_temp.schedule('c' || i, -i), 'scheduled', 'c' || i) from generate_series(1, 3) i;
select is((select next_us from queen.log_timers_fire_v1(2) f where queue is null), 0::bigint, 'more is due now');
select is(pg_temp.fire(2), 'q/Default:1 all:1', 'the rest');

-- dedup
select is(pg_temp.schedule('d', 0, 'a'), 'scheduled', 'a transaction id that is in the window');
select is(pg_temp.schedule('e', 0, 'new'), 'scheduled', 'one that is not');
select is(pg_temp.schedule('f', 0, 'new'), 'scheduled', 'and the same once more');
select is(pg_temp.fire(), 'q/Default:3 all:3', 'all three count as fired');
select is(pg_temp.stored() like '%|<e>', true, 'one is stored');
update queen.queues set dedup_window_seconds = 0 where name = 'q';
select is(pg_temp.schedule('g', 0, 'new'), 'scheduled', 'without a window');
select is(pg_temp.schedule('h', 0, 'new'), 'scheduled', 'the same twice');
select is(pg_temp.fire(), 'q/Default:2 all:2', 'fired');
select is(pg_temp.stored() like '%|<e>|<g><h>', true, 'both are stored');

-- the switches
insert into queen.system_state (key, value) values ('timers_schedule_enabled', '{"enabled":false}'), ('timers_fire_enabled', '{"enabled":false}');
select throws_ok($$ select pg_temp.schedule('s', 0) $$, 'QS001', null, 'scheduling switched off');
select is(pg_temp.cancel('later'), 'cancelled:later', 'cancels go on');
update queen.system_state set value = '{"enabled":true}' where key = 'timers_schedule_enabled';
select is(pg_temp.schedule('s', 0), 'scheduled', 'scheduling is on');
select is((select fired = 0 and next_us is null from queen.log_timers_fire_v1(10)), true, 'firing is off');
delete from queen.system_state;
select is(pg_temp.fire(), 'q/Default:1 all:1', 'firing is on');

-- put off
select is(pg_temp.schedule('u', -2000), 'scheduled', 'one that fails');
update queen.log_timers set visible_at = now() - interval '1 s', deliver_at = now() - interval '1 s';
select lives_ok($$ select queen.log_timers_defer_v1('no luck') $$, 'is put off');
select is((select attempts || last_error from queen.log_timers), '1no luck', 'with the reason');
select is((select visible_at > clock_timestamp() and deliver_at < now() from queen.log_timers), true, 'the promise stays');
select is(pg_temp.fire(), 'all:0', 'and the others go on');
select is(pg_temp.schedule('u', 0), 'rescheduled', 'a new promise');
select is((select attempts from queen.log_timers), 0, 'starts over');
select is(pg_temp.fire(), 'q/Default:1 all:1', 'fires');

-- listings
select is(pg_temp.schedule(k, 60000), 'scheduled', k) from unnest('{b,B,aa,ab,a}'::text[]) k;
select is((select string_agg(timer_key, ' ') from queen.log_timers_page_v1('q', '', 100)), 'B a aa ab b', 'byte order');
select is((select string_agg(timer_key, ' ') from queen.log_timers_page_v1('q', 'a', 2)), 'aa ab', 'a page');
select is((select count(*) from queen.log_timers_page_v1('other', '', 100)), 0::bigint, 'another queue');
select is(queen.log_timers_count_v1('q', 'a'), 3::bigint, 'count by prefix');
select is(queen.log_timers_count_v1('q', 'x'), 0::bigint, 'count of nothing');
select is((select partition || convert_from(blob, 'UTF8') from queen.log_timers_get_v1('q', 'aa')), 'Default<aa>', 'one timer');
select is((select count(*) from queen.log_timers_get_v1('q', 'zz')), 0::bigint, 'none');

-- a queue's end
select is(queen.queue_delete_v1('q'), true, 'the queue is deleted');
select is((select count(*) from queen.log_timers), 0::bigint, 'with its timers');
select is(pg_temp.schedule('n', 60000), 'scheduled', 'a timer of a queue that is not there');
select is(queen.queue_delete_v1('q'), false, 'which cannot be deleted');
select is((select count(*) from queen.log_timers), 0::bigint, 'but loses its timers');
select is(pg_temp.schedule('n', 0), 'scheduled', 'once more');
select is(pg_temp.fire(), 'q/Default:1 all:1', 'the fire creates the queue');

select * from finish();
rollback;
