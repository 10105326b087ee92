-- log_ack_v1: one positional ack, addressed by names.
--
-- Parameters, Returns, Locks: as log_ack_at_v1; unknown names are 'partition not found'
-- Tables:     queues, log_partitions (read), log_consumers (update)
create or replace function queen.log_ack_v1(p_queue text, p_partition text, p_group text, p_worker text,
                                            p_upto bigint, p_ok boolean, p_count int)
returns jsonb
language sql
as $$
    select coalesce(
        (select queen.log_ack_at_v1(p.id, p_group, p_worker, p_upto, p_ok, p_count)
         from queen.queues q
         join queen.log_partitions p on p.queue_id = q.id and p.name = p_partition
         where q.name = p_queue),
        jsonb_build_object('ok', false, 'error', 'partition not found'));
$$;
