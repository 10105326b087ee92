-- Streams: registering, state reads, cycles: pushes, acks, state; what fails leaves nothing behind.
begin;
create extension if not exists pgtap;
select no_plan();
\ir helpers.psql

create function pg_temp.register(p_hash text, p_reset boolean default false, p_name text default 'query') returns text
language sql as $$
    select concat_ws(' ', case when r.query_id is null then 'no id' end, case when r.fresh then 'fresh' end,
                     case when r.reset then 'reset' end, case when r.mismatch then 'mismatch' end)
    from queen.streams_register_v1(p_name, 'src', null, p_hash, p_reset) r $$;
create function pg_temp.qid(p_name text default 'query') returns uuid language sql as $$
    select q.id from queen.stream_queries q where q.name = p_name $$;

-- A cycle. p_ops 'upsert:k:value delete:k'; p_sends 'queue/partition:a,b ...'.
create function pg_temp.cycle(p_ops text default null, p_sends text default null, p_ok boolean default null,
                              p_lease text default 'w', p_count int default null, p_release boolean default true,
                              p_partition uuid default pg_temp.pid('src'), p_query uuid default pg_temp.qid(),
                              p_request uuid default gen_random_uuid(), p_retry boolean default false,
                              p_group text default 'g')
returns text language plpgsql as $$
declare
    v_out text := '';
    v_types text[]; v_keys text[]; v_values text[]; v_ends float8[];
    v_queues text[]; v_partitions text[]; v_counts int[]; v_hashes bytea[]; v_blobs bytea[];
    r record;
begin
    select coalesce(array_agg(split_part(o, ':', 1) order by n), '{}'), coalesce(array_agg(split_part(o, ':', 2) order by n), '{}'),
           coalesce(array_agg(nullif(split_part(o, ':', 3), '') order by n), '{}'),
           coalesce(array_agg((case when split_part(o, ':', 3) ~ '^\d+$' then split_part(o, ':', 3) end)::float8 order by n), '{}')
    into v_types, v_keys, v_values, v_ends
    from string_to_table(p_ops, ' ') with ordinality as t (o, n);
    select coalesce(array_agg(split_part(split_part(s, ':', 1), '/', 1) order by n), '{}'),
           coalesce(array_agg(split_part(split_part(s, ':', 1), '/', 2) order by n), '{}'),
           coalesce(array_agg(cardinality(string_to_array(split_part(s, ':', 2), ',')) order by n), '{}'),
           coalesce(array_agg((select string_agg(pg_temp.hash(i.id), ''::bytea order by i.o)
                               from string_to_table(split_part(s, ':', 2), ',') with ordinality as i (id, o)) order by n), '{}'),
           coalesce(array_agg(split_part(s, ':', 2)::bytea order by n), '{}')
    into v_queues, v_partitions, v_counts, v_hashes, v_blobs
    from string_to_table(p_sends, ' ') with ordinality as t (s, n);
    for r in select * from queen.streams_cycle_v1(p_request, p_retry, p_query, p_partition, p_group, v_types, v_keys, v_values, v_ends,
                 v_queues, v_partitions, v_counts, v_hashes, array_fill(-1::bigint, array[cardinality(v_queues)]), v_blobs,
                 array_fill(0::bigint, array[cardinality(v_queues)]), array_fill(null::uuid, array[cardinality(v_queues)]),
                 p_ok, p_lease, p_count, p_release)
    loop
        if r.ordinal is not null then
            v_out := v_out || r.ordinal || case r.status when 1 then '@' || r.base_offset
                     else '=' || (select string_agg(d.i || '@' || d.o, ',') from unnest(r.dup_index, r.dup_offset) as d (i, o)) end || ' ';
        else
            v_out := v_out || coalesce(r.error, 'ok') || coalesce(' ' || r.queue_name, '')
                     || coalesce(' acked ' || r.ack_count, '') || case when r.lease_released then ' released' else '' end;
        end if;
    end loop;
    return v_out;
