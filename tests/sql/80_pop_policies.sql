-- minPopWaitTime, conflation, autopilot: what only few claims of log_pop_multi_v1 need.
begin;
\ir helpers.psql
select no_plan();

-- One claim with everything: the served messages, then what the row tells.
create function pg_temp.claim(p_queue text, p_worker text, p_budget int default 10, p_partitions int default 1, p_hold int default 0,
                              p_conflate boolean default null, p_width int default 1, p_group text default 'g', p_partition text default null)
returns text language plpgsql as $$
declare r record; v_out text := ''; v_tail text; v_conflated text := '';
begin
    for r in select * from queen.log_pop_multi_v1(array[p_queue], array[p_partition], array[p_group], array[p_budget], array[p_partitions],
                 '{0}', array[p_worker], '{f}', '{all}', '{""}', array[p_conflate], array[p_hold], array[p_width]) loop
        if r.partition_id is null then
            v_out := ' ' || coalesce('wait ' || case when r.retry_after_ms > 20 then 'long' when r.retry_after_ms <= 20 then 'soon' end, 'nothing');
        else
            v_out := v_out || ' ' || r.partition || ':' || pg_temp.served(r.blob, r.start_idx, r.take);
        end if;
        v_conflated := v_conflated || coalesce(' +' || r.conflated, '');
        v_tail := case when r.conflation then ' conflates' else '' end || case when r.held then ' held' else '' end
                  || coalesce(' width ' || r.auto_partitions, '') || coalesce(' batch ' || r.auto_batch, '');
    end loop;
    return substr(v_out || v_conflated || v_tail, 2);
end $$;

-- minPopWaitTime
select pg_temp.configure('m', '{"minPopWaitTime": 60000}');
select is(pg_temp.claim('m', 'w', 10, 1, 5000), 'nothing', 'an empty queue: nothing to hold');
select pg_temp.push('m', 'p', '{a,b}');
select is(pg_temp.claim('m', 'w', 10, 1, 5000), 'wait long held', 'under-full: held');
select is(pg_temp.cursor('m'), 'committed -1', 'and nothing leased');
select is(pg_temp.rows($$select held, retry_after_ms from queen.log_pop_multi_v1('{m}', '{null}', '{g}', '{10}', '{1}', '{0}', '{w}', '{f}', '{all}', '{""}', '{null}', '{700}', '{1}')$$),
          '(t,700)', 'not longer than the caller can wait');
select is(pg_temp.claim('m', 'w0', 1, 1, 5000, null, 1, 'one'), 'p:a', 'a claim of one message is not held');
select is(pg_temp.claim('m', 'w1', 2, 1, 5000), 'p:a,b', 'a full claim is served');
select is(pg_temp.claim('m', 'w2', 10, 1, 5000), 'wait long', 'a leased partition is not ready: an ordinary wait');
select is(pg_temp.claim('m', 'w3', 10, 1, 0, null, 1, 'h'), 'p:a,b', 'no hold asked for');
select pg_temp.push('old', 'p', '{a}');
select pg_temp.configure('old', '{"minPopWaitTime": 3000}');
select is(pg_temp.claim('old', 'w1', 10, 1, 5000), 'wait long held', 'young');
select pg_temp.age('old', 'p', '4 seconds');
select is(pg_temp.claim('old', 'w1', 10, 1, 5000), 'p:a', 'claimable for longer than minPopWaitTime: served');
select pg_temp.push('sum', x, array[x || 1, x || 2]) from unnest('{x,y}'::text[]) x;
select pg_temp.configure('sum', '{"minPopWaitTime": 60000}');
select is(pg_temp.claim('sum', 'w', 5, 1, 5000), 'wait long held', 'four ready of five');
select matches(pg_temp.claim('sum', 'w', 4, 1, 5000), '^[xy]:.1,.2$', 'what is ready is summed over the partitions');
select is(pg_temp.rows($$select claim, held, partition_id is not null from queen.log_pop_multi_v1('{old2,old2}', '{null,null}', '{g,g}', '{10,10}', '{1,1}', '{0,0}', '{w,w}', '{f,f}', '{all,all}', '{"",""}', null, '{9,0}', null)$$),
          '(1,f,f) (2,f,f)', 'left out parameters');

