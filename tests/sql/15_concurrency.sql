-- What several sessions do to each other: lock order, races of creation, exactly-once under concurrency.
-- Sessions are dblink connections. Nothing is decided by a timing: a blocked session is seen in
-- pg_stat_activity, an unlocked row by locking it.
\set ON_ERROR_STOP 1
\getenv url QUEEN_TEST_DATABASE_URL
\set helpers `cat helpers.psql`
set statement_timeout = '60s'; -- a session that waits for ever fails the test
create extension if not exists dblink;
\ir helpers.psql
select no_plan();

create function pg_temp.open(p_name text, p_url text, p_helpers text) returns void language plpgsql as $$
begin
    perform dblink_connect(p_name, p_url);
    perform dblink_exec(p_name, p_helpers);
end $$;
create temp table pids (name text, pid int);
select pg_temp.open(n, :'url', :'helpers') from unnest('{a,b,c}'::text[]) n \g /dev/null
insert into pids select n, pid from unnest('{a,b,c}'::text[]) n, dblink(n, 'select pg_backend_pid()') as t (pid int);

-- One text from a statement, now; or send it, and fetch later.
create function pg_temp.on(p_name text, p_sql text) returns text language sql as $$ select string_agg(x, ' ') from dblink(p_name, p_sql) as t (x text) $$;
create function pg_temp.do(p_name text, p_sql text) returns void language sql as $$ select dblink_exec(p_name, p_sql) $$;
create function pg_temp.send(p_name text, p_sql text) returns void language sql as $$ select dblink_send_query(p_name, p_sql) $$;
create function pg_temp.fetch(p_name text) returns text language plpgsql as $$
declare v_out text;
begin
    select string_agg(x, ' ') into v_out from dblink_get_result(p_name, false) as t (x text);
    if v_out is null then
        v_out := nullif(dblink_error_message(p_name), 'OK');
    end if;
    perform * from dblink_get_result(p_name, false) as t (x text);
    return v_out;
end $$;
-- Waits until the session waits for a lock (true) or is done (false).
create function pg_temp.blocked(p_name text) returns boolean language plpgsql as $$
begin
    loop
        perform pg_stat_clear_snapshot();
        if exists (select 1 from pg_stat_activity join pids using (pid) where name = p_name and wait_event_type = 'Lock') then
            return true;
        elsif dblink_is_busy(p_name) = 0 then
            return false;
        end if;
        perform pg_sleep(0.01);
    end loop;
end $$;
create function pg_temp.free(p_table text, p_where text) returns boolean language plpgsql as $$
declare v_free boolean;
begin
    execute format('select exists (select 1 from queen.%s where %s for update skip locked)', p_table, p_where) into v_free;
    return v_free;
end $$;

-- Push locks partitions in id order, whatever the order of its input
select pg_temp.push('order', x, '{seed}') from unnest('{x,y}'::text[]) x \g /dev/null
create temp table ends as select min(name) filter (where first) as low, min(name) filter (where not first) as high
from (select p.name, row_number() over (order by p.id) = 1 as first from queen.log_partitions p where p.queue_id = (select id from queen.queues where name = 'order')) t;
select low, high from ends \gset
create function pg_temp.both(p_first text, p_second text, p_id text) returns text language sql as $$
    select format($q$select status::text from queen.log_push_multi_v1('{order,order}', '{%s,%s}', '{1,1}', array[pg_temp.hash(%L), pg_temp.hash(%L)], '{-1,-1}', '{x,x}', gen_random_uuid(), false)$q$,
                  p_first, p_second, p_id, p_id) $$;
select pg_temp.do('c', 'begin') \g /dev/null
select pg_temp.on('c', format('select name from queen.log_partitions where id = %L for update', pg_temp.pid('order', :'low'))) \g /dev/null
select pg_temp.send('a', pg_temp.both(:'high', :'low', 'm1')), pg_temp.send('b', pg_temp.both(:'low', :'high', 'm2')) \g /dev/null
select ok(pg_temp.blocked('a') and pg_temp.blocked('b'), 'two pushes wait for the lowest partition');
select ok(pg_temp.free('log_partitions', format('id = %L', pg_temp.pid('order', :'high'))), 'and hold no other meanwhile');
select pg_temp.do('c', 'rollback') \g /dev/null
select is(pg_temp.fetch('a') || ', ' || pg_temp.fetch('b'), '1 1, 1 1', 'both go through');

