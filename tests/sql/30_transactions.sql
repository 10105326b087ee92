-- Transactions: every part, lease resolution, refusals that leave nothing, dead letters, the record of the outcome.
begin;
\ir helpers.psql
select no_plan();

-- One call. pushes 'q/p:a,b r/p:c', acks 'q:a:completed b:failed|r:c' (queue of partition p, group g; a
-- lease after @: 'q@w:...'), leases 'w1 w2', whole 'q=5' (recognised: batch end). Answers 'ok ...' or the refusal.
create function pg_temp.txn(p_pushes text default '', p_acks text default '', p_leases text default '', p_kv text default null,
                            p_kv_values text[] default null, p_whole text default '', p_dead text default '',
                            p_request uuid default gen_random_uuid(), p_retry boolean default false, p_timers text[] default '{}')
returns table (outcome jsonb, refusal text) language plpgsql as $$
declare
    v_queues text[] := '{}'; v_partitions text[] := '{}'; v_counts int[] := '{}'; v_hashes bytea[] := '{}'; v_blobs bytea[] := '{}';
    v_pids uuid[] := '{}'; v_workers text[] := '{}'; v_ack_hashes bytea[] := '{}'; v_statuses text[] := '{}'; v_ends bigint[] := '{}';
    v_ack_counts int[] := '{}';
    v_d_acks int[] := '{}'; v_d_offs bigint[] := '{}';
    v_ids text[]; v_one text; v_target text;
    r record;
begin
    foreach v_one in array string_to_array(p_pushes, ' ') loop
        v_ids := string_to_array(split_part(v_one, ':', 2), ',');
        v_queues := v_queues || split_part(split_part(v_one, ':', 1), '/', 1);
        v_partitions := v_partitions || split_part(split_part(v_one, ':', 1), '/', 2);
        v_counts := v_counts || cardinality(v_ids);
        v_hashes := v_hashes || (select string_agg(pg_temp.hash(i), ''::bytea order by o) from unnest(v_ids) with ordinality as u (i, o));
        v_blobs := v_blobs || array_to_string(v_ids, ',')::bytea;
    end loop;
    foreach v_one in array string_to_array(p_acks, '|') loop
        v_target := split_part(v_one, ' ', 1);
        v_pids := v_pids || coalesce(pg_temp.pid(split_part(v_target, '@', 1)), '00000000-0000-0000-0000-000000000000');
        v_workers := v_workers || split_part(v_target, '@', 2);
        v_ack_hashes := v_ack_hashes || (select string_agg(pg_temp.hash(split_part(m, ':', 1)), ''::bytea order by o)
                                         from string_to_table(v_one, ' ') with ordinality as t (m, o) where o > 1);
        v_statuses := v_statuses || (select string_agg(left(split_part(m, ':', 2), 1), '' order by o)
                                     from string_to_table(v_one, ' ') with ordinality as t (m, o) where o > 1);
        v_ends := v_ends || (substring(p_whole from split_part(v_target, '@', 1) || '=([0-9]+)'))::bigint;
        v_ack_counts := v_ack_counts || case when v_ends[cardinality(v_ends)] is not null then 1 end;
    end loop;
    foreach v_one in array string_to_array(p_dead, ' ') loop -- '1@4': snapshot for the first cursor, offset 4
        v_d_acks := v_d_acks || split_part(v_one, '@', 1)::int;
        v_d_offs := v_d_offs || split_part(v_one, '@', 2)::bigint;
    end loop;
    select * into r from queen.log_transaction_call_v1(
        p_request, p_retry, p_kv::jsonb, p_kv_values,
        array_fill('schedule'::text, array[cardinality(p_timers)]), array_fill('tq'::text, array[cardinality(p_timers)]), p_timers,
        array_fill('p'::text, array[cardinality(p_timers)]), array_fill(3600000000::bigint, array[cardinality(p_timers)]),
        array_fill('t'::bytea, array[cardinality(p_timers)]), array_fill(gen_random_uuid(), array[cardinality(p_timers)]),
        array_fill(pg_temp.hash('t'), array[cardinality(p_timers)]), array_fill('t'::bytea, array[cardinality(p_timers)]),
        v_queues, v_partitions, v_counts, v_hashes, array_fill(-1::bigint, array[cardinality(v_queues)]), v_blobs,
        array_fill(0::bigint, array[cardinality(v_queues)]), array_fill(null::uuid, array[cardinality(v_queues)]),
        string_to_array(p_leases, ' '), v_pids, array_fill('g'::text, array[cardinality(v_pids)]), v_workers, v_ends, v_ack_counts,
        v_ack_hashes, v_statuses, v_d_acks, v_d_offs, array_fill(gen_random_uuid(), array[cardinality(v_d_acks)]),
        array_fill('x'::bytea, array[cardinality(v_d_acks)]), array_fill('1'::bytea, array[cardinality(v_d_acks)]),
        array_fill('why'::text, array[cardinality(v_d_acks)]));
    outcome := r.outcome::jsonb;
    refusal := concat_ws(' ', r.state, r.error, r.detail);
    return next;