end $$;
create function pg_temp.state(p_keys text[] default null, p_prefix text default '', p_ripe float8 default null) returns text
language sql as $$
    select string_agg(s.key || '=' || s.value, ' ') from queen.streams_state_get_v1(pg_temp.qid(), pg_temp.pid('src'), p_keys, p_prefix, p_ripe, 1000, 100000) s $$;
create function pg_temp.stored(p_queue text, p_partition text default 'p') returns text language sql as $$
    select string_agg(convert_from(s.blob, 'UTF8'), '|' order by s.base_offset) from queen.log_segments s where s.partition_id = pg_temp.pid(p_queue, p_partition) $$;

-- registering
select is(pg_temp.register('h1'), 'fresh', 'a new name');
select is(pg_temp.register('h1'), '', 'the same again');
select is(pg_temp.register('h1', true), '', 'a reset without another hash forgets nothing');
select is(pg_temp.register('h2'), 'mismatch', 'another hash');
select is((select config_hash from queen.stream_queries), 'h1', 'changes nothing');

select is(pg_temp.push('src', 'p', array['a', 'b', 'c', 'd', 'e']), 'queued 0', 'source');
select is(pg_temp.pop('src', 'w'), 'p:a,b,c,d,e', 'leased');

-- what is unknown
select is(pg_temp.cycle(p_partition => gen_random_uuid()), 'partition not found', 'an unknown partition');
select is(pg_temp.cycle(p_partition => null), 'partition not found', 'one that is no UUID');
select is(pg_temp.cycle(p_query => gen_random_uuid()), 'query not found src', 'an unknown query');
select is(pg_temp.cycle('upsert:a:1 mystery:b:2'), 'Unknown state_op type: mystery src', 'an unknown operation');
select is(pg_temp.state(), null, 'before which nothing was done');

-- leases: everything rolls back
select is(pg_temp.cycle('upsert:a:1', 'out/p:x', true, 'other'), '1@0 invalid or expired lease src', 'a foreign lease');
select is(pg_temp.cycle('upsert:a:1', 'out/p:x', true, ''), '1@0 invalid or expired lease src', 'no lease id');
select is(pg_temp.cycle('upsert:a:1', 'out/p:x', true, null), '1@0 invalid or expired lease src', 'none at all');
select is(pg_temp.cycle('upsert:a:1', 'out/p:x', true, p_group => 'nobody'), '1@0 invalid or expired lease src', 'another group');
select is(pg_temp.cycle('upsert:a:1', 'out/p:x', false, 'other'), '1@0 invalid or expired lease src', 'also when it did not work');
select is(pg_temp.pid('out'), null, 'the sink was not even created');
select is(pg_temp.state(), null, 'no state');
select is((select count(*) from queen.stream_cycles), 0::bigint, 'no record');
select is(pg_temp.cursor('src'), 'committed -1 leased to 4 by w attempts 1', 'the cursor is where it was');

-- ok and keep
select is(pg_temp.cycle('upsert:a:1', 'out/p:x,y', true, p_count => 2, p_release => false), '1@0 ok src acked 2', 'two of five, the lease stays');
select is(pg_temp.cursor('src'), 'committed 1 leased to 4 by w attempts 1', 'two further');
select is(pg_temp.stored('out'), 'x,y', 'sent');
select is(pg_temp.state(), 'a=1', 'state');
select is(pg_temp.cycle(p_ok => true, p_count => 0, p_release => false), 'ok src acked 0', 'none');
select is(pg_temp.cursor('src'), 'committed 1 leased to 4 by w attempts 1', 'stays');
select is(pg_temp.cycle(p_ok => true, p_count => 99, p_release => false), 'ok src acked 3', 'more than there are: the leased span and no further');
select is(pg_temp.cursor('src'), 'committed 4 leased to 4 by w attempts 1', 'its end');
select is((select total_consumed from queen.log_consumers where consumer_group = 'g' and partition_id = pg_temp.pid('src')), 5::bigint, 'consumed');
select is(pg_temp.cycle(p_ok => true, p_count => 0), 'ok src acked 0 released', 'then the release');
select is(pg_temp.cursor('src'), 'committed 4', 'free');
select is(pg_temp.cycle('upsert:a:2', p_ok => true), 'invalid or expired lease src', 'once only');
select is(pg_temp.state(), 'a=1', 'and nothing with it');

