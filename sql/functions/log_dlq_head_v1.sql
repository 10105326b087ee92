-- log_dlq_head_v1: files the dead letter that log_ack_by_hash_v1 handed over.
--
-- Parameters: p_worker   the lease id; '' = lease-less: a batch must still be recorded on the row
--             p_off      the poison's offset
--             p_message_id, p_txn, p_payload  its snapshot; NULL when the frame cannot be read any more
--             p_error    the reason
-- Returns:    {"ok":true,"id"} or {"ok":false,"error"[,"filed"]}; filed: this very dead letter is what
--             released the row last, so a repeat after a lost answer knows that the first call did it
-- Algorithm:  files the row with the retry budget consumed, moves the cursor past the one frame (never
--             backwards), resets retry and attempt state, releases the lease. A second call finds no
--             lease and does nothing.
-- Tables:     log_consumers (update), log_dlq (insert), log_segments (read)
-- Locks:      the log_consumers row FOR UPDATE
create or replace function queen.log_dlq_head_v1(p_partition_id uuid, p_group text, p_worker text,
                                                 p_off bigint, p_message_id uuid, p_txn bytea,
                                                 p_payload bytea, p_error text)
returns jsonb
language plpgsql
as $$
declare
    v_row queen.log_consumers;
    v_id uuid;
begin
    select * into v_row from queen.log_consumers c
    where c.partition_id = p_partition_id and c.consumer_group = p_group for update;
    if not found then
        return jsonb_build_object('ok', false, 'error', 'consumer not found');
    end if;
    if v_row.batch_end is null or p_off > v_row.batch_end or p_off <= v_row.committed
       or (p_worker <> '' and (v_row.worker_id is distinct from p_worker
                               or v_row.lease_expires_at < clock_timestamp())) then
        return jsonb_build_object('ok', false, 'error', 'invalid or expired lease',
                                  'filed', coalesce(v_row.released_signal = 'dlq' and v_row.released_offset = p_off
                                                    and coalesce(v_row.released_worker, '') = p_worker, false));
    end if;
    insert into queen.log_dlq (partition_id, consumer_group, "offset", message_id, transaction_id, payload,
                               error, retry_count, created_at, failed_at)
    select p_partition_id, p_group, p_off, p_message_id, p_txn, p_payload, p_error, v_row.batch_retry_count,
           (select s.created_at from queen.log_segments_at_v1(array[p_partition_id], array[p_off]) as s),
           clock_timestamp()
    returning id into v_id;
    update queen.log_consumers c
    set committed = greatest(c.committed, p_off), total_consumed = c.total_consumed + 1,
        batch_end = null, worker_id = null, lease_expires_at = null, lease_acquired_at = null,
        batch_retry_count = 0, attempt_offset = null, attempt_count = 0,
        released_worker = nullif(p_worker, ''), released_from = coalesce(c.handoff_from, v_row.committed + 1),
        released_end = v_row.batch_end, released_signal = 'dlq', released_offset = p_off,
        released_upto = greatest(c.committed, p_off), released_at = clock_timestamp(), handoff_from = null
    where c.partition_id = p_partition_id and c.consumer_group = p_group;
    return jsonb_build_object('ok', true, 'id', v_id);
end
$$;