-- Acks lock cursor rows in (partition, group) order
select pg_temp.pop('order', 'w', 100, 9), pg_temp.pop('order', 'w', 100, 9, 'h') \g /dev/null
create function pg_temp.acks(p_first text, p_second text) returns text language sql as $$
    select format($q$select ok::text from queen.log_ack_multi_v1(array[%L, %L]::uuid[], '{g,g}', '{0,0}', '{w,w}', '{1,1}')$q$, pg_temp.pid('order', p_first), pg_temp.pid('order', p_second)) $$;
select pg_temp.do('c', 'begin') \g /dev/null
select pg_temp.on('c', format('select 1::text from queen.log_consumers where partition_id = %L and consumer_group = ''g'' for update', pg_temp.pid('order', :'low'))) \g /dev/null
select pg_temp.send('a', pg_temp.acks(:'high', :'low')), pg_temp.send('b', pg_temp.acks(:'low', :'high')) \g /dev/null
select ok(pg_temp.blocked('a') and pg_temp.blocked('b'), 'two flushes wait for the lowest cursor');
select ok(pg_temp.free('log_consumers', format('partition_id = %L and consumer_group = ''g''', pg_temp.pid('order', :'high'))), 'and hold no other meanwhile');
select pg_temp.do('c', 'rollback') \g /dev/null
select is(pg_temp.fetch('a') || ', ' || pg_temp.fetch('b'), 'true true, true true', 'one commits, the other is its repeat');

-- A flush judges the row as it is after the wait
select pg_temp.push('stale', 'p', '{a,b}'), pg_temp.pop('stale', 'w1') \g /dev/null
select pg_temp.do('c', 'begin') \g /dev/null
select pg_temp.on('c', $$select pg_temp.ack('stale', 'w1', 'b:completed')$$) \g /dev/null
select pg_temp.send('a', format($$select ok || coalesce(' ' || error, '') from queen.log_ack_multi_v1(array[%L]::uuid[], '{g}', '{0}', '{w1}', '{1}')$$, pg_temp.pid('stale'))) \g /dev/null
select pg_temp.send('b', $$select pg_temp.ack('stale', 'w1', 'b:completed')$$) \g /dev/null
select ok(pg_temp.blocked('a') and pg_temp.blocked('b'), 'acks wait for the cursor');
select pg_temp.do('c', 'commit') \g /dev/null
select is(pg_temp.fetch('a'), 'false invalid or expired lease', 'the lease was released meanwhile');
select is(pg_temp.fetch('b'), 'done released repeat', 'the same ack at the same time is a repeat');

-- Pops pass over locked cursors and never wait
select pg_temp.push('skip', x, array[x]) from unnest('{x,y}'::text[]) x \g /dev/null
select pg_temp.pop('skip', 'w', 1, 1, 'reg', null, 0, true), pg_temp.age('skip', 'x', interval '1 minute') \g /dev/null
select pg_temp.pop('skip', 'w', 1, 1, 'other', null, 0, true) \g /dev/null
select pg_temp.do('c', 'begin') \g /dev/null
select pg_temp.on('c', $$select pg_temp.pop('skip', 'w0', 1, 1, 'new')$$) \g /dev/null
select is(pg_temp.pop('skip', 'w1', 1, 1, 'new'), 'wait 20', 'a first contact that is under way: look again soon');
select pg_temp.do('c', 'rollback') \g /dev/null
select pg_temp.on('c', $$select pg_temp.pop('skip', 'w0', 1, 1, 'g', 'nothing-there')$$) \g /dev/null
select pg_temp.do('c', 'begin') \g /dev/null
select is(pg_temp.on('c', $$select pg_temp.pop('skip', 'w0', 1, 1)$$), 'x:x', 'a claim not committed yet');
select is(pg_temp.pop('skip', 'w1', 1, 1), 'y:y', 'the next partition is taken');
select is(pg_temp.pop('skip', 'w2', 1, 1, 'g', 'x'), 'wait 20', 'locked: look again soon');
select pg_temp.do('c', 'commit') \g /dev/null
select matches(pg_temp.pop('skip', 'w2', 1, 1), '^wait 5\d\d\d\d', 'leased now');