-- Conflation
select pg_temp.push('c', 'p', '{a,b}');
select pg_temp.push('c', 'p', '{d,e,f}');
select pg_temp.push('c', 'r', '{x}');
select is(pg_temp.claim('c', 'w1', 10, 1, 0, true, 1), 'p:f +4 conflates', 'the newest of a partition stands for four others');
select is(pg_temp.cursor('c'), 'committed -1 leased to 4 by w1 attempts 1', 'the lease spans everything');
select is(pg_temp.claim('c', 'w2', 1, 9, 0, null, 64), 'r:x +0 conflates', 'the stored policy; the width counts, not batch and partitions');
select is(pg_temp.claim('c', 'w3', 10, 1, 0, false, 1), 'wait long conflates', 'also against the pop''s wish, also when empty');
select is(pg_temp.claim('c', 'w4', 2, 1, 0, null, 1, 'plain'), 'p:a,b', 'another group is not concerned');
select is(pg_temp.claim('c', 'w5', 2, 1, 0, true, 1, 'plain', 'r'), 'r:x', 'stored as not conflating');
select is(pg_temp.claim('c', 'w6', 1, 1, 0, true, 1, '__QUEUE_MODE__'), 'p:a', 'queue mode never conflates');
select is(pg_temp.ack('c', 'w1', 'a:retry'), 'done released', 'released');
select pg_temp.push('c', 'p', '{g}');
select is(pg_temp.claim('c', 'w7', 10, 1, 0, null, 1, 'g', 'p'), 'p:g +5 conflates', 'redelivered: what is newest now');
select is(pg_temp.cursor('c'), 'committed -1 leased to 5 by w7 attempts 2', 'the second attempt from that start');
select is((queen.log_ack_by_hash_v1(pg_temp.pid('c'), 'g', '', pg_temp.hashes('{d}'), '{completed}')) ->> 'conflated', null, 'without the lease id an older message stands for itself');
select is(pg_temp.cursor('c'), 'committed 2 leased to 5 by w7 attempts 2', 'the lease goes on');
select is((queen.log_ack_by_hash_v1(pg_temp.pid('c'), 'g', 'w7', pg_temp.hashes('{g}'), '{completed}')) ->> 'conflated', '2', 'what this ack passed over');
select is(pg_temp.cursor('c'), 'committed 5', 'all of it');
select is((queen.log_ack_by_hash_v1(pg_temp.pid('c'), 'g', 'w7', pg_temp.hashes('{g}'), '{completed}')) - 'off' ->> 'repeat', 'true', 'a repeat');
select pg_temp.push('c', 'p', '{h,i}');
select is(pg_temp.claim('c', 'w8', 10, 1, 0, null, 1, 'g', 'p'), 'p:i +1 conflates', 'fresh');
select is(pg_temp.ack('c', 'w8', 'h:completed'), 'done released acked=2', 'any message of the span completes the batch');
select is(pg_temp.cursor('c'), 'committed 7', 'up to its end');
select pg_temp.push('c', 'p', '{j,k}');
select is(pg_temp.claim('c', 'w9', 10, 1, 0, null, 1, 'g', 'p'), 'p:k +1 conflates', 'fresh');
select is(pg_temp.ack('c', 'w9', 'k:failed'), 'done released', 'a nack releases');
select is(pg_temp.cursor('c'), 'committed 7 retries 1 attempts 1', 'and moves nothing');
select is(pg_temp.rows($$select claim, pg_temp.served(blob, start_idx, take), conflation, conflated from queen.log_pop_multi_v1('{c,c}', '{null,null}', '{n1,n2}', '{9,9}', '{9,9}', '{0,0}', '{w,v}', '{f,f}', '{all,all}', '{"",""}', '{t,f}', null, '{1,1}')
    order by claim, served$$), '(1,k,t,9) (2,"a,b",f,) (2,"d,e,f",f,) (2,g,f,) (2,"h,i",f,) (2,j,f,)', 'conflating and ordinary claims in one call');
select pg_temp.push('late', 'p', '{a}');
select pg_temp.age('late', 'p', '10 seconds');
select pg_temp.push('late', 'p', '{b}');
select pg_temp.configure('late', '{"delayedProcessing": 5}');
select is(pg_temp.claim('late', 'w', 10, 1, 0, true), 'p:a +0 conflates', 'the newest visible one');
select pg_temp.configure('late', '{"minPopWaitTime": 60000}');
select is(pg_temp.claim('late', 'w', 10, 1, 5000, true, 1, 'held'), 'p:a +0 conflates', 'a conflating claim is full with one message: never held');
select pg_temp.push('gap', 'p', '{a}');
select pg_temp.push('gap', 'p', '{b}');
delete from queen.log_segments where partition_id = pg_temp.pid('gap') and base_offset = 0;
select is(pg_temp.claim('gap', 'w', 10, 1, 0, true), 'p:b +1 conflates', 'over a retention gap');
select is(pg_temp.rows($$select total_consumed, committed, queen.log_ack_at_v1(pg_temp.pid('gap'), 'g', 'w', 1, true, 2) from queen.log_consumers where partition_id = pg_temp.pid('gap')$$),
          '(0,-1,"{""ok"": true, ""acked"": 2}")', 'a positional ack of the span');

