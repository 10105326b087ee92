-- log_ack_by_hash_v1: every branch, both honesty guarantees, the lists, with and without lease, repeats.
begin;
\ir helpers.psql
select no_plan();

-- A queue with messages a..j (two segments, a-d and e-j), of which w leases the first p_budget.
create function pg_temp.batch(p_queue text, p_budget int default 10, p_options jsonb default '{}') returns text language plpgsql as $$
begin
    perform pg_temp.configure(p_queue, p_options);
    perform pg_temp.push(p_queue, 'p', '{a,b,c,d}');
    perform pg_temp.push(p_queue, 'p', '{e,f,g,h,i,j}');
    return pg_temp.pop(p_queue, 'w', p_budget);
end $$;

-- The table of the seed: all completed
select is(pg_temp.batch('c1'), 'p:a,b,c,d,e,f,g,h,i,j', 'a batch of ten');
update queen.log_consumers set batch_retry_count = 2 where partition_id = pg_temp.pid('c1');
select is(pg_temp.ack('c1', 'w', 'c:completed'), 'done acked=3', 'partial: committed with the silent gap below, lease kept');
select is(pg_temp.cursor('c1'), 'committed 2 leased to 9 by w retries 2 attempts 1', 'retry state untouched');
select is(pg_temp.ack('c1', 'w', 'd:completed f:completed j:completed'), 'done released acked=7', 'reached the end: released');
select is(pg_temp.cursor('c1'), 'committed 9', 'retry and attempt state reset');
select is((select total_consumed from queen.log_consumers where partition_id = pg_temp.pid('c1')), 10::bigint, 'ten positions retired');

-- retry
select pg_temp.batch('r1');
update queen.log_consumers set batch_retry_count = 2 where partition_id = pg_temp.pid('r1');
select is(pg_temp.ack('r1', 'w', 'a:completed c:retry d:completed'), 'done released acked=1', 'retry: the completed prefix, released; above it redelivers');
select is(pg_temp.cursor('r1'), 'committed 0 retries 2 attempts 1', 'the budget is untouched');
select is(pg_temp.pop('r1', 'w2'), 'p:b,c,d,e,f,g,h,i,j', 'a silent gap below the signal is not completed');
select pg_temp.batch('r2');
select is(pg_temp.ack('r2', 'w', 'a:retry'), 'done released', 'retry of the first: the cursor stays');
select is(pg_temp.pop('r2', 'w2', 2), 'p:a,b', 'all again');
select is(pg_temp.cursor('r2'), 'committed -1 leased to 1 by w2 attempts 2', 'and that is the second attempt');

-- failed, budget left
select pg_temp.batch('f1');
select is(pg_temp.ack('f1', 'w', 'a:completed b:failed d:failed'), 'done released acked=1', 'failed: prefix, released');
select is(pg_temp.cursor('f1'), 'committed 0 retries 1 attempts 1', 'charged once, however many nacks');
select pg_temp.pop('f1', 'w2');
select pg_temp.expire('f1');
select pg_temp.pop('f1', 'w3');
select is(pg_temp.cursor('f1'), 'committed 0 leased to 9 by w3 retries 1 attempts 2', 'expiry charges nothing');
select is(pg_temp.ack('f1', 'w3', 'j:completed'), 'done released acked=9', 'completed in the end');
select is(pg_temp.cursor('f1'), 'committed 9', 'the budget is reset');