-- Registration and the birth of a partition: neither misses the other
select pg_temp.do('c', 'begin') \g /dev/null
select is(pg_temp.on('c', $$select pg_temp.push('race', 'p1', '{a}')$$), 'queued 0', 'a partition is being born');
select pg_temp.do('c', 'commit') \g /dev/null
select pg_temp.do('c', 'begin') \g /dev/null
select is(pg_temp.on('c', $$select pg_temp.push('race', 'p2', '{b}')$$), 'queued 0', 'a second one, in a queue that exists');
select pg_temp.send('a', $$select pg_temp.pop('race', 'w', 9, 9)$$) \g /dev/null
select ok(pg_temp.blocked('a'), 'a first pop waits for it');
select pg_temp.do('c', 'commit') \g /dev/null
select is(pg_temp.fetch('a'), 'p1:a p2:b', 'and sees it');
select pg_temp.do('c', 'begin') \g /dev/null
select is(pg_temp.on('c', $$select pg_temp.pop('race', 'w', 1, 1, 'late', null, 0, false, 'new')$$), 'nothing', 'a group registers');
select pg_temp.send('a', $$select pg_temp.push('race', 'p3', '{c}')$$), pg_temp.send('b', $$select pg_temp.push('race', 'p1', '{d}')$$) \g /dev/null
select ok(pg_temp.blocked('a'), 'the birth of a partition waits for it');
select is(pg_temp.fetch('b'), 'queued 1', 'a push to an old partition does not');
select pg_temp.do('c', 'commit') \g /dev/null
select is(pg_temp.fetch('a'), 'queued 0', 'born');
select is((select committed from queen.log_consumers where partition_id = pg_temp.pid('race', 'p3') and consumer_group = 'late'), -1::bigint, 'with the cursor row of the group');

-- Two pushes that create the same names
select pg_temp.do('c', 'begin') \g /dev/null
select pg_temp.on('c', $$select pg_temp.push('fresh', 'p', '{a}')$$) \g /dev/null
select pg_temp.send('a', $$select pg_temp.push('fresh', 'p', '{a}')$$) \g /dev/null
select ok(pg_temp.blocked('a'), 'waits for the first');
select pg_temp.do('c', 'commit') \g /dev/null
select is(pg_temp.fetch('a'), 'duplicate 0@0', 'and sees what it stored');

-- A retry that overtakes its first try waits for its outcome
select pg_temp.do('c', 'begin') \g /dev/null
select pg_temp.on('c', $$select pg_temp.push('fresh', 'p', '{b,c}', -1, '00000000-0000-0000-0000-0000000000aa')$$) \g /dev/null
select pg_temp.send('a', $$select pg_temp.push('fresh', 'p', '{b,c}', -1, '00000000-0000-0000-0000-0000000000aa', true)$$) \g /dev/null
select ok(pg_temp.blocked('a'), 'the retry waits');
select pg_temp.do('c', 'commit') \g /dev/null
select is(pg_temp.fetch('a'), 'queued 1', 'and is answered as the first');
select is((select last_offset from queen.log_partitions where id = pg_temp.pid('fresh')), 2::bigint, 'stored once');

-- Deletion against a push: the push does not fall into the void
select pg_temp.do('c', 'begin') \g /dev/null
select pg_temp.on('c', $$select queen.queue_delete_v1('fresh')::text$$) \g /dev/null
select pg_temp.send('a', $$select pg_temp.push('fresh', 'p', '{x}')$$), pg_temp.send('b', $$select pg_temp.push('fresh', 'new', '{x}')$$) \g /dev/null
select ok(pg_temp.blocked('a') and pg_temp.blocked('b'), 'both wait');
select pg_temp.do('c', 'commit') \g /dev/null
select matches(pg_temp.fetch('a'), 'deleted meanwhile', 'the queue went away: to be tried again');
select matches(pg_temp.fetch('b'), 'deleted meanwhile|queued 0', 'also when the partition was new');
select matches(pg_temp.push('fresh', 'p', '{x}'), 'queued 0', 'again');

-- Edits of one queue serialise
select queen.configure_v1('edit', '{}') \g /dev/null
select pg_temp.do('c', 'begin') \g /dev/null
select pg_temp.on('c', $$select queen.configure_v1('edit', '{"options":{"ttl":1}}')::text$$) \g /dev/null
select pg_temp.send('a', $$select (queen.configure_v1('edit', '{"options":{"priority":2}}') -> 'options' -> 'ttl')::text$$) \g /dev/null
select ok(pg_temp.blocked('a'), 'the second edit waits');
select pg_temp.do('c', 'commit') \g /dev/null
select is(pg_temp.fetch('a'), '1', 'and keeps what the first set');