end $$;
-- What the acks came to: 'q:released r:kept', or the refusal.
create function pg_temp.acks(p_acks text, p_leases text default '', p_whole text default '', p_dead text default '', p_pushes text default '')
returns text language sql as $$
    select coalesce(nullif(t.refusal, ''),
                    (select string_agg(a ->> 'queue' || ':' || case when (a ->> 'released')::boolean then 'released' else 'kept' end
                                       || case when a -> 'dlq' <> '[]' then ':dlq' else '' end, ' ' order by o)
                     from jsonb_array_elements(t.outcome -> 'acks') with ordinality as e (a, o)))
    from pg_temp.txn(p_pushes, p_acks, p_leases, p_whole => p_whole, p_dead => p_dead) t $$;
-- A queue with messages <queue>a .. leased to a worker.
create function pg_temp.leased(p_queue text, p_count int, p_worker text, p_budget int default 100) returns text language sql as $$
    select pg_temp.push(p_queue, 'p', array(select p_queue || chr(96 + i) from generate_series(1, p_count) i));
    select pg_temp.pop(p_queue, p_worker, p_budget) $$;

-- all parts at once
select is(pg_temp.leased('a', 3, 'w'), 'p:aa,ab,ac', 'a batch');
select is((select jsonb_build_array(t.refusal, jsonb_array_length(t.outcome -> 'pushes'), t.outcome -> 'pushes' -> 1 -> 'base', t.outcome -> 'acks' -> 0 -> 'released',
                                    t.outcome -> 'kv' ->> 0, t.outcome -> 'timers' -> 0 ->> 'status', t.outcome -> 'timers' -> 0 ->> 'txn')::text
           from pg_temp.txn('new.q/p1:x,y new.q/p2:z', 'a@w aa:completed ab:completed ac:completed', 'w',
                            '[{"op":"put","ns":"n","key":"k","forever":true}]', array['{"v": 1.0}'], p_timers => '{tk}') t),
          jsonb_build_array('', 2, 0, true, '{"op":"put","applied":true,"key":"k","value":{"v": 1.0},"version":1}', 'scheduled', encode('t', 'hex'))::text,
          'everything is there');
select is((select count(*) from queen.log_timers), 1::bigint, 'the timer');
select is(pg_temp.cursor('a'), 'committed 2', 'the cursor');
select is(pg_temp.pop('new.q', 'w', p_partition => 'p1') || ' ' || pg_temp.pop('new.q', 'w', p_partition => 'p2'), 'p1:x,y p2:z', 'the messages');
select is((select namespace from queen.queues where name = 'new.q'), 'new', 'the queue is created like by a push');

-- retries
select is((select count(*) from queen.request_outcomes), 1::bigint, 'the outcome is recorded');
select is((select refusal from pg_temp.txn('r/p:a', p_request => '00000000-0000-0000-0000-000000000001')), '', 'a first try');
select is((select outcome = (select outcome from queen.request_outcomes where request_id = '00000000-0000-0000-0000-000000000001')
           from pg_temp.txn('r/p:a', p_request => '00000000-0000-0000-0000-000000000001', p_retry => true)), true, 'a retry is answered as the first');
select is((select last_offset from queen.log_partitions where id = pg_temp.pid('r')), 0::bigint, 'and does nothing again');
select is((select refusal from pg_temp.txn('r/p:b', p_request => '00000000-0000-0000-0000-000000000002', p_retry => true)), '', 'a retry of what did not commit does it');
select matches(pg_temp.raises($$select * from pg_temp.txn('r/p:c', p_request => '00000000-0000-0000-0000-000000000001')$$), '^23505', 'an id is used once');
select is((select last_offset from queen.log_partitions where id = pg_temp.pid('r')), 1::bigint, 'with nothing left of the second use');
select is((select jsonb_build_array(outcome, refusal)::text from pg_temp.txn()), '[{"kv": [], "acks": [], "pushes": [], "timers": []}, ""]', 'an empty one');

