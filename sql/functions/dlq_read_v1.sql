-- dlq_read_v1: one dead letter, for its replay.
--
-- Parameters: p_id  its id; NULL: the newest of the address is meant
--             p_partition_id, p_txn  the address
-- Returns:    one row, or none
-- Tables:     log_dlq, log_partitions, queues (read)
-- Locks:      none
create or replace function queen.dlq_read_v1(p_id uuid, p_partition_id uuid, p_txn bytea)
returns table (id uuid, queue text, partition text, consumer_group text, transaction_id bytea, payload bytea)
language sql stable
as $$
    select d.id, q.name, p.name, d.consumer_group, d.transaction_id, d.payload
    from (
        (select e.* from queen.log_dlq e where e.id = p_id)
        union all
        (select e.* from queen.log_dlq e
         where p_id is null and e.partition_id = p_partition_id and md5(e.transaction_id) = md5(p_txn)
           and e.transaction_id = p_txn
         order by e.failed_at desc, e.id limit 1)
    ) as d
    join queen.log_partitions p on p.id = d.partition_id
    join queen.queues q on q.id = p.queue_id;
$$;
