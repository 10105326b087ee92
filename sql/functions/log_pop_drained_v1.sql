-- log_pop_drained_v1: remembers that a group has nothing pending on some queues.
--
-- Parameters: p_queue_ids, p_moved  the queues, and `moved` of their subscriptions as it was before the
--             caller looked for pending partitions; p_group
-- Algorithm:  drained_before becomes two seconds before the start of the oldest transaction under way: a
--             push that the caller could not see yet stamps its partition with a clock that is later than
--             its own start, quantised to one second. Written once a minute at most, and only when nothing
--             has moved cursors back since.
-- Tables:     consumer_groups_metadata (update), pg_stat_activity (read)
-- Locks:      consumer_groups_metadata FOR UPDATE SKIP LOCKED: never waits
create or replace function queen.log_pop_drained_v1(p_queue_ids uuid[], p_moved bigint[], p_group text)
returns void
language plpgsql
as $$
declare
    v_due uuid[];
begin
    select array_agg(m.queue_id) into v_due
    from unnest(p_queue_ids, p_moved) as u (queue_id, moved)
    join queen.consumer_groups_metadata m
        on m.queue_id = u.queue_id and m.consumer_group = p_group and m.moved = u.moved
    where m.drained_before < clock_timestamp() - interval '1 minute';
    if v_due is null then
        return;
    end if;
    update queen.consumer_groups_metadata m
    set drained_before = greatest(m.drained_before, t.since - interval '2 seconds')
    from (select x.queue_id, (select coalesce(min(a.xact_start), transaction_timestamp())
                              from pg_stat_activity a
                              where a.datname = current_database()) as since
          from unnest(p_queue_ids, p_moved) as u (queue_id, moved)
          join queen.consumer_groups_metadata x
              on x.queue_id = u.queue_id and x.consumer_group = p_group and x.moved = u.moved
          where x.queue_id = any (v_due)
          for update of x skip locked) as t
    where m.queue_id = t.queue_id and m.consumer_group = p_group;
end
$$;
