-- message_dead_letter_v1: dead-letters a message by request, if it is the next one of queue mode.
--
-- Parameters: p_id  of the dead letter to be; a repeat of the call finds it and is answered as the first
--             p_partition_id, p_off  the message's place
--             p_message_id, p_txn, p_payload, p_created_at  its snapshot
--             p_error  the reason
-- Returns:    NULL when it was filed, else why not
-- Algorithm:  the next message is the first stored one behind the queue-mode cursor; a live lease may
--             hold it, then it is its consumer's. The cursor moves past the one message, an expired
--             lease and the retry state go.
-- Tables:     log_consumers (update), log_dlq (insert), log_segments (read)
-- Locks:      the queue-mode log_consumers row FOR UPDATE
create or replace function queen.message_dead_letter_v1(p_id uuid, p_partition_id uuid, p_off bigint, p_message_id uuid,
                                                        p_txn bytea, p_payload bytea, p_created_at timestamptz,
                                                        p_error text)
returns text
language plpgsql
as $$
declare
    v_row queen.log_consumers;
    v_next bigint;
begin
    select * into v_row from queen.log_consumers c
    where c.partition_id = p_partition_id and c.consumer_group = '__QUEUE_MODE__' for update;
    if not found then
        return 'the queue has no queue-mode consumer yet';
    end if;
    if exists (select 1 from queen.log_dlq d where d.id = p_id) then
        return null;
    end if;
    if p_off <= v_row.committed then
        return 'the queue-mode cursor is past this message';
    end if;
    if v_row.batch_end is not null and v_row.lease_expires_at >= clock_timestamp() then
        return 'the next messages are leased to a consumer';
    end if;
    select greatest(s.base_offset, v_row.committed + 1) into v_next
    from queen.log_segments s
    where s.partition_id = p_partition_id
      and s.base_offset >= coalesce((select l.base_offset from queen.log_segments l
                                     where l.partition_id = p_partition_id and l.base_offset <= v_row.committed + 1
                                     order by l.base_offset desc limit 1), 0)
      and s.end_offset > v_row.committed
    order by s.base_offset
    limit 1;
    if v_next is distinct from p_off then
        return 'another message is next: one can be dead-lettered only at the queue-mode cursor';
    end if;
    insert into queen.log_dlq (id, partition_id, consumer_group, "offset", message_id, transaction_id, payload,
                               error, retry_count, created_at, failed_at)
    values (p_id, p_partition_id, '__QUEUE_MODE__', p_off, p_message_id, p_txn, p_payload, p_error,
            v_row.batch_retry_count, p_created_at, clock_timestamp());
    update queen.log_consumers c
    set committed = p_off, total_consumed = c.total_consumed + 1,
        batch_end = null, worker_id = null, lease_expires_at = null, lease_acquired_at = null,
        batch_retry_count = 0, attempt_offset = null, attempt_count = 0, handoff_from = null
    where c.partition_id = p_partition_id and c.consumer_group = '__QUEUE_MODE__';
    return null;
end
$$;
