-- Pop: claims, budgets, order of service, gates, gaps, sealing, attempts, many claims in a call.
begin;
\ir helpers.psql
select no_plan();

-- Claim, lease, attempt
select is(pg_temp.pop('q', 'w0'), 'nothing', 'a pop on an unknown queue answers nothing');
select is((select count(*) from queen.queues where name = 'q'), 1::bigint, 'and creates the queue');
select is((select subscription_mode from queen.consumer_groups_metadata m join queen.queues q on q.id = m.queue_id where q.name = 'q' and consumer_group = 'g'), 'all', 'and registers the group');
select pg_temp.push('q', 'p', '{a,b,c}');
select pg_temp.push('q', 'p', '{d,e}');
select is(pg_temp.pop('q', 'w1', 2), 'p:a,b', 'part of a segment');
select is(pg_temp.cursor('q'), 'committed -1 leased to 1 by w1 attempts 1', 'leased');
select matches(pg_temp.pop('q', 'w2', 2), '^wait (59\d\d\d|60000)$', 'a live lease: wait until it ends');
select is(pg_temp.pop('q', 'w2', 2, 1, 'other'), 'p:a,b', 'another group has its own cursor');
select pg_temp.expire('q');
select is(pg_temp.pop('q', 'w3', 4), 'p:a,b,c,d', 'after expiry, over a segment border');
select is(pg_temp.cursor('q'), 'committed -1 leased to 3 by w3 attempts 2', 'the second attempt from the same start');
select is(pg_temp.ack('q', 'w3', 'b:completed c:retry'), 'done released acked=2', 'moved on, released');
select is(pg_temp.pop('q', 'w4', 1), 'p:c', 'from the middle of a segment');
select is(pg_temp.cursor('q'), 'committed 1 leased to 2 by w4 attempts 1', 'another start: first attempt');
select is(pg_temp.rows($$select lease_seconds, attempt, batch_end, base_offset, start_idx, take, retry_after_ms
    from queen.log_pop_multi_v1('{q}', '{null}', '{fresh}', '{4}', '{1}', '{7}', '{x}', '{f}', '{all}', '{""}')$$),
    '(7,1,3,0,0,3,) (7,1,3,3,0,1,)', 'a row per segment, the batch end of the partition on each');
select is((select round(extract(epoch from lease_expires_at - lease_acquired_at)) from queen.log_consumers where consumer_group = 'fresh' and partition_id = pg_temp.pid('q')), 7::numeric, 'the lease asked for');
select is(pg_temp.rows($$select lease_seconds from queen.log_pop_multi_v1('{q}', '{null}', '{fresh2}', '{1}', '{1}', '{0}', '{x}', '{f}', '{all}', '{""}')$$), '(60)', 'else the queue''s');

-- autoAck
select pg_temp.push('auto', 'p', '{a,b,c}');
select is(pg_temp.pop('auto', 'w1', 2, 1, 'g', null, 0, true), 'p:a,b', 'autoAck');
select is(pg_temp.cursor('auto'), 'committed 1', 'commits at delivery, leases nothing, counts no attempt');
select is((select total_consumed from queen.log_consumers where partition_id = pg_temp.pid('auto')), 2::bigint, 'counted as consumed');
select is(pg_temp.pop('auto', 'w1', 2, 1, 'g', null, 0, true), 'p:c', 'the rest');
select is(pg_temp.pop('auto', 'w1', 2, 1, 'g', null, 0, true), 'nothing', 'drained');

-- Budget and partitions, oldest claimable first
select pg_temp.push('many', 'p' || i, array['p' || i || 'a', 'p' || i || 'b', 'p' || i || 'c']) from generate_series(1, 5) i;
select pg_temp.age('many', 'p' || i, make_interval(secs => case i when 3 then 50 when 1 then 40 when 5 then 30 when 2 then 20 else 10 end)) from generate_series(1, 5) i;
select is(pg_temp.pop('many', 'w1', 4, 3), 'p3:p3a,p3b,p3c p1:p1a', 'the budget is shared, the oldest first');
select is((select string_agg(p.name || '=' || c.batch_end, ' ' order by p.name) from queen.log_consumers c join queen.log_partitions p on p.id = c.partition_id
           join queen.queues q on q.id = p.queue_id where q.name = 'many' and c.batch_end is not null), 'p1=0 p3=2', 'no more are leased than served');
