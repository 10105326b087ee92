-- log_ack_at_v1: one positional ack, addressed by partition id.
--
-- Parameters: p_upto   offset to commit, inclusive; p_ok: false releases the lease and commits nothing
--             p_worker lease id, '' = lease-less; p_count: messages, for total_consumed
-- Returns:    {"ok":true,"acked":n} or {"ok":false,"error":text}
-- Algorithm:  log_ack_multi_v1 with one element; a release validates the same way.
-- Tables:     log_consumers (update)
-- Locks:      the log_consumers row FOR UPDATE
create or replace function queen.log_ack_at_v1(p_partition_id uuid, p_group text, p_worker text,
                                               p_upto bigint, p_ok boolean, p_count int)
returns jsonb
language plpgsql
as $$
declare
    v_row queen.log_consumers;
    v_verdict record;
begin
    if p_ok then
        select m.ok, m.error into v_verdict
        from queen.log_ack_multi_v1(array[p_partition_id], array[p_group], array[p_upto],
                                    array[p_worker], array[p_count]) as m;
        if v_verdict.ok then
            return jsonb_build_object('ok', true, 'acked', p_count);
        end if;
        return jsonb_build_object('ok', false, 'error', v_verdict.error);
    end if;

    select * into v_row from queen.log_consumers c
    where c.partition_id = p_partition_id and c.consumer_group = p_group for update;
    if not found then
        return jsonb_build_object('ok', false, 'error', 'consumer not found');
    end if;
    if coalesce(p_worker, '') <> '' and (v_row.worker_id is distinct from p_worker
            or v_row.lease_expires_at is null or v_row.lease_expires_at < clock_timestamp()) then
        return jsonb_build_object('ok', false, 'error', 'invalid or expired lease');
    end if;
    update queen.log_consumers c
    set batch_end = null, worker_id = null, lease_expires_at = null, lease_acquired_at = null,
        released_at = clock_timestamp()
    where c.partition_id = p_partition_id and c.consumer_group = p_group;
    return jsonb_build_object('ok', true, 'acked', 0);
end
$$;
