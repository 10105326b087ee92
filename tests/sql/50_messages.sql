-- Messages: status, listing bounds, detail, dead letters by request; replay; purge; traces.
begin;
\ir helpers.psql
select no_plan();

create function pg_temp.list(p_queue text, p_status text default '', p_limit int default 100, p_offset int default 0,
                             p_from timestamptz default null, p_to timestamptz default null) returns text language sql as $$
    select coalesce(string_agg(m.partition || m."offset" || ':' || m.status, ' ' order by m.n), 'none')
    from queen.messages_list_v1(p_queue, '', '', '', p_status, p_from, p_to, p_limit, p_offset)
         with ordinality as m (partition_id, partition, queue, namespace, task, base_offset, "offset", created_at, status,
                               consumed_by, total_groups, lease_expires_at, blob, n) $$;

-- Progress and status
select pg_temp.push('q', 'p', '{a,b}'), pg_temp.push('q', 'p', '{c,d,e}');
select is(pg_temp.list('q'), 'p4:pending p3:pending p2:pending p1:pending p0:pending', 'nobody consumes');
select pg_temp.pop('q', 'w1', 2, p_group => 'g1');
select is(pg_temp.list('q'), 'p4:pending p3:pending p2:pending p1:processing p0:processing', 'a leased span of a named group');
select pg_temp.ack('q', 'w1', 'a:completed b:completed', 'g1');
select is(pg_temp.list('q'), 'p4:pending p3:pending p2:pending p1:completed p0:completed', 'the only named group is past two');
select pg_temp.pop('q', 'w2', 1, p_group => 'g2');
select is(pg_temp.list('q'), 'p4:pending p3:pending p2:pending p1:pending p0:processing', 'the slowest named group counts');
select pg_temp.pop('q', 'w3', 4, p_group => '__QUEUE_MODE__');
select is(pg_temp.list('q'), 'p4:pending p3:processing p2:processing p1:processing p0:processing', 'queue mode holds four');
select pg_temp.ack('q', 'w3', 'a:completed b:completed c:completed', '__QUEUE_MODE__');
select is(pg_temp.list('q'), 'p4:pending p3:processing p2:completed p1:completed p0:completed', 'the queue-mode cursor decides alone');
select pg_temp.expire('q', '__QUEUE_MODE__');
select is(pg_temp.list('q'), 'p4:pending p3:pending p2:completed p1:completed p0:completed', 'an expired lease processes nothing');
insert into queen.log_dlq (partition_id, consumer_group, "offset", transaction_id, payload, error)
values (pg_temp.pid('q'), 'g', 1, 'b', '1', 'x'), (pg_temp.pid('q'), 'h', 1, 'b', '1', 'x'), (pg_temp.pid('q'), 'h', 4, 'e', '1', 'x');
select is(pg_temp.list('q'), 'p4:dead_letter p3:pending p2:completed p1:dead_letter p0:completed', 'dead letters first of all');

-- Filters and pages
select is(pg_temp.list('q', s), e, 'status ' || s) from (values
    ('pending', 'p3:pending'), ('completed', 'p2:completed p0:completed'), ('dead_letter', 'p4:dead_letter p1:dead_letter'),
    ('processing', 'none'), ('unknown', 'none')) as t (s, e);
select is(pg_temp.list('q', 'completed', 1, 1), 'p0:completed', 'the status filters before paging');
select is(pg_temp.list('q', '', 2, 1), 'p3:pending p2:completed', 'a page');
select is(pg_temp.list('q', '', 0), 'none', 'an empty page');
select is(pg_temp.list('q', '', 10, 5), 'none', 'a page past the end');
select is((select string_agg(coalesce(convert_from(m.blob, 'UTF8'), '-'), ' ' order by n)
           from queen.messages_list_v1('q', '', '', '', '', null, null, 4, 0) with ordinality
                as m (a, b, c, d, e, f, g, h, i, j, k, l, blob, n)), 'c,d,e - - a,b', 'each segment comes once');

-- Several partitions, windows
select pg_temp.push('w', 'a', '{1}'), pg_temp.push('w', 'b', '{1}'), pg_temp.push('w', 'a', '{2}');
select pg_temp.age('w', 'b', '30 minutes');
select is(pg_temp.list('w'), 'a1:pending a0:pending b0:pending', 'newest first over partitions');
select is(pg_temp.list('w', p_from => now() - interval '10 minutes'), 'a1:pending a0:pending', 'from');
select is(pg_temp.list('w', p_to => now() - interval '10 minutes'), 'b0:pending', 'to');
select pg_temp.age('w', 'b', '45 minutes');
select is(pg_temp.list('w'), 'a1:pending a0:pending', 'the last hour unless told otherwise');
select is(pg_temp.list('w', p_from => now() - interval '2 hours', p_limit => 1, p_offset => 2), 'b0:pending', 'or more');
update queen.log_partitions set log_start = 1 where id = pg_temp.pid('w', 'a');
select is(pg_temp.list('w'), 'a1:pending', 'what retention cut does not show');