-- gaps of retention
select is(pg_temp.push('src', 'p', array['f' || i]), 'queued ' || i + 4, 'f' || i) from generate_series(1, 6) i;
select is(pg_temp.pop('src', 'w'), 'p:f1,f2,f3,f4,f5,f6', 'six segments');
delete from queen.log_segments where partition_id = pg_temp.pid('src') and base_offset in (5, 7, 8);
select is(pg_temp.cycle(p_ok => true, p_count => 2, p_release => false), 'ok src acked 2', 'two that exist');
select is(pg_temp.cursor('src'), 'committed 9 leased to 10 by w attempts 1', 'offsets 6 and 9');
delete from queen.log_segments where partition_id = pg_temp.pid('src');
select is(pg_temp.cycle(p_ok => true, p_count => 1, p_release => false), 'ok src acked 0', 'nothing is left');
select is(pg_temp.cursor('src'), 'committed 10 leased to 10 by w attempts 1', 'the end of the span');
select is(pg_temp.cycle(p_ok => true), 'ok src acked 0 released', 'released');

-- not ok, expired, ok and release without a count
select is(pg_temp.push('src', 'p', array['g', 'h']), 'queued 11', 'more');
select is(pg_temp.pop('src', 'w'), 'p:g,h', 'leased');
select is(pg_temp.cycle('upsert:b:5', 'out/p:z', false, p_count => 2), '1@2 ok src acked 0 released', 'not ok');
select is(pg_temp.cursor('src'), 'committed 10 attempts 1', 'the cursor stays, no retry is charged');
select is(pg_temp.stored('out'), 'x,y|z', 'the rest of the cycle counts');
select is(pg_temp.pop('src', 'w2'), 'p:g,h', 'again');
select pg_temp.expire('src');
select is(pg_temp.cycle('upsert:b:6', 'out/p:zz', true, 'w2'), '1@3 invalid or expired lease src', 'an expired lease');
select is(pg_temp.cycle('upsert:b:6', 'out/p:zz', true, 'w2', 1, false), '1@3 invalid or expired lease src', 'nor is it kept');
select is(pg_temp.cycle('upsert:b:6', 'out/p:zz', false, 'w2'), '1@3 invalid or expired lease src', 'nor released');
select is(pg_temp.stored('out') || pg_temp.state(array['b']), 'x,y|zb=5', 'nothing of it');
select is(pg_temp.pop('src', 'w3'), 'p:g,h', 'leased again');
select is(pg_temp.cycle(p_ok => true, p_lease => 'w3'), 'ok src acked 2 released', 'the whole batch');
select is(pg_temp.cursor('src'), 'committed 12', 'retry and attempt state cleared');
update queen.log_consumers set worker_id = 'w4', lease_expires_at = clock_timestamp() + interval '1 minute' where partition_id = pg_temp.pid('src');
select is(pg_temp.cycle(p_ok => true, p_lease => 'w4'), 'no leased batch src', 'a lease without batch');

