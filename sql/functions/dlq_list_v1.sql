-- dlq_list_v1: dead letters, newest first.
--
-- Parameters: p_queue, p_group, p_partition  '' or NULL = all; p_from, p_to of failed_at, NULL = open
--             p_limit, p_offset
-- Returns:    one row per dead letter
-- Tables:     log_dlq, log_partitions, queues (read)
-- Locks:      none
create or replace function queen.dlq_list_v1(p_queue text, p_group text, p_partition text,
                                             p_from timestamptz, p_to timestamptz, p_limit int, p_offset int)
returns table (id uuid, transaction_id bytea, partition_id uuid, queue text, partition text,
               consumer_group text, error text, retry_count int, payload bytea, message_id uuid,
               created_at timestamptz, failed_at timestamptz)
language sql volatile -- so that it is not inlined: a malformed time is refused whatever rows there are
as $$
    select d.id, d.transaction_id, d.partition_id, q.name, p.name, d.consumer_group, d.error, d.retry_count,
           d.payload, d.message_id, d.created_at, d.failed_at
    from queen.log_dlq d
    join queen.log_partitions p on p.id = d.partition_id
    join queen.queues q on q.id = p.queue_id
    where (coalesce(p_queue, '') = '' or q.name = p_queue)
      and (coalesce(p_group, '') = '' or d.consumer_group = p_group)
      and (coalesce(p_partition, '') = '' or p.name = p_partition)
      and (p_from is null or d.failed_at >= p_from) and (p_to is null or d.failed_at <= p_to)
    order by d.failed_at desc, d.id
    limit greatest(p_limit, 0) offset greatest(p_offset, 0);
$$;