select pg_temp.push('x', 'a', '{1}'), pg_temp.age('x', 'a', '30 minutes');
select pg_temp.push('x', 'b', '{1}'), pg_temp.push('x', 'a', '{2}');
select is(pg_temp.list('x', '', 2), 'a1:pending b0:pending', 'a full page of one partition yields to what is newer elsewhere');

-- Detail
create function pg_temp.detail(p_queue text, p_id text, p_offset bigint default null) returns text language sql as $$
    select coalesce(d."offset"::text, '?') || ' below ' || d.scan_below || coalesce(' ' || d.status || ' ' || coalesce(d.error, '-'), '')
    from queen.message_detail_v1(pg_temp.pid(p_queue), pg_temp.hash(p_id), p_offset) as d $$;
select is(pg_temp.detail('q', 'b'), '1 below 0 dead_letter x', 'by hash');
select is(pg_temp.detail('q', 'none', 3), '3 below 0 pending -', 'by offset');
select is(pg_temp.detail('q', 'none', 77), '? below 0', 'an offset that is not there');
select is((select count(*) from queen.message_detail_v1(gen_random_uuid(), '', null)), 0::bigint, 'no partition, no row');
update queen.log_partitions set txns_start = 2 where id = pg_temp.pid('q');
select is(pg_temp.detail('q', 'a'), '? below 2', 'a purged hash: the search begins below');
update queen.log_partitions set txns_start = 0 where id = pg_temp.pid('q');
select is(pg_temp.rows(format('select base_offset, convert_from(blob, ''UTF8'') from queen.message_scan_v1(%L, 5, 9)', pg_temp.pid('q'))),
          '(2,"c,d,e") (0,"a,b")', 'scan, newest first');
select is(pg_temp.rows(format('select base_offset from queen.message_scan_v1(%L, 2, 9)', pg_temp.pid('q'))), '(0)', 'scan below an offset');

-- Dead-lettering by request
create function pg_temp.bury(p_queue text, p_off bigint, p_id uuid default gen_random_uuid()) returns text language sql as $$
    select coalesce(queen.message_dead_letter_v1(p_id, pg_temp.pid(p_queue), p_off, gen_random_uuid(), 't', '1', now(), 'why'), 'filed') $$;
select is(pg_temp.bury('w', 0), 'the queue has no queue-mode consumer yet', 'nobody to skip it');
select pg_temp.push('d', 'p', '{a,b}'), pg_temp.push('d', 'p', '{c,d}'), pg_temp.pop('d', 'w', 1, p_group => '__QUEUE_MODE__');
select is(pg_temp.bury('d', 0), 'the next messages are leased to a consumer', 'leased');
select pg_temp.expire('d', '__QUEUE_MODE__');
select matches(pg_temp.bury('d', 1), '^another message is next', 'not the next one');
select is(pg_temp.bury('d', 0, '00000000-0000-7000-8000-00000000000a'), 'filed', 'the next one');
select is(pg_temp.bury('d', 0, '00000000-0000-7000-8000-00000000000a'), 'filed', 'a repeat is answered as the first');
select is(pg_temp.cursor('d', '__QUEUE_MODE__'), 'committed 0', 'past it, lease and attempts gone');
select is(pg_temp.bury('d', 0), 'the queue-mode cursor is past this message', 'consumed');
delete from queen.log_segments where partition_id = pg_temp.pid('d') and base_offset = 0;
select is(pg_temp.bury('d', 2), 'filed', 'the next one behind a gap');
select is((select count(*) from queen.log_dlq where partition_id = pg_temp.pid('d')), 2::bigint, 'one row each');

-- Replay
create function pg_temp.move(p_id uuid, p_queue text, p_partition text, p_request uuid default gen_random_uuid(), p_retry boolean default false)
returns text language sql as $$
    select concat_ws(' ', m.result, m.off) from queen.dlq_move_v1(p_id, p_queue, p_partition, pg_temp.hash('dlq:' || p_id), '\x01', p_request, p_retry) as m $$;