-- Load: three sessions push to the same partitions in changing orders, half of the ids the same.
-- (A loop of small transactions: one statement would be one.)
create function pg_temp.loop(p_session int) returns text language sql as $f$
    select format($q$do $d$ declare v_parts text[]; r record; begin
        for i in 1 .. 150 loop
            select array_agg('p' || k order by md5(%1$s || '/' || i || '/' || k)) into v_parts from generate_series(1, 3) k;
            for r in select p.ordinal, p.status from queen.log_push_multi_v1('{load,load,load}', v_parts, '{2,2,2}',
                array(select pg_temp.hash('s' || i) || pg_temp.hash('%1$s/' || i) from generate_series(1, 3)), '{-1,-1,-1}', '{x,x,x}', gen_random_uuid(), false) as p
                where p.status = 2 loop
                perform queen.log_push_multi_v1('{load}', array[v_parts[r.ordinal]], '{1}', array[pg_temp.hash('%1$s/' || i)], '{-1}', '{x}', gen_random_uuid(), false);
            end loop;
            commit;
        end loop;
    end $d$$q$, p_session) $f$;
select dblink_send_query('a', pg_temp.loop(1)), dblink_send_query('b', pg_temp.loop(2)), dblink_send_query('c', pg_temp.loop(3)) \g /dev/null
select is(r.status, 'DO', 'session ' || n || ' without deadlock') from unnest('{a,b,c}'::text[]) n, lateral dblink_get_result(n) as r (status text);
select count(*) from unnest('{a,b,c}'::text[]) n, lateral dblink_get_result(n) as r (status text) \g /dev/null
select is(pg_temp.rows($$select p.name, p.last_offset from queen.log_partitions p where p.queue_id = (select id from queen.queues where name = 'load') order by 1$$),
          '(p1,599) (p2,599) (p3,599)', 'each partition has each id once: 150 shared and 3 x 150 own');
select is((select count(*) from (select s.*, lag(s.end_offset, 1, -1::bigint) over w as before, lag(s.created_at) over w as earlier from queen.log_segments s
           join queen.log_partitions p on p.id = s.partition_id where p.queue_id = (select id from queen.queues where name = 'load')
           window w as (partition by s.partition_id order by s.base_offset)) t
           where t.base_offset <> t.before + 1 or t.created_at < t.earlier), 0::bigint, 'offsets are gapless, created_at never goes back');

-- Three consumers drain the queue: every message goes to one of them
create temp table sessions as select n, i from unnest('{a,b,c}'::text[]) with ordinality as t (n, i);
select dblink_exec(n, 'create temp table got (partition_id uuid, first bigint, last bigint)') from sessions \g /dev/null
create function pg_temp.drain(p_session int) returns text language sql as $f$
    select format($q$do $d$ declare v_empty int := 0; r record; v_got boolean; begin
        while v_empty < 3 loop
            v_got := false;
            for r in select * from queen.log_pop_multi_v1('{load,load}', '{null,null}', '{drain,drain}', '{3,7}', '{1,2}', '{60,60}', array['%1$s', '%1$s'], '{f,t}', '{all,all}', '{"",""}') where partition_id is not null loop
                insert into got values (r.partition_id, r.base_offset + r.start_idx, r.base_offset + r.start_idx + r.take - 1);
                v_got := true;
                if r.claim = 1 then
                    perform queen.log_ack_at_v1(r.partition_id, 'drain', '%1$s', r.batch_end, true, 1);
                end if;
            end loop;
            commit;
            v_empty := case when v_got then 0 else v_empty + 1 end;
        end loop;
    end $d$$q$, p_session) $f$;
select dblink_send_query(n, pg_temp.drain(i::int)) from sessions \g /dev/null
select is(r.status, 'DO', 'consumer ' || n || ' without deadlock') from sessions, lateral dblink_get_result(n) as r (status text);
select count(*) from sessions, lateral dblink_get_result(n) as r (status text) \g /dev/null
create temp table got as select n, t.* from sessions, dblink(n, 'select * from got') as t (partition_id uuid, first bigint, last bigint);
select is((select count(*) || ' ' || count(distinct (partition_id, o)) from got, generate_series(first, last) o), '1800 1800', 'each message once');
select is((select string_agg(distinct c.committed::text, ' ') from queen.log_consumers c where c.consumer_group = 'drain'), '599', 'all consumed');

select dblink_disconnect(n) from sessions \g /dev/null
select queen.queue_delete_v1(name) from queen.queues \g /dev/null
select * from finish();