select is(pg_temp.pop('many', 'w2', 100, 2), 'p5:p5a,p5b,p5c p2:p2a,p2b,p2c', 'no more partitions than asked for');
select is(pg_temp.ack('many', 'w1', 'p3a:retry', 'g', 'p3'), 'done released', 'p3 is claimable again, since now');
select is(pg_temp.pop('many', 'w3', 1, 1), 'p4:p4a', 'a released partition goes to the end of the line');
select is(pg_temp.pop('many', 'w4', 1, 1), 'p3:p3a', 'until its turn comes');
select pg_temp.expire('many');
update queen.log_consumers set lease_expires_at = now() - interval '5 minutes' where partition_id = pg_temp.pid('many', 'p2');
select is(pg_temp.pop('many', 'w5', 1, 1), 'p2:p2a', 'expired leases: claimable since their expiry');
select pg_temp.push('auto2', 'p' || i, array['a' || i, 'b' || i]) from generate_series(1, 3) i;
select is((select count(distinct split_part(pg_temp.pop('auto2', 'w', 1, 1, 'g', null, 0, true), ':', 1)) from generate_series(1, 3)), 3::bigint, 'autoAck goes round the partitions');
select pg_temp.push('deep', 'p', array(select 'm' || i from generate_series(1, 20) i));
select is(pg_temp.pop('deep', 'w', 1000, 1000), 'p:' || (select string_agg('m' || i, ',' order by i) from generate_series(1, 20) i), 'big limits');

-- The pinned route
select pg_temp.push('pin', x, array[x]) from unnest('{x,y}'::text[]) x;
select is(pg_temp.pop('pin', 'w1', 10, 5, 'g', 'y'), 'y:y', 'that partition only');
select matches(pg_temp.pop('pin', 'w1', 10, 5, 'g', 'y'), '^wait', 'leased');
select is(pg_temp.pop('pin', 'w1', 10, 5, 'g', 'none'), 'nothing', 'an unknown partition');
select is(pg_temp.pop('unknown-queue', 'w1', 10, 5, 'g', 'none'), 'nothing', 'an unknown queue');
select is((select count(*) from queen.queues where name = 'unknown-queue'), 1::bigint, 'which is created');
select is(pg_temp.pop('pin', 'w1', 10, 5), 'x:x', 'the other one by the queue route');

-- delayedProcessing
select pg_temp.push('delay', 'p', '{a,b}');
select pg_temp.push('delay', 'p', '{c}');
select pg_temp.configure('delay', '{"delayedProcessing":10}');
select matches(pg_temp.pop('delay', 'w1'), '^wait (9\d\d\d|10000)$', 'too young: wait until the delay ends');
select matches(pg_temp.pop('delay', 'w1', 10, 1, 'g', 'p'), '^wait (9\d\d\d|10000)$', 'pinned too');
update queen.log_segments set created_at = created_at - interval '11 seconds' where partition_id = pg_temp.pid('delay') and base_offset = 0;
select is(pg_temp.pop('delay', 'w1'), 'p:a,b', 'segment by segment');
select pg_temp.configure('delay', '{"delayedProcessing":2147483647}');
select pg_temp.expire('delay');
select is(pg_temp.pop('delay', 'w1'), 'wait 2147483647', 'a delay beyond what a wait can say');

select pg_temp.configure('delay2', '{"delayedProcessing":1}');
select pg_temp.push('delay2', 'x', '{a}'), pg_temp.push('delay2', 'x', '{b}'), pg_temp.push('delay2', 'y', '{c}');
select pg_temp.age('delay2', 'x', interval '1 minute'), pg_temp.age('delay2', 'y', interval '30 seconds');
select is(pg_temp.pop('delay2', 'w1', 2, 2), 'x:a,b', 'the budget may be spent sooner than the candidates promised');
select is(pg_temp.pop('delay2', 'w2', 2, 2), 'y:c', 'what was locked in vain is not leased');

