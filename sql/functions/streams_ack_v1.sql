-- streams_ack_v1: the ack of a cycle, in its transaction.
--
-- Parameters: p_partition_id, p_group  the cursor
--             p_lease    lease id; must be the live one
--             p_ok       false: the lease is released, the cursor stays
--             p_count    messages; NULL = the whole batch
--             p_release  true: the whole batch is committed; false: p_count messages are (of a conflated
--                        lease: all that its message stands for), the lease stays
-- Returns:    error (NULL = done), count (messages committed), released
-- Tables:     log_consumers (update), log_segments (read)
-- Locks:      the log_consumers row FOR UPDATE
create or replace function queen.streams_ack_v1(p_partition_id uuid, p_group text, p_lease text, p_ok boolean,
                                                p_count int, p_release boolean,
                                                out error text, out count int, out released boolean)
language plpgsql
as $$
declare
    v_row queen.log_consumers;
    v_done jsonb;
    v_to record;
begin
    count := 0;
    released := false;
    select * into v_row from queen.log_consumers c
    where c.partition_id = p_partition_id and c.consumer_group = p_group for update;
    if not found or coalesce(p_lease, '') = '' or v_row.worker_id is distinct from p_lease
       or v_row.lease_expires_at is null or v_row.lease_expires_at < clock_timestamp() then
        error := 'invalid or expired lease';
        return;
    end if;
    if v_row.batch_end is null then
        error := 'no leased batch';
        return;
    end if;

    if p_ok and not p_release then
        select * into v_to
        from queen.streams_frames_upto_v1(p_partition_id, v_row.committed, v_row.batch_end,
                                          coalesce(p_count, 2147483647));
        if v_row.lease_conflated and v_to.frames > 0 then
            v_to.upto := v_row.batch_end;    -- its one message stands for the batch
            v_to.frames := 1;
        end if;
        count := v_to.frames;
        update queen.log_consumers c
        set committed = v_to.upto, total_consumed = c.total_consumed + v_to.upto - c.committed
        where c.partition_id = p_partition_id and c.consumer_group = p_group and v_to.upto > c.committed;
        return;
    end if;

    if p_ok then
        count := coalesce(p_count, least(v_row.batch_end - v_row.committed, 2147483647)::int);
    end if;
    v_done := queen.log_ack_at_v1(p_partition_id, p_group, p_lease, v_row.batch_end, p_ok, count);
    error := v_done ->> 'error';
    released := error is null;
end
$$;
