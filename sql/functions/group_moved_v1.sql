-- group_moved_v1: a group's cursors on some queues were moved back or deleted: pops look at everything again.
--
-- Parameters: p_queue_ids, p_group
-- Tables:     consumer_groups_metadata (update)
-- Locks:      the consumer_groups_metadata rows, ascending by queue; after log_consumers
create or replace function queen.group_moved_v1(p_queue_ids uuid[], p_group text)
returns void
language sql
as $$
    update queen.consumer_groups_metadata m
    set drained_before = '-infinity', moved = m.moved + 1
    from (select x.queue_id from queen.consumer_groups_metadata x
          where x.queue_id = any (p_queue_ids) and x.consumer_group = p_group
          order by x.queue_id
          for update) as t
    where m.queue_id = t.queue_id and m.consumer_group = p_group;
$$;
