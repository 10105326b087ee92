-- dlq_purge_v1: deletes dead letters of a queue, as many as one transaction should.
--
-- Parameters: p_queue
--             p_group  '' = every group
--             p_limit  most rows; call again as long as that many were deleted
-- Returns:    how many were deleted; rows that somebody else is deleting are passed over
-- Tables:     log_dlq (delete), log_partitions, queues (read)
-- Locks:      the rows, never waiting
create or replace function queen.dlq_purge_v1(p_queue text, p_group text, p_limit int)
returns bigint
language sql
as $$
    with letters as materialized (
        select d.id from queen.log_dlq d
        join queen.log_partitions p on p.id = d.partition_id
        join queen.queues q on q.id = p.queue_id
        where q.name = p_queue and (p_group = '' or d.consumer_group = p_group)
        limit p_limit
        for update of d skip locked
    ), gone as (
        delete from queen.log_dlq d using letters l where d.id = l.id returning 1
    )
    select count(*) from gone;
$$;