-- windowBuffer
select pg_temp.push('win', 'p', '{a}');
select pg_temp.configure('win', '{"windowBuffer":10}');
select matches(pg_temp.pop('win', 'w1'), '^wait (9\d\d\d|10000)$', 'inside the window');
update queen.log_segments set created_at = created_at - interval '11 seconds' where partition_id = pg_temp.pid('win') and base_offset = 0;
select pg_temp.push('win', 'p', '{b}');
select is(pg_temp.pop('win', 'w1'), 'p:a,b', 'first pending + window: a partition that is written all the time does not starve');
select is(pg_temp.ack('win', 'w1', 'b:completed'), 'done released acked=2', 'consumed');
select pg_temp.push('win', 'p', array(select 'm' || i from generate_series(1, 98) i));
select matches(pg_temp.pop('win', 'w1', 200), '^wait', '98 messages in the window');
select pg_temp.push('win', 'p', '{m99}');
select matches(pg_temp.pop('win', 'w1', 200, 1, 'g', 'p'), '^wait', '99, pinned');
select pg_temp.push('win', 'p', '{m100}');
select is(pg_temp.pop('win', 'w1', 3, 1, 'g', 'p'), 'p:m1,m2,m3', '100 gathered: at once');
select pg_temp.push('both', 'p', '{a}');
select pg_temp.configure('both', '{"windowBuffer":10,"delayedProcessing":20}');
select matches(pg_temp.pop('both', 'w1'), '^wait (19\d\d\d|20000)$', 'both gates: the later one');

-- Retention gaps, sealing
select pg_temp.push('gap', 'p', '{a,b}'), pg_temp.push('gap', 'p', '{c}'), pg_temp.push('gap', 'p', '{d,e}');
select is(pg_temp.pop('gap', 'w1', 1), 'p:a', 'before the gap');
select is(pg_temp.ack('gap', 'w1', 'a:completed'), 'done released acked=1', 'committed 0');
delete from queen.log_segments where partition_id = pg_temp.pid('gap') and base_offset < 3;
update queen.log_partitions set log_start = 3 where id = pg_temp.pid('gap');
select is(pg_temp.pop('gap', 'w1', 1), 'p:d', 'the gap is stepped over');
select is(pg_temp.cursor('gap'), 'committed 0 leased to 3 by w1 attempts 1', 'the cursor stays until the ack');
select is(pg_temp.ack('gap', 'w1', 'd:completed'), 'done released acked=3', 'acked across the gap');
update queen.log_partitions set log_start = 0 where id = pg_temp.pid('gap');
select pg_temp.push('hole', 'p', '{a}'), pg_temp.push('hole', 'p', '{b}'), pg_temp.push('hole', 'p', '{c}');
delete from queen.log_segments where partition_id = pg_temp.pid('hole') and base_offset = 0;
select is(pg_temp.pop('hole', 'w1'), 'p:b,c', 'a gap that log_start does not tell');
select pg_temp.push('seal', 'p', '{a,b}');
select is(pg_temp.pop('seal', 'w1', 1), 'p:a', 'leased');
delete from queen.log_segments where partition_id = pg_temp.pid('seal');
select matches(pg_temp.pop('seal', 'w2'), '^wait', 'a leased batch whose segments vanish is not sealed');
select pg_temp.expire('seal');
select is(pg_temp.pop('seal', 'w2'), 'nothing', 'all pending segments are gone');
select is(split_part(pg_temp.cursor('seal'), ' leased', 1), 'committed 1', 'sealed to last_offset');
select pg_temp.push('seal', 'p', '{c}');
select is(pg_temp.pop('seal', 'w3'), 'p:c', 'and goes on from there');

