-- log_pop_drained_v1: remembers that a group has nothing pending on some queues.
--
-- Parameters: p_queue_ids, p_moved  the queues, and `moved` of their subscriptions; p_since  start of the
--             oldest transaction under way (log_pop_horizon_v1); both as they were before the caller looked
--             for pending partitions; p_group
-- Algorithm:  drained_before becomes 30 seconds before p_since. A push that the caller could not see yet
--             began after p_since and stamps its partition with a later clock, quantised to one second; the
--             rest allows for the clock of a server that takes over. Written once a minute at most, and
--             only when nothing has moved cursors back since.
-- Tables:     consumer_groups_metadata (update)
-- Locks:      consumer_groups_metadata FOR UPDATE SKIP LOCKED: never waits
create or replace function queen.log_pop_drained_v1(p_queue_ids uuid[], p_moved bigint[], p_since timestamptz,
                                                    p_group text)
returns void
language sql
as $$
    update queen.consumer_groups_metadata m
    set drained_before = p_since - interval '30 seconds'
    from (select x.queue_id
          from unnest(p_queue_ids, p_moved) as u (queue_id, moved)
          join queen.consumer_groups_metadata x
              on x.queue_id = u.queue_id and x.consumer_group = p_group and x.moved = u.moved
          where x.drained_before < p_since - interval '90 seconds'
          for update of x skip locked) as t
    where m.queue_id = t.queue_id and m.consumer_group = p_group;
$$;
