-- log_ack_at_v1, log_ack_v1, log_ack_multi_v1: positional acks.
begin;
\ir helpers.psql
select no_plan();

create function pg_temp.at(p_queue text, p_worker text, p_upto bigint, p_ok boolean default true, p_count int default 1) returns text language sql as $$
    select coalesce(a ->> 'error', 'done ' || (a ->> 'acked')) from queen.log_ack_at_v1(pg_temp.pid(p_queue), 'g', p_worker, p_upto, p_ok, p_count) a $$;
create function pg_temp.batch(p_queue text, p_budget int default 10) returns text language plpgsql as $$
begin
    perform pg_temp.push(p_queue, 'p', '{a,b,c,d}');
    perform pg_temp.push(p_queue, 'p', '{e,f}');
    return pg_temp.pop(p_queue, 'w', p_budget);
end $$;

select pg_temp.batch('a', 4);
update queen.log_consumers set batch_retry_count = 2 where partition_id = pg_temp.pid('a');
select is(pg_temp.at('a', 'other', 3), 'invalid or expired lease', 'another lease');
select is(pg_temp.at('a', 'w', 4), 'position beyond leased batch', 'beyond the batch');
select is(pg_temp.cursor('a'), 'committed -1 leased to 3 by w retries 2 attempts 1', 'nothing moved');
select is(pg_temp.at('a', 'w', 3, true, 4), 'done 4', 'the whole batch');
select is(pg_temp.cursor('a'), 'committed 3', 'released, retry and attempt state reset');
select is((select total_consumed from queen.log_consumers where partition_id = pg_temp.pid('a')), 4::bigint, 'counted');
select is(pg_temp.at('a', 'w', 3, true, 4), 'done 4', 'a repeat of it is answered as the first time');
select is((select total_consumed from queen.log_consumers where partition_id = pg_temp.pid('a')), 4::bigint, 'and counts nothing');
select is(pg_temp.at('a', 'w', 2), 'invalid or expired lease', 'a repeat with another end is not');
select is(pg_temp.at('a', '', 3), 'no leased batch', 'lease-less without a batch');
select is(pg_temp.ack('a', 'w', 'a:completed d:completed'), 'done released repeat', 'the same ack by hash is a repeat too');
select is(pg_temp.pop('a', 'w2'), 'p:e,f', 'the next batch');
select is(pg_temp.at('a', 'w', 3, true, 4), 'done 4', 'the repeat is known while the next batch is leased');
select is(pg_temp.at('a', '', 5, true, 2), 'done 2', 'lease-less');
select is(pg_temp.at('a', 'w2', 5, true, 2), 'invalid or expired lease', 'which is nobody''s release');

select pg_temp.batch('part', 6);
update queen.log_consumers set batch_retry_count = 2 where partition_id = pg_temp.pid('part');
select is(pg_temp.at('part', 'w', 1), 'done 1', 'less than the batch: advances and releases');
select is(pg_temp.cursor('part'), 'committed 1 retries 2 attempts 1', 'the batch is not complete: retry state stays');
select is(pg_temp.pop('part', 'w2'), 'p:c,d,e,f', 'the rest redelivers');
select pg_temp.expire('part');
select is(pg_temp.at('part', 'w2', 5), 'invalid or expired lease', 'expired');
select is(pg_temp.at('part', '', 5, true, 4), 'done 4', 'lease-less after expiry: the recorded batch');

-- Handing back
select pg_temp.batch('back', 4);
select is(pg_temp.at('back', 'other', null, false, 0), 'invalid or expired lease', 'not the holder');
select is(pg_temp.at('back', 'w', null, false, 0), 'done 0', 'handed back');
select is(pg_temp.cursor('back'), 'committed -1 attempts 1', 'released, nothing committed, nothing charged');
select is(pg_temp.pop('back', 'w2', 2), 'p:a,b', 'claimable at once');

-- By names
select is(queen.log_ack_v1('back', 'p', 'g', 'w2', 1, true, 2), '{"ok":true,"acked":2}', 'by names');
select is(queen.log_ack_v1('back', 'x', 'g', 'w2', 1, true, 2) ->> 'error', 'partition not found', 'unknown partition');
select is(queen.log_ack_v1('nope', 'p', 'g', 'w2', 1, true, 2) ->> 'error', 'partition not found', 'unknown queue');
select is(queen.log_ack_v1('back', 'p', 'nope', 'w2', 1, true, 2) ->> 'error', 'consumer not found', 'unknown group');

-- Many
select pg_temp.batch('m' || i, 4) from generate_series(1, 4) i;
select is(pg_temp.rows($$select * from queen.log_ack_multi_v1(
    array[pg_temp.pid('m3'), pg_temp.pid('m1'), gen_random_uuid(), pg_temp.pid('m2'), pg_temp.pid('m1'), pg_temp.pid('m4'), pg_temp.pid('m2')],
    '{g,g,g,g,g,g,g}', '{3,3,3,9,3,2,3}', '{w,other,w,w,w,"",w}', '{4,4,4,4,4,3,4}')$$),
    '(1,t,) (2,f,"invalid or expired lease") (3,f,"consumer not found") (4,f,"position beyond leased batch") (5,t,) (6,t,) (7,t,)',
    'verdicts by input ordinal; two workers on one cursor are judged each for itself');
select is(pg_temp.cursor('m1') || ', ' || pg_temp.cursor('m2') || ', ' || pg_temp.cursor('m3') || ', ' || pg_temp.cursor('m4'),
          'committed 3, committed 3, committed 3, committed 2 attempts 1', 'the cursors');
select is(pg_temp.rows($$select * from queen.log_ack_multi_v1(array[pg_temp.pid('m3'), pg_temp.pid('m1')], '{g,g}', '{3,2}', '{w,w}', '{4,3}')$$),
          '(1,t,) (2,f,"invalid or expired lease")', 'repeats');
select is((select total_consumed from queen.log_consumers where partition_id = pg_temp.pid('m3')), 4::bigint, 'counted once');
select is((select count(*) from queen.log_ack_multi_v1('{}', '{}', '{}', '{}', '{}')), 0::bigint, 'none');
select matches(pg_temp.raises($$select queen.log_ack_multi_v1(array[pg_temp.pid('m1')], '{g}', '{}', '{w}', '{1}')$$), '^22023', 'misaligned arrays');

select * from finish();
rollback;