-- duplicates
select is((select refusal from pg_temp.txn('d/p:a,b', p_kv => '[{"op":"put","ns":"n","key":"d","forever":true}]', p_kv_values => array['1'])), '', 'pushed');
select is((select refusal from pg_temp.txn('d/p2:n d/p:x,b,a', p_kv => '[{"op":"put","ns":"n","key":"d","forever":true}]', p_kv_values => array['2'])),
          'QT001 a pushed transactionId is in the log already {"off": 1, "push": 1, "index": 1}', 'a duplicate');
select is((select value from queen.kv where key = 'd'), '1', 'the key is as it was');
select is(pg_temp.pid('d', 'p2'), null, 'no partition is left');
select pg_temp.configure('nodedup', '{"dedupWindowSeconds":0}');
select is((select refusal from pg_temp.txn('nodedup/p:a')), '', 'without a window');
select is((select refusal from pg_temp.txn('nodedup/p:a')), '', 'nothing is a duplicate');

-- leases
select pg_temp.leased('l1', 4, 'w1');
select pg_temp.leased('l2', 4, 'w2');
select is(pg_temp.acks('l1@w1 l1b:completed|l2@w2 l2d:completed'), 'l1:kept l2:released', 'own leases; a partial ack keeps its');
select is(pg_temp.acks('l1@other l1d:completed'), 'QT002 invalid or expired lease {"ack": 0}', 'a foreign lease');
select is(pg_temp.acks('l1 l1c:completed|l2 l2d:completed', 'w1'), 'l1:kept l2:kept', 'the holder, for it is named; what is committed passes without');
select is(pg_temp.acks('l1 l1d:completed', 'other'), 'QT002 invalid or expired lease {"ack": 0}', 'the holder is not named');
select is(pg_temp.acks('l1 l1a:completed', 'other'), 'l1:kept', 'committed already: passes');
select is(pg_temp.acks('l1 l1a:failed', 'other'), 'l1:kept', 'a nack too');
select is(pg_temp.acks('l1@w1 ghost:completed'), 'QT002 unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers {"ack": 0, "hash": "'
          || md5('ghost') || '"}', 'an id that was never pushed');
select is(pg_temp.acks('nowhere x:completed'), 'QT002 unresolvable: the consumer group has no cursor in this partition {"ack": 0}', 'a partition that is not there');
select is(pg_temp.acks('l1@w1 l1d:completed|l2@w2 l2d:completed'), 'QT002 invalid or expired lease {"ack": 1}', 'a lease that was released, also by the same ack');
select is(pg_temp.cursor('l1'), 'committed 2 leased to 3 by w1 attempts 1', 'and the first ack is undone');
select is(pg_temp.acks('l1 l1d:completed'), 'l1:released', 'no lease named anywhere: lease-less');
select pg_temp.leased('l3', 4, 'w3', 2);
select matches(pg_temp.acks('l3@w3 l3c:completed'), '^QT002 unresolvable', 'above the leased batch');
select matches(pg_temp.acks('l3 l3c:completed'), '^QT002 unresolvable', 'lease-less too');
select pg_temp.expire('l3');
select is(pg_temp.acks('l3@w3 l3a:completed'), 'QT002 invalid or expired lease {"ack": 0}', 'an expired lease');
select is(pg_temp.acks('l3 l3a:completed', 'w3'), 'QT002 invalid or expired lease {"ack": 0}', 'also as a named one');
select is(pg_temp.acks('l3 l3c:completed'), 'l3:released', 'lease-less: anything above the cursor');

-- recognised batches
select pg_temp.leased('w1', 3, 'w');
select pg_temp.leased('w2', 3, 'w');
select is(pg_temp.acks('w1@w w1a:completed w1b:completed w1c:completed|w2 w2a:completed w2b:completed w2c:completed', 'w', 'w1=2 w2=2'),
          'w1:released w2:released', 'own lease and named lease');