-- a batch that ends inside a segment
select is(pg_temp.push('part', 'p', array['a', 'b', 'c', 'd']), 'queued 0', 'four in a segment');
select is(pg_temp.pop('part', 'v', 3), 'p:a,b,c', 'three leased');
select is(pg_temp.cycle(p_ok => true, p_lease => 'v', p_count => 1, p_release => false, p_partition => pg_temp.pid('part')), 'ok part acked 1', 'one');
select is(pg_temp.cycle(p_ok => true, p_lease => 'v', p_release => false, p_partition => pg_temp.pid('part')), 'ok part acked 2', 'without a count: the rest of the batch');
select is(pg_temp.cursor('part'), 'committed 2 leased to 2 by v attempts 1', 'not the fourth');
select is(pg_temp.cycle(p_ok => true, p_lease => 'v', p_count => 1, p_release => false, p_partition => pg_temp.pid('part')), 'ok part acked 0', 'there are no more');
select is(pg_temp.cursor('part'), 'committed 2 leased to 2 by v attempts 1', 'stays');
select is(pg_temp.cycle(p_ok => true, p_lease => 'v', p_partition => pg_temp.pid('part')), 'ok part acked 0 released', 'released');
select is(pg_temp.push('part', 'p', array['e', 'f']), 'queued 4', 'more');
select is(pg_temp.pop('part', 'v'), 'p:d,e,f', 'leased');
update queen.log_consumers set lease_conflated = true where partition_id = pg_temp.pid('part');
select is(pg_temp.cycle(p_ok => true, p_lease => 'v', p_count => 1, p_release => false, p_partition => pg_temp.pid('part')), 'ok part acked 1', 'the message of a conflated lease');
select is(pg_temp.cursor('part'), 'committed 5 leased to 5 by v attempts 1', 'stands for the batch');
select is(queen.queue_delete_v1('part'), true, 'deleted');

-- no ack
select is(pg_temp.cycle('upsert:c:7 upsert:c:8 delete:b upsert:d:1 delete:d delete:none', p_ok => null), 'ok src', 'state only');
select is(pg_temp.state(), 'a=1 c=8', 'of several operations on a key the last counts');
select is(pg_temp.cycle('delete:c upsert:c:9', 'out/p:n1 out/p2:n2', null, p_group => 'nobody'), '1@3 2@0 ok src', 'a group without cursor');
select is(pg_temp.stored('out') || ' ' || pg_temp.stored('out', 'p2'), 'x,y|z|n1 n2', 'two sinks');
select is(pg_temp.cycle(), 'ok src', 'nothing at all');

-- duplicates: the caller repeats without them
select is(pg_temp.cycle('upsert:e:1', 'out/p:new,x,new2,z out/p2:n3'), '1=1@0,3@2 2@1 duplicates src', 'named');
select is(pg_temp.stored('out') || ' ' || pg_temp.stored('out', 'p2'), 'x,y|z|n1 n2', 'nothing is stored');
select is(pg_temp.state(array['e']), null, 'nor written');

-- repeats of the caller
create function pg_temp.rid() returns uuid language sql as $$ select 'aaaaaaaa-0000-7000-8000-000000000001'::uuid $$;
select is(pg_temp.push('src', 'p', array['k']), 'queued 13', 'more');
update queen.log_consumers set worker_id = null, lease_expires_at = null where partition_id = pg_temp.pid('src');
select is(pg_temp.pop('src', 'w5'), 'p:k', 'leased');
select is(pg_temp.cycle('upsert:r:1', 'out/p:r1 out/p2:r2', true, 'w5', p_request => pg_temp.rid(), p_retry => true), '1@4 2@1 ok src acked 1 released', 'a repeat of what was not done does it');
select is(pg_temp.cycle('upsert:r:1', 'out/p:r1 out/p2:r2', true, 'w5', p_request => pg_temp.rid(), p_retry => true), '1@4 2@1 ok src acked 1 released', 'a repeat of what was done is answered as that');
select is(pg_temp.stored('out', 'p2'), 'n2|r2', 'and not done again');
select is(pg_temp.cycle('upsert:r:1', 'out/p:r3', true, 'w5', p_retry => true), '1@5 invalid or expired lease src', 'not so another request');
select is(pg_temp.cycle('upsert:r:2', p_request => pg_temp.rid()), 'ok src', 'one that is no repeat is done');
select is(pg_temp.state(array['r']), 'r=2', 'it was');