-- failed, exhausted, dead-lettering on (default, or either switch)
select pg_temp.batch('x1', 10, '{"retryLimit":1}');
select is(pg_temp.ack('x1', 'w', 'b:failed'), 'done released', 'limit 1: the first is charged');
select pg_temp.pop('x1', 'w2');
select is(pg_temp.ack('x1', 'w2', 'a:completed c:failed d:completed'), 'done dlq@2 acked=1 dlqHashes=c', 'the second hands the poison over');
select is(pg_temp.cursor('x1'), 'committed 0 leased to 9 by w2 retries 1 attempts 2', 'and keeps the lease');
select is(pg_temp.file('x1', 'w2', 2), 'done', 'filed');
select is(pg_temp.cursor('x1'), 'committed 2', 'past the poison, everything below it too; released, state reset');
select pg_temp.batch('x2', 10, '{"retryLimit":0,"deadLetterQueue":false}');
select is(pg_temp.ack('x2', 'w', 'a:failed'), 'done dlq@0 dlqHashes=a', 'limit 0: at once; one switch is enough');
select pg_temp.batch('x3', 10, '{"retryLimit":0,"dlqAfterMaxRetries":false}');
select is(pg_temp.ack('x3', 'w', 'a:failed'), 'done dlq@0 dlqHashes=a', 'the other switch');
select pg_temp.batch('x4', 10, '{"retryLimit":3}');
update queen.log_consumers set worker_id = 'w1' where partition_id = pg_temp.pid('x4');
select is(pg_temp.ack('x4', 'w1', 'a:failed'), 'done released', 'limit 3: first');
select is(pg_temp.pop('x4', 'w2', 1) || pg_temp.ack('x4', 'w2', 'a:failed'), 'p:adone released', 'second');
select is(pg_temp.pop('x4', 'w3', 1) || pg_temp.ack('x4', 'w3', 'a:failed'), 'p:adone released', 'third');
select is(pg_temp.pop('x4', 'w4', 1) || pg_temp.ack('x4', 'w4', 'a:failed'), 'p:adone dlq@0 dlqHashes=a', 'the fourth dead-letters');

-- failed, exhausted, dead-lettering off: dropped
select pg_temp.batch('d1', 10, '{"retryLimit":0,"deadLetterQueue":false,"dlqAfterMaxRetries":false}');
update queen.log_consumers set batch_retry_count = 5 where partition_id = pg_temp.pid('d1');
select is(pg_temp.ack('d1', 'w', 'a:completed c:failed d:completed'), 'done released dropped@2 acked=1', 'dropped');
select is(pg_temp.cursor('d1'), 'committed 2', 'past the poison, counter reset, released');
select is((select count(*) from queen.log_dlq where partition_id = pg_temp.pid('d1')), 0::bigint, 'no dead letter');
select is(pg_temp.pop('d1', 'w2'), 'p:d,e,f,g,h,i,j', 'the rest redelivers');
select pg_temp.batch('d2', 10, '{"retryLimit":1,"deadLetterQueue":false,"dlqAfterMaxRetries":false}');
select is(pg_temp.ack('d2', 'w', 'a:failed') || ', ' || pg_temp.pop('d2', 'w2', 1) || ', ' || pg_temp.ack('d2', 'w2', 'a:failed'),
          'done released, p:a, done released dropped@0', 'limit 1: the second is dropped');

-- dlq
select pg_temp.batch('q1', 10, '{"deadLetterQueue":false,"dlqAfterMaxRetries":false}');
select is(pg_temp.ack('q1', 'w', 'b:completed d:dlq'), 'done dlq@3 acked=2 dlqHashes=d', 'dlq bypasses budget and switches');
select is(pg_temp.ack('q1', 'w', 'b:completed d:dlq'), 'done dlq@3 dlqHashes=d noopHashes=b', 'asked again before it is filed');
select is(pg_temp.file('q1', 'w', 3), 'done', 'filed');
select is(pg_temp.file('q1', 'w', 3), 'invalid or expired lease', 'twice: nothing happens');
select is((select count(*) from queen.log_dlq where partition_id = pg_temp.pid('q1')), 1::bigint, 'one dead letter');
select is(pg_temp.pop('q1', 'w2', 1), 'p:e', 'goes on behind it');