-- Many claims in one call
select pg_temp.push('one', 'p' || i, array['a' || i]) from generate_series(1, 3) i;
select pg_temp.age('one', 'p' || i, make_interval(secs => 100 - i)) from generate_series(1, 3) i;
select is(pg_temp.rows($$select claim, queue, partition, convert_from(blob, 'UTF8'), attempt, retry_after_ms is null
    from queen.log_pop_multi_v1('{one,two,one,one,one}', '{null,null,null,p3,null}', '{g,g,g,g,h}', '{5,5,5,5,5}', '{1,1,2,1,2}', '{0,0,0,0,0}',
                                '{w1,w2,w3,w4,w5}', '{f,f,f,f,t}', '{all,all,all,all,all}', '{"","","","",""}')$$),
    '(1,one,p1,a1,1,t) (2,two,,,,t) (3,one,p2,a2,1,t) (4,one,p3,a3,1,t) (5,one,p1,a1,1,t) (5,one,p2,a2,1,t)',
    'claims of one call share no cursor row; answers by claim, one row for an empty one');
select is(pg_temp.rows($$select partition, worker_id from queen.log_consumers c join queen.log_partitions p on p.id = c.partition_id cross join lateral (select p.name as partition) x
    where p.queue_id = (select id from queen.queues where name = 'one') and c.consumer_group = 'g' order by 1$$), '(p1,w1) (p2,w3) (p3,w4)', 'each under its own lease id');
select is(pg_temp.rows($$select claim, retry_after_ms from queen.log_pop_multi_v1('{"",nine}', '{null,null}', '{g,g}', '{1,1}', '{1,1}', '{0,0}', '{w,w}', '{f,f}', '{all,all}', '{"2020-13-45",oops}')$$),
    '(1,20) (2,)', 'odd input of a claim fails nobody');
select is((select count(*) from queen.log_pop_multi_v1('{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')), 0::bigint, 'no claims');

-- Discovery
select pg_temp.push('ns.t1', 'p', '{a}'), pg_temp.push('ns.t2', 'p', '{b}'), pg_temp.push('nx.t1', 'p', '{c}');
select pg_temp.age('ns.t2', 'p', interval '1 minute');
create function pg_temp.discover(p_ns text, p_task text, p_group text, p_budget int default 10, p_parts int default 10) returns text language sql as $$
    select coalesce(string_agg(d.queue || '/' || d.partition || ':' || convert_from(d.blob, 'UTF8') || ':' || d.lease_seconds, ' '), max(d.retry_after_ms)::text, 'nothing')
    from queen.log_pop_discover_v1(p_ns, p_task, p_group, p_budget, p_parts, 0, 'w', false, 'all', '') d $$;
select pg_temp.configure('ns.t1', '{"leaseTime":7}');
select is(pg_temp.discover('ns', '', 'd1'), 'ns.t2/p:b:60 ns.t1/p:a:7', 'by namespace, oldest first over all queues, each queue''s lease time');
select cmp_ok(pg_temp.discover('ns', '', 'd1')::int, '<=', 7000, 'leased: the earliest end');
select is(pg_temp.discover('', 't1', 'd2', 1), 'ns.t1/p:a:7', 'by task, the budget holds');
select is(pg_temp.discover('ns', 't1', 'd3'), 'ns.t1/p:a:7', 'by both');
select is(pg_temp.discover('ns', '', 'd4', 10, 1), 'ns.t2/p:b:60', 'partitions holds over queues');
select is(pg_temp.discover('nobody', '', 'd1'), 'nothing', 'no queue matches');
select is((select count(*) from queen.consumer_groups_metadata where consumer_group = 'd1'), 2::bigint, 'registered on each matching queue');

-- A cursor row that is gone while the subscription stayed
delete from queen.log_consumers where partition_id = pg_temp.pid('deep');
select is(pg_temp.pop('deep', 'w', 2), 'wait 20', 'a missing cursor row is made again');
select is(pg_temp.pop('deep', 'w', 2), 'p:m1,m2', 'and served');

select * from finish();
rollback;
