-- dlq_move_v1: replays a dead letter: its message goes to the end of a partition, the row goes away.
--
-- Parameters: p_id                  the row
--             p_queue, p_partition  where to; created when missing
--             p_hash, p_blob        of the message under its new transaction id, dlq:<row id>
--             p_request_id, p_retry  of this call; p_retry: an earlier try may have committed
-- Returns:    result: moved; duplicate (the id is in the dedup window: nothing written, row kept);
--             gone (no such row: nothing written). off: of the message, or of the one that is there
-- Algorithm:  push, then delete the row; when the row turns out to be gone, the push is undone. The row
--             is locked last, as whoever deletes a queue locks its partitions before its dead letters.
--             A repeated call finds its message under its request id.
-- Tables:     log_dlq (delete), log_txns (read); those of log_push_multi_v1
-- Locks, in order: those of log_push_multi_v1, the log_dlq row
create or replace function queen.dlq_move_v1(p_id uuid, p_queue text, p_partition text, p_hash bytea, p_blob bytea,
                                             p_request_id uuid, p_retry boolean)
returns table (result text, off bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_push record;
    v_gone boolean := not exists (select 1 from queen.log_dlq d where d.id = p_id);
begin
    if not v_gone then
        begin
            select * into v_push
            from queen.log_push_multi_v1(array[p_queue], array[p_partition], array[1], array[p_hash],
                                         array[-1::bigint], array[p_blob], p_request_id, false);
            if v_push.status = 2 then
                -- Another replay of the row may just have stored it.
                v_gone := not exists (select 1 from queen.log_dlq d where d.id = p_id);
                if not v_gone then
                    return query select 'duplicate', v_push.dup_offset[1];
                    return;
                end if;
            else
                delete from queen.log_dlq d where d.id = p_id;
                if found then
                    return query select 'moved', v_push.base_offset;
                    return;
                end if;
                raise exception 'gone' using errcode = 'QD404';
            end if;
        exception when sqlstate 'QD404' then
            v_gone := true;
        end;
    end if;
    if p_retry then
        return query
        select 'moved', f.found
        from queen.queues q
        join queen.log_partitions p on p.queue_id = q.id and p.name = p_partition
        cross join lateral queen.log_txn_find_v1(p.id, array[p_hash], p.txns_start, null, null) as f
        join queen.log_txns t on t.partition_id = p.id and t.base_offset = f.found
        where q.name = p_queue and t.request_id = p_request_id;
        if found then
            return;
        end if;
    end if;
    return query select 'gone', null::bigint;
end
$$;