-- state reads
select is(pg_temp.cycle('upsert:p%a:1 upsert:pxa:20 upsert:p_b:"text" upsert:q:30'), 'ok src', 'more state');
select is(pg_temp.state(), 'a=1 c=9 p%a=1 p_b="text" pxa=20 q=30 r=2', 'by key, in byte order');
select is(pg_temp.state(array['q', 'a', 'q', 'missing']), 'a=1 q=30', 'keys');
select is(pg_temp.state(null, 'p'), 'p%a=1 p_b="text" pxa=20', 'a prefix');
select is(pg_temp.state(null, 'p%'), 'p%a=1', 'is literal');
select is(pg_temp.state(array['q', 'pxa'], 'p'), 'pxa=20', 'keys and prefix');
select is(pg_temp.state(null, '', 20), 'a=1 c=9 p%a=1 pxa=20 r=2', 'ripe: at or before');
select is(pg_temp.state(null, 'p', 19.5), 'p%a=1', 'ripe and prefix');
select is(pg_temp.state(array['q', 'pxa', 'p_b'], '', 29), 'pxa=20', 'ripe and keys');
select is(pg_temp.state(array['q', 'pxa'], 'q', 29), null, 'all three');
select is(pg_temp.raises($$ select * from queen.streams_state_get_v1(pg_temp.qid(), pg_temp.pid('src'), null, '', null, 6, 1000) $$) ~ '^54000 ', true, 'too many rows');
select is(pg_temp.raises($$ select * from queen.streams_state_get_v1(pg_temp.qid(), pg_temp.pid('src'), null, '', null, 7, 26) $$) ~ '^54000 ', true, 'too many bytes');
select is((select count(*) from queen.streams_state_get_v1(pg_temp.qid(), pg_temp.pid('src'), null, '', null, 7, 27)), 7::bigint, 'as many as allowed');
select is((select count(*) from queen.streams_state_get_v1(gen_random_uuid(), pg_temp.pid('src'), null, '', null, 7, 27)), 0::bigint, 'an unknown query has no state');

-- reset, deletion, cleanup
select is(pg_temp.register('h', false, 'other'), 'fresh', 'a second query');
select is(pg_temp.cycle('upsert:mine:1', p_query => pg_temp.qid('other')), 'ok src', 'with state');
select is(pg_temp.register('h2', true), 'reset', 'another hash with reset');
select is(pg_temp.state(), null, 'its state is gone');
select is((select count(*) from queen.stream_state), 1::bigint, 'not that of the other');
select is(pg_temp.register('h2'), '', 'the new hash holds');
select is(queen.queue_delete_v1('out'), true, 'deletion of a sink');
select is((select count(*) from queen.stream_state), 1::bigint, 'takes nothing');
delete from queen.log_segments where partition_id = pg_temp.pid('src');
update queen.log_partitions set oldest_live_at = null, created_at = now() - interval '9 days', last_write_at = now() - interval '9 days' where id = pg_temp.pid('src');
update queen.log_consumers set released_at = null, created_at = now() - interval '9 days', lease_expires_at = null where partition_id = pg_temp.pid('src');
select is(queen.log_partitions_cleanup_v1(10, 5), 0::bigint, 'a partition with stream state stays');
select is(pg_temp.cycle('delete:mine', p_query => pg_temp.qid('other')), 'ok src', 'without');
select is(queen.log_partitions_cleanup_v1(10, 5), 1::bigint, 'it goes');
select is((select count(*) from queen.stream_cycles), 0::bigint, 'with its records');
select is(pg_temp.push('src', 'p', array['a']), 'queued 0', 'anew');
select is(pg_temp.cycle('upsert:x:1'), 'ok src', 'state');
select is(queen.queue_delete_v1('src'), true, 'deletion of the source');
select is((select count(*) from queen.stream_state) + (select count(*) from queen.stream_cycles), 0::bigint, 'takes state and records');

select * from finish();
rollback;