select is((select string_agg(c.total_consumed::text, ' ') from queen.log_consumers c where c.partition_id in (pg_temp.pid('w1'), pg_temp.pid('w2'))), '1 1', 'by position');
select is(pg_temp.acks('w1@w w1a:completed w1b:completed w1c:completed', '', 'w1=2'), 'QT002 invalid or expired lease {"ack": 0}', 'again: the lease is gone');
select is(pg_temp.acks('w1 w1a:completed w1b:completed w1c:completed', 'w', 'w1=2'), 'w1:kept', 'as a named lease: committed already');
select pg_temp.leased('w3', 5, 'w', 2);
select is(pg_temp.acks('w3@w w3a:completed w3b:completed', '', 'w3=4'), 'w3:released', 'a wrong hint: by hash');
select is(pg_temp.cursor('w3'), 'committed 1', 'no further than what was acked');

-- nacks
select pg_temp.leased('n1', 3, 'w');
select is(pg_temp.acks('n1@w n1a:completed n1b:failed n1c:completed'), 'n1:released', 'failed');
select is(pg_temp.cursor('n1'), 'committed 0 retries 1 attempts 1', 'charged, clamped');
select pg_temp.pop('n1', 'w');
select is(pg_temp.acks('n1@w n1b:retry'), 'n1:released', 'retry');
select is(pg_temp.cursor('n1'), 'committed 0 retries 1 attempts 1', 'not charged');
select pg_temp.pop('n1', 'w');
select is(pg_temp.acks('n1@w n1b:failed|nowhere x:completed'), 'QT002 unresolvable: the consumer group has no cursor in this partition {"ack": 1}', 'rolled back');
select is(pg_temp.cursor('n1'), 'committed 0 leased to 2 by w retries 1 attempts 2', 'the budget too');

-- dead letters
select pg_temp.leased('x1', 3, 'w');
select pg_temp.leased('x2', 3, 'w');
select is(pg_temp.acks('x1@w x1b:dlq|x2@w x2a:completed x2c:dlq'),
          'QT003 dead letters without a snapshot [{"ack": 0, "off": 1, "hash": "' || md5('x1b') || '"}, {"ack": 1, "off": 2, "hash": "' || md5('x2c') || '"}]',
          'asks for all of them');
select is(pg_temp.cursor('x1'), 'committed -1 leased to 2 by w attempts 1', 'nothing is done');
select is(pg_temp.acks('x1@w x1b:dlq|x2@w x2a:completed x2c:dlq', p_dead => '2@2 1@1', p_pushes => 'x3/p:a'), 'x1:released:dlq x2:released:dlq', 'filed');
select is((select string_agg(d."offset" || ' ' || d.error, ', ' order by d."offset") from queen.log_dlq d), '1 why, 2 why', 'both');
select is(pg_temp.cursor('x1') || ', ' || pg_temp.cursor('x2'), 'committed 1, committed 2', 'the cursors passed them');
select pg_temp.leased('x4', 2, 'w');
select matches(pg_temp.acks('x4@w x4b:dlq', p_dead => '1@0'), '^QT003 .*"off": 1', 'another one than was given');
select is(pg_temp.acks('x4@w x4b:dlq|nowhere x:completed', p_dead => '1@1') ~ '^QT002' and not exists (select 1 from queen.log_dlq where partition_id = pg_temp.pid('x4')), true,
          'rolled back, no dead letter is left');

-- riders
select is((select refusal from pg_temp.txn('k/p:a', p_kv => '[{"op":"putIfAbsent","ns":"n","key":"k","forever":true,"required":true}]', p_kv_values => array['7'])) ~ '^23514 kv_precondition_failed: operation 0: exists .*"reason":"exists"',
          true, 'a lost required');
select is(pg_temp.pid('k'), null, 'undoes the rest');
select matches(pg_temp.raises($$select * from pg_temp.txn('k/p:a', p_kv => '[{"op":"getPrefix","ns":"n","prefix":"k"}]', p_kv_values => array[null::text])$$), '^22023 kv_get_prefix', 'a malformed rider is an error');
select matches(pg_temp.raises($$select queen.log_transaction_acks_v1('{}', array[gen_random_uuid()], '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}', '{}')$$), '^QT000', 'misaligned arrays');

-- the purge
update queen.request_outcomes set created_at = clock_timestamp() - interval '61 s' where request_id = '00000000-0000-0000-0000-000000000001';
select is(queen.request_outcomes_purge_v1(10, 60), 1::bigint, 'old outcomes go');
select is(queen.request_outcomes_purge_v1(10, 60), 0::bigint, 'the others stay');

select * from finish();
rollback;