-- Honesty: the lowest signal wins, ties dlq > failed > retry
select pg_temp.batch('t1');
select is(pg_temp.ack('t1', 'w', 'a:completed b:failed c:completed d:completed'), 'done released acked=1', 'the example of the seed');
select is(pg_temp.pop('t1', 'w2', 3), 'p:b,c,d', 'all above the failure redelivers');
select is(pg_temp.ack('t1', 'w2', 'd:dlq c:retry'), 'done released', 'the lowest signal decides, not the strongest');
select is(pg_temp.cursor('t1'), 'committed 0 retries 1 attempts 1', 'a retry, uncharged');
select pg_temp.batch('t2');
select is(pg_temp.ack('t2', 'w', 'a:retry a:failed a:completed'), 'done released', 'failed beats retry and completed');
select is(pg_temp.cursor('t2'), 'committed -1 retries 1 attempts 1', 'charged');
select pg_temp.pop('t2', 'w2');
select is(pg_temp.ack('t2', 'w2', 'a:retry a:failed a:dlq'), 'done dlq@0 dlqHashes=a', 'dlq beats both');
select pg_temp.batch('t3');
select is(pg_temp.ack('t3', 'w', 'a:completed a:retry'), 'done released', 'a signal beats completed at one offset');
select pg_temp.batch('t4');
select is(pg_temp.ack('t4', 'w', 'a:COMPLETED'), 'done released', 'any other word is failed');
select is(pg_temp.cursor('t4'), 'committed -1 retries 1 attempts 1', 'and charged');

-- Lists
select pg_temp.batch('l1', 4);
select pg_temp.ack('l1', 'w', 'b:completed');
select is(pg_temp.ack('l1', 'w', 'a:completed b:failed a:dlq ghost:completed e:completed j:failed'),
          'done noopHashes=a staleHashes=b,a unresolvedHashes=ghost,e,j', 'below the cursor, nowhere, above the leased span');
select is(pg_temp.cursor('l1'), 'committed 1 leased to 3 by w attempts 1', 'such a call changes nothing');
select is(pg_temp.ack('l1', 'w', 'a:failed ghost:dlq d:completed'), 'done released acked=2 staleHashes=a unresolvedHashes=ghost', 'and such items do not disturb the others');
select pg_temp.batch('l2', 3);
select is(pg_temp.ack('l2', 'w', string_agg(i || ':completed', ' ') || ' a:completed b:completed c:completed'), 'done released acked=3 unresolvedHashes=' || string_agg(i, ','), 'long lists')
from (select 'g' || n as i from generate_series(1, 40) n) g;

-- Ids that occur twice (no window): the copy above the cursor is acked
select pg_temp.configure('twice', '{"dedupWindowSeconds":0}');
select pg_temp.push('twice', 'p', '{a,b}'), pg_temp.push('twice', 'p', '{a,c,a}');
select is(pg_temp.pop('twice', 'w', 2), 'p:a,b', 'the first copy');
select is(pg_temp.ack('twice', 'w', 'a:completed'), 'done acked=1', 'the lowest copy in the span');
select is(pg_temp.ack('twice', 'w', 'a:completed'), 'done noopHashes=a', 'the second copy is above the leased span');
select is(pg_temp.ack('twice', 'w', 'b:completed'), 'done released acked=1', 'the rest');
select is(pg_temp.pop('twice', 'w2'), 'p:a,c,a', 'the next batch');
select is(pg_temp.ack('twice', 'w2', 'a:failed'), 'done released', 'a copy below the cursor does not shadow the one in the span');
select is(pg_temp.cursor('twice'), 'committed 1 retries 1 attempts 1', 'charged');

-- The hash window
select pg_temp.batch('h1', 6);
delete from queen.log_txns where partition_id = pg_temp.pid('h1') and base_offset = 0;
update queen.log_partitions set txns_start = 4 where id = pg_temp.pid('h1');
select is(pg_temp.ack('h1', 'w', 'a:completed b:failed'), 'done unresolvedHashes=a,b', 'purged hashes do not resolve');
select is(pg_temp.ack('h1', 'w', 'f:completed'), 'done released acked=6', 'what does still commits everything below');

-- Leases
select pg_temp.batch('s1');
select is(pg_temp.ack('s1', 'other', s), 'invalid or expired lease', 'another lease: ' || s) from unnest('{a:completed,a:failed,a:retry,a:dlq,ghost:completed}'::text[]) s;
select pg_temp.expire('s1');
select is(pg_temp.ack('s1', 'w', s), 'invalid or expired lease', 'expired: ' || s) from unnest('{j:completed,a:failed,a:retry,a:dlq}'::text[]) s;
select is(pg_temp.cursor('s1'), 'committed -1 leased to 9 by w attempts 1', 'nothing moved');
select is(pg_temp.ack('s1', 'w', 'a:completed', 'stranger'), 'consumer not found', 'a group without cursor');

