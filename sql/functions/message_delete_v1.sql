-- message_delete_v1: deletes the dead letters of a message, of every group.
--
-- Parameters: p_partition_id, p_txn  its address
-- Returns:    how many there were
-- Tables:     log_dlq (delete)
-- Locks:      the rows, ascending by id
create or replace function queen.message_delete_v1(p_partition_id uuid, p_txn bytea)
returns bigint
language sql
as $$
    with letters as materialized (
        select d.id from queen.log_dlq d
        where d.partition_id = p_partition_id and md5(d.transaction_id) = md5(p_txn) and d.transaction_id = p_txn
        order by d.id for update
    ), gone as (
        delete from queen.log_dlq d using letters l where d.id = l.id returning 1
    )
    select count(*) from gone;
$$;
