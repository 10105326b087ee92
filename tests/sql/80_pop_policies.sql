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

select * from finish();
rollback;
