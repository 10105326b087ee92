-- queue_delete_v1: deletes a queue with everything it holds.
--
-- Parameters: p_queue  name
-- Returns:    whether it existed; timers go also when it did not, lest they create it again
-- Tables:     queues, log_partitions, log_consumers, log_segments, log_txns, log_dlq,
--             consumer_groups_metadata, log_timers, queen.stream_cycles and state (delete)
-- Locks, in order: its log_timers ascending by timer_key, the queues row FOR UPDATE (no partition is
--             created meanwhile), its log_partitions FOR UPDATE ascending by id, its log_consumers FOR
--             UPDATE ascending by (partition_id, consumer_group), rows of stream_state and stream_cycles.
create or replace function queen.queue_delete_v1(p_queue text)
returns boolean
language plpgsql
as $$
declare
    v_id uuid;
    v_partitions uuid[];
begin
    perform 1 from queen.log_timers t where t.queue = p_queue order by t.timer_key for update;
    delete from queen.log_timers t where t.queue = p_queue;
    select q.id into v_id from queen.queues q where q.name = p_queue for update;
    if not found then
        return false;
    end if;
    select array_agg(t.id) into v_partitions
    from (select p.id from queen.log_partitions p where p.queue_id = v_id order by p.id for update) as t;
    perform 1 from queen.log_consumers c where c.partition_id = any (v_partitions)
    order by c.partition_id, c.consumer_group for update;
    delete from queen.log_segments s where s.partition_id = any (v_partitions);
    delete from queen.log_txns t where t.partition_id = any (v_partitions);
    delete from queen.log_dlq d where d.partition_id = any (v_partitions);
    delete from queen.stream_state s using queen.stream_cycles c
    where c.partition_id = any (v_partitions) and s.query_id = c.query_id and s.partition_id = c.partition_id;
    delete from queen.stream_cycles c where c.partition_id = any (v_partitions);
    delete from queen.queues q where q.id = v_id;
    return true;
end
$$;