create temp table letter as select id from queen.log_dlq where partition_id = pg_temp.pid('q') and "offset" = 4;
select is(pg_temp.move(id, 'q', 'p', '00000000-0000-7000-8000-0000000000aa'), 'moved 5', 'moved to the end') from letter;
select is((select count(*) from queen.log_dlq d join letter using (id)), 0::bigint, 'and the row is gone');
select is(pg_temp.move(id, 'q', 'p'), 'gone', 'a second replay') from letter;
select is(pg_temp.move(id, 'q', 'p', '00000000-0000-7000-8000-0000000000aa', true), 'moved 5', 'a repeat of the first finds what it did') from letter;
select is(pg_temp.move(id, 'q', 'p', p_retry => true), 'gone', 'a repeat of another does not') from letter;
insert into queen.log_dlq (id, partition_id, consumer_group, "offset", error) select id, pg_temp.pid('q'), 'g', 4, 'x' from letter;
select is(pg_temp.move(id, 'q', 'p'), 'duplicate 5', 'in the dedup window') from letter;
select is((select count(*) from queen.log_dlq d join letter using (id)), 1::bigint, 'the row stays');
select is(pg_temp.move(id, 'new', 'x'), 'moved 0', 'a destination is made') from letter;
select is((select count(*) from queen.log_segments where partition_id = pg_temp.pid('q') and base_offset >= 5), 1::bigint, 'one message stored in the partition');

-- Reading dead letters, deletion, purge
insert into queen.log_dlq (partition_id, consumer_group, "offset", transaction_id, error, failed_at)
values (pg_temp.pid('w', 'a'), 'old', 0, 't\\0'::bytea, 'x', now() - interval '1 hour'), (pg_temp.pid('w', 'a'), 'new', 0, 't\\0'::bytea, 'x', now());
select is(pg_temp.rows(format('select consumer_group from queen.dlq_read_v1(null, %L, %L)', pg_temp.pid('w', 'a'), 't\\0'::bytea)), '(new)', 'the newest of an address');
select is((select count(*) from queen.dlq_read_v1(null, pg_temp.pid('w', 'a'), 't')), 0::bigint, 'no such address');
select is(queen.message_delete_v1(pg_temp.pid('w', 'a'), 't'), 0::bigint, 'nothing to delete');
select is(queen.message_delete_v1(pg_temp.pid('w', 'a'), 't\\0'::bytea), 2::bigint, 'every group''s is deleted');
insert into queen.log_dlq (partition_id, consumer_group, "offset", error) select pg_temp.pid('w', p), g, i, 'x' from generate_series(1, 3) i, unnest('{a,b}'::text[]) p, unnest('{g,h}'::text[]) g;
select is(queen.dlq_purge_v1('w', 'g', 4), 4::bigint, 'a step of a purge');
select is(queen.dlq_purge_v1('w', 'g', 4), 2::bigint, 'its last step');
select is(queen.dlq_purge_v1('w', '', 100), 6::bigint, 'every group');
select is(queen.dlq_purge_v1('nobody', '', 100), 0::bigint, 'an unknown queue');
select cmp_ok((select count(*) from queen.log_dlq where partition_id = pg_temp.pid('q')), '>', 0::bigint, 'another queue keeps its own');

-- Traces
create function pg_temp.trace(p_n int, p_names text[], p_partition uuid default pg_temp.pid('q')) returns void language sql as $$
    select queen.trace_add_v1(('00000000-0000-7000-8000-00000000000' || p_n)::uuid, p_partition, ('t' || p_n)::bytea, 'g', 'e', p_n::text, null, p_names) $$;
select pg_temp.trace(1, '{x,y,x}'), pg_temp.trace(1, '{z}'), pg_temp.trace(2, '{x}'), pg_temp.trace(3, '{x}', gen_random_uuid()), pg_temp.trace(4, '{}');
select is(pg_temp.rows(format('select data, names from queen.traces_of_message_v1(%L, ''t1'', 10, 0)', pg_temp.pid('q'))), '(1,"[""x"", ""y""]")',
          'names count once, a repeat stores nothing');
select is(pg_temp.rows(format('select names from queen.traces_of_message_v1(%L, ''t4'', 10, 0)', pg_temp.pid('q'))), '([])', 'no names');
select is(pg_temp.rows($$select total, data, queue from queen.traces_by_name_v1('x', 10, 0)$$), '(2,1,q) (2,2,q)', 'by name, without partitions that are gone');
select is(pg_temp.rows($$select total, data from queen.traces_by_name_v1('x', 10, 5)$$), '(2,)', 'a page past the end knows the total');
select is(pg_temp.rows($$select total, trace_name, trace_count, message_count from queen.trace_names_v1(10, 0)$$), '(2,x,3,3) (2,y,1,1)', 'names, the last used first');
select is(pg_temp.rows($$select total, trace_name from queen.trace_names_v1(1, 1)$$), '(2,y)', 'a page of names');
select is(pg_temp.rows($$select total, trace_name, trace_count from queen.trace_names_v1(1, 9)$$), '(2,,0)', 'a page past the end');

select * from finish();
rollback;