-- Lease-less under a live lease
select pg_temp.batch('ll1', 4);
select is(pg_temp.ack('ll1', '', 'a:completed e:completed'), 'done acked=1 unresolvedHashes=e', 'advances; resolution stays inside the leased span');
select is(pg_temp.ack('ll1', '', 'b:failed'), 'done released', 'signals count as for the holder');
select is(pg_temp.cursor('ll1'), 'committed 0 retries 1 attempts 1', 'charged');
select is(pg_temp.ack('ll1', 'w', 'b:completed'), 'invalid or expired lease', 'the holder lost its lease');
select pg_temp.pop('ll1', 'w2', 2);
select is(pg_temp.ack('ll1', '', 'c:completed'), 'done released acked=2', 'completing the batch releases it');
select pg_temp.pop('ll1', 'w3', 2);
select is(pg_temp.ack('ll1', '', 'd:dlq'), 'done dlq@3 dlqHashes=d', 'dlq');
select is(pg_temp.file('ll1', '', 3), 'done', 'filed without lease id');
select is(pg_temp.file('ll1', '', 3), 'invalid or expired lease', 'twice: nothing happens');
select is(pg_temp.cursor('ll1'), 'committed 3', 'past it');

-- Lease-less without a lease
select is(pg_temp.ack('ll1', '', 'f:completed'), 'done acked=2', 'nothing leased: unbounded above the cursor');
select is(pg_temp.ack('ll1', '', 'h:failed'), 'done', 'a signal where nothing is leased changes nothing');
select is(pg_temp.ack('ll1', '', 'g:completed h:dlq i:completed'), 'done acked=1', 'but still clamps');
select is(pg_temp.cursor('ll1'), 'committed 6', 'nothing charged');
select is(pg_temp.ack('ll1', '', 'a:completed b:failed ghost:retry'), 'done noopHashes=a staleHashes=b unresolvedHashes=ghost', 'the lists are the same');

-- Lease-less after expiry, before the next claim: the recorded batch
select pg_temp.batch('ll2', 4);
select pg_temp.expire('ll2');
select is(pg_temp.ack('ll2', '', 'b:completed'), 'done acked=2', 'what was finished can still be committed');
select is(pg_temp.ack('ll2', '', 'f:failed'), 'done', 'a signal above the recorded batch changes nothing');
select is(pg_temp.cursor('ll2'), 'committed 1 leased to 3 by w attempts 1', 'still recorded');
select is(pg_temp.ack('ll2', '', 'c:failed'), 'done released', 'a signal inside the recorded batch is honoured');
select is(pg_temp.cursor('ll2'), 'committed 1 retries 1 attempts 1', 'charged');
select pg_temp.batch('ll3', 4);
select pg_temp.expire('ll3');
select is(pg_temp.ack('ll3', '', 'a:completed b:dlq'), 'done dlq@1 acked=1 dlqHashes=b', 'dlq as well');
select is(pg_temp.file('ll3', '', 5), 'invalid or expired lease', 'filing beyond the recorded batch is refused');
select is(pg_temp.file('ll3', '', 1), 'done', 'filed');
select pg_temp.batch('ll4', 4);
select pg_temp.expire('ll4');
select is(pg_temp.ack('ll4', '', 'h:completed'), 'done released acked=8', 'unbounded: beyond the recorded batch, which is over');
select is(pg_temp.cursor('ll4'), 'committed 7', 'nothing recorded any more');