-- Autopilot: 0 = choose
select pg_temp.push('auto', 'p' || i, array(select i || 'm' || j from generate_series(1, 60) j)) from generate_series(1, 4) i;
select pg_temp.age('auto', 'p' || i, '-1 hour') from generate_series(1, 3) i; -- in the future: not claimable
select is(pg_temp.rows($$select distinct auto_partitions, auto_batch from queen.log_pop_multi_v1('{auto}', '{null}', '{fresh}', '{0}', '{0}', '{0}', '{w}', '{f}', '{all}', '{""}')$$),
          '(1,100)', 'little is ready: one partition, the smallest batch');
select pg_temp.age('auto', 'p' || i, case i when 4 then '-1 hour' else '1 hour 1 second' end::interval) from generate_series(1, 4) i;
select is(pg_temp.rows($$select count(*), sum(take), min(auto_partitions), min(auto_batch) from queen.log_pop_multi_v1('{auto}', '{null}', '{g}', '{0}', '{0}', '{0}', '{w}', '{f}', '{all}', '{""}')$$),
          '(3,180,3,180)', 'three wait for longer than they should: all three, and what they hold');
select is(pg_temp.rows($$select count(*), sum(take), min(auto_partitions), min(auto_batch) from queen.log_pop_multi_v1('{auto}', '{null}', '{h}', '{70}', '{0}', '{0}', '{w}', '{f}', '{all}', '{""}')$$),
          '(2,70,3,)', 'what is sent is not overridden: the batch');
select is(pg_temp.rows($$select count(*), sum(take), min(auto_partitions), min(auto_batch) from queen.log_pop_multi_v1('{auto}', '{null}', '{i}', '{0}', '{2}', '{0}', '{w}', '{f}', '{all}', '{""}')$$),
          '(2,120,,120)', 'the partitions');
select is(pg_temp.rows($$select partition_id, auto_partitions, auto_batch from queen.log_pop_multi_v1('{empty}', '{null}', '{g}', '{0}', '{0}', '{0}', '{w}', '{f}', '{all}', '{""}')$$), '(,1,100)', 'nothing there');
select pg_temp.push('big', 'p', array(select 'm' || j from generate_series(1, 1500) j));
select is(pg_temp.rows($$select sum(take), min(auto_batch) from queen.log_pop_multi_v1('{big}', '{null}', '{g}', '{0}', '{0}', '{0}', '{w}', '{f}', '{all}', '{""}')$$), '(1000,1000)', 'bounded');

-- Discovery
select pg_temp.push(x, 'p', array[x || 1, x || 2]) from unnest('{d1,d2}'::text[]) x;
update queen.queues set namespace = 'ns' where name in ('d1', 'd2');
select is(pg_temp.rows($$select pg_temp.served(blob, start_idx, take), conflation, conflated from queen.log_pop_discover_v1('ns', '', 'g', 10, 1, 0, 'w', false, 'all', '', true, 5) order by 1$$),
          '(d12,t,1) (d22,t,1)', 'each queue registers the policy');
select is(pg_temp.rows($$select partition_id, conflation from queen.log_pop_discover_v1('ns', '', 'g', 10, 1, 0, 'w', false, 'all', '')$$), '(,t)', 'stored');
select is(pg_temp.claim('d1', 'w', 10, 1, 0, true, 1, 'mixed'), 'p:d12 +1 conflates', 'a policy on one queue');
select pg_temp.expire('d1', 'mixed');
select is(pg_temp.rows($$select pg_temp.served(blob, start_idx, take), conflation, conflated from queen.log_pop_discover_v1('ns', '', 'mixed', 10, 5, 0, 'w', false, 'all', '', false) order by 1$$),
          '(d12,,1) ("d21,d22",,)', 'each by its own policy');
select is(pg_temp.rows($$select partition_id, conflation from queen.log_pop_discover_v1('nowhere', '', 'g', 10, 1, 0, 'w', false, 'all', '', true)$$), '(,t)', 'no queue matches: what is asked for');

select * from finish();
rollback;
