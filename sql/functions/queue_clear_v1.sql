-- queue_clear_v1: drops what is stored in a queue; its configuration, groups and dead letters stay.
--
-- Parameters: p_queue
--             p_partition  '' = every partition
-- Returns:    number of messages dropped; NULL = no such queue or partition
-- Algorithm:  every segment goes, log_start moves behind the end, every cursor to the end; leases are taken
--             away. The hash rows stay until their time: a push that is repeated is still a duplicate.
-- Tables:     queues (read), log_partitions, log_consumers (update), log_segments (delete)
-- Locks, in order: the queues row KEY SHARE, log_partitions FOR NO KEY UPDATE ascending by id, log_consumers
--             FOR UPDATE ascending by (partition_id, consumer_group)
create or replace function queen.queue_clear_v1(p_queue text, p_partition text)
returns bigint
language plpgsql
as $$
declare
    v_queue uuid;
    v_ids uuid[];
    v_cleared bigint;
begin
    select q.id into v_queue from queen.queues q where q.name = p_queue for key share;
    if not found then
        return null;
    end if;
    select array_agg(t.id), sum(greatest(t.last_offset - t.log_start + 1, 0)) into v_ids, v_cleared
    from (select p.id, p.last_offset, p.log_start
          from queen.log_partitions p
          where p.queue_id = v_queue and (p_partition = '' or p.name = p_partition)
          order by p.id for no key update) as t;
    if v_ids is null then
        return case when p_partition = '' then 0 end;
    end if;
    perform 1 from queen.log_consumers c where c.partition_id = any (v_ids)
    order by c.partition_id, c.consumer_group for update;
    update queen.log_consumers c
    set committed = p.last_offset, batch_end = null, worker_id = null, lease_expires_at = null,
        lease_acquired_at = null, batch_retry_count = 0, attempt_offset = null, attempt_count = 0,
        handoff_from = null, released_at = clock_timestamp()
    from queen.log_partitions p
    where p.id = c.partition_id and c.partition_id = any (v_ids);
    delete from queen.log_segments s where s.partition_id = any (v_ids);
    update queen.log_partitions p set log_start = p.last_offset + 1, oldest_live_at = null
    where p.id = any (v_ids);
    return v_cleared;
end
$$;