-- Repeats of the ack that released the lease
create function pg_temp.twice(p_queue text, p_marks text, p_other text, p_options jsonb default '{}') returns text language plpgsql as $$
declare v_before text; v_first text;
begin
    perform pg_temp.batch(p_queue, 6, p_options);
    v_first := pg_temp.ack(p_queue, 'w', p_marks);
    if v_first like '%dlq@%' then
        perform pg_temp.file(p_queue, 'w', substring(v_first from 'dlq@(\d+)')::bigint);
    end if;
    v_before := pg_temp.cursor(p_queue);
    v_first := pg_temp.ack(p_queue, 'w', p_marks) || ' / ' || pg_temp.ack(p_queue, 'w', p_other);
    return v_first || case when pg_temp.cursor(p_queue) <> v_before then ' CHANGED' else '' end;
end $$;
select is(pg_temp.twice('p1', 'a:completed f:completed', 'e:completed'), 'done released repeat / invalid or expired lease', 'all completed');
select is(pg_temp.twice('p2', 'f:completed', 'a:completed f:completed'), 'done released repeat / done released repeat', 'the last one; in effect the same');
select is(pg_temp.twice('p3', 'a:completed b:failed', 'a:completed b:retry'), 'done released repeat / invalid or expired lease', 'failed; retry there is another call');
select is(pg_temp.cursor('p3'), 'committed 0 retries 1 attempts 1', 'charged once');
select is(pg_temp.twice('p4', 'a:completed c:failed', 'a:completed b:completed c:failed'), 'done released repeat / invalid or expired lease', 'another prefix');
select is(pg_temp.twice('p5', 'b:retry', 'c:retry'), 'done released repeat / invalid or expired lease', 'retry; another offset');
select is(pg_temp.twice('p6', 'a:completed c:dlq', 'a:completed c:completed'), 'done released repeat dlqHashes=c / invalid or expired lease', 'a dead letter is reported as one again');
select is(pg_temp.twice('p7', 'b:failed', 'c:failed', '{"retryLimit":0}'), 'done released repeat dlqHashes=b / invalid or expired lease', 'a dead letter by an exhausted budget');
select is(pg_temp.twice('p8', 'b:failed', 'c:failed', '{"retryLimit":0,"deadLetterQueue":false,"dlqAfterMaxRetries":false}'),
          'done released repeat / invalid or expired lease', 'a dropped one');
select is(pg_temp.twice('p9', 'f:completed ghost:failed', 'ghost:failed'), 'done released repeat unresolvedHashes=ghost / invalid or expired lease', 'with the items that did not resolve');
select pg_temp.batch('p10', 6);
select pg_temp.ack('p10', 'w', 'b:completed');
select is(pg_temp.ack('p10', 'w', 'a:completed b:failed f:completed'), 'done released acked=4 noopHashes=a staleHashes=b', 'after a partial ack');
select is(pg_temp.ack('p10', 'w', 'a:completed b:failed f:completed'), 'done released repeat noopHashes=a staleHashes=b', 'is repeated with its lists');
select is(pg_temp.ack('p10', 'w2', 'f:completed'), 'invalid or expired lease', 'a lease that never was');
select pg_temp.pop('p10', 'w2', 2);
select is(pg_temp.ack('p10', 'w', 'a:completed b:failed f:completed'), 'done released repeat noopHashes=a staleHashes=b', 'also while the next batch is leased');
select is(pg_temp.cursor('p10'), 'committed 5 leased to 7 by w2 attempts 1', 'which is not touched');
select is(pg_temp.ack('p10', 'w2', 'g:completed h:completed'), 'done released acked=2', 'the next release');
select is(pg_temp.ack('p10', 'w', 'f:completed'), 'invalid or expired lease', 'takes its place');
select is(pg_temp.ack('p10', 'w2', 'h:completed'), 'done released repeat', 'and is known itself');
select pg_temp.batch('p11', 6);
select pg_temp.ack('p11', '', 'f:completed');
select is(pg_temp.ack('p11', 'w', 'f:completed'), 'invalid or expired lease', 'a release without lease id is nobody''s');

select matches(pg_temp.raises($$select queen.log_ack_by_hash_v1(pg_temp.pid('p1'), 'g', 'w', '{}', '{completed}')$$), '^22023', 'misaligned arrays');
select is(queen.log_ack_by_hash_v1(gen_random_uuid(), 'g', 'w', '{}', '{}') ->> 'error', 'consumer not found', 'unknown partition');

select * from finish();
rollback;
