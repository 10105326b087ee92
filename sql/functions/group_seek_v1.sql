-- group_seek_v1: moves a group's cursors on a queue.
--
-- Parameters: p_group, p_queue
--             p_partition  NULL = every partition
--             p_to_end     to last_offset; else just before the first segment at or after ..
--             p_timestamp  .. this time: text as the client sent it; what does not parse is refused with
--                          SQLSTATE 22007
-- Returns:    number of cursors; 0 = no such queue or partition
-- Algorithm:  cursors that do not exist are made; no subscription is recorded. The lease is taken away and
--             retry and attempt state are reset: whoever held it learns so at its next ack. What was
--             released before stays known, so that a repeated ack is still answered as the first time.
--             The watermarks are read under the cursors' locks.
-- Tables:     queues, log_partitions, log_segments (read), log_consumers (insert, update)
-- Locks, in order: the queues row KEY SHARE; log_partitions KEY SHARE of those without a cursor,
--             ascending by id; log_consumers FOR UPDATE ascending by (partition_id, consumer_group).
create or replace function queen.group_seek_v1(p_group text, p_queue text, p_partition text,
                                               p_to_end boolean, p_timestamp text)
returns bigint
language plpgsql
as $$
declare
    v_moment constant timestamptz := case when not p_to_end then queen.time_parameter_v1('timestamp', p_timestamp) end;
    v_queue uuid;
    v_missing uuid[];
    v_ids uuid[];
    v_rows bigint;
begin
    select q.id into v_queue from queen.queues q where q.name = p_queue for key share;
    select array_agg(p.id) into v_ids
    from queen.log_partitions p
    where p.queue_id = v_queue and (p_partition is null or p.name = p_partition);
    if v_ids is null then
        return 0;
    end if;

    select array_agg(t.id) into v_missing
    from (select p.id
          from queen.log_partitions p
          where p.id = any (v_ids)
            and not exists (select 1 from queen.log_consumers c
                            where c.partition_id = p.id and c.consumer_group = p_group)
          order by p.id for key share) as t;
    insert into queen.log_consumers (partition_id, consumer_group)
    select m, p_group from unnest(v_missing) as m order by m
    on conflict do nothing;

    perform 1 from queen.log_consumers c
    where c.partition_id = any (v_ids) and c.consumer_group = p_group
    order by c.partition_id for update;
    update queen.log_consumers c
    set committed = case when p_to_end or p.last_created_at < v_moment then p.last_offset
                         when p.oldest_live_at >= v_moment then p.log_start - 1
                         else queen.log_offset_at_v1(p.id, v_moment) end,
        batch_end = null, worker_id = null, lease_expires_at = null, lease_acquired_at = null,
        batch_retry_count = 0, attempt_offset = null, attempt_count = 0, handoff_from = null,
        released_at = clock_timestamp()
    from queen.log_partitions p
    where p.id = c.partition_id and c.partition_id = any (v_ids) and c.consumer_group = p_group;
    get diagnostics v_rows = row_count;
    perform queen.group_moved_v1(array[v_queue], p_group);
    return v_rows;
end
$$;
