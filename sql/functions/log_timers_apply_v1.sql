-- log_timers_apply_v1: schedules and cancels timers in the caller's transaction.
--
-- Parameters: p_ops         schedule, reschedule (both one upsert on (queue, timer key)) or cancel
--             p_queues, p_keys, p_partitions  names, checked by the caller
--             p_delays_us   microseconds from now to the delivery; not positive = at once
--             p_txns, p_message_ids, p_hashes, p_blobs  the message: transaction id, id, hash, segment of
--                           one frame. All of these are NULL for a cancel.
--             p_now         NULL = the transaction's start
-- Returns:    per operation its ordinal (1-based), status (scheduled, rescheduled, cancelled, absent,
--             too_late), deliver_at and the transaction id of the timer
-- Raises:     22023 on misaligned arrays, an unknown operation, a timer named twice; QS001
--             timers_disabled when the switch for scheduling is off (cancels alone still work)
-- Algorithm:  in (queue, timer key) byte order. A timer that a cancel sees but cannot get, since a fire
--             or another call had it first, is too_late; one that is not there is absent.
-- Tables:     log_timers (read, insert, update, delete), system_state (read)
-- Locks, in order: log_timers rows ascending by (queue, timer_key). Only kv rows may be held before.
create or replace function queen.log_timers_apply_v1(p_ops text[], p_queues text[], p_keys text[],
                                                     p_partitions text[], p_delays_us bigint[],
                                                     p_txns bytea[], p_message_ids uuid[],
                                                     p_hashes bytea[], p_blobs bytea[], p_now timestamptz)
returns table (ordinal int, status text, deliver_at timestamptz, txn bytea)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_now timestamptz := coalesce(p_now, now());
    v_count int := cardinality(p_ops);
    v_op record;
    v_seen boolean;
begin
    if (cardinality(p_queues), cardinality(p_keys), cardinality(p_partitions), cardinality(p_delays_us),
        cardinality(p_txns), cardinality(p_message_ids), cardinality(p_hashes), cardinality(p_blobs))
       <> (v_count, v_count, v_count, v_count, v_count, v_count, v_count, v_count) then
        raise exception 'QTIMER misaligned arrays' using errcode = '22023';
    end if;
    if exists (select 1 from unnest(p_queues, p_keys) as u (queue, key) group by u.queue, u.key having count(*) > 1) then
        raise exception 'QTIMER a (queue, timerKey) appears more than once in one call' using errcode = '22023';
    end if;
    if p_ops && array['schedule', 'reschedule'] and not queen.switch_is_on_v1('timers_schedule_enabled') then
        raise exception 'timers_disabled: scheduling of timers is switched off' using errcode = 'QS001';
    end if;

    for v_op in
        select u.ord::int as ord, u.op, u.queue, u.key
        from unnest(p_ops, p_queues, p_keys) with ordinality as u (op, queue, key, ord)
        order by u.queue collate "C", u.key collate "C"
    loop
        ordinal := v_op.ord;
        deliver_at := null;
        txn := null;
        if v_op.op in ('schedule', 'reschedule') then
            deliver_at := v_now + greatest(p_delays_us[v_op.ord], 0) * interval '1 microsecond';
            txn := p_txns[v_op.ord];
            insert into queen.log_timers as t (queue, timer_key, partition, deliver_at, visible_at, txn, message_id,
                                               hash, blob, created_at, updated_at)
            values (v_op.queue, v_op.key, p_partitions[v_op.ord], deliver_at, deliver_at, txn,
                    p_message_ids[v_op.ord], p_hashes[v_op.ord], p_blobs[v_op.ord], v_now, v_now)
            on conflict (queue, timer_key) do update
            set partition = excluded.partition, deliver_at = excluded.deliver_at,
                visible_at = excluded.visible_at, txn = excluded.txn, message_id = excluded.message_id,
                hash = excluded.hash, blob = excluded.blob, attempts = 0, last_error = null,
                updated_at = excluded.updated_at
            returning case when t.xmax = 0 then 'scheduled' else 'rescheduled' end into status;
        elsif v_op.op = 'cancel' then
            select true into v_seen from queen.log_timers t where t.queue = v_op.queue and t.timer_key = v_op.key;
            delete from queen.log_timers t where t.queue = v_op.queue and t.timer_key = v_op.key
            returning t.txn into txn;
            status := case when found then 'cancelled' when v_seen then 'too_late' else 'absent' end;
        else
            raise exception 'QTIMER op %: unknown operation', v_op.ord - 1 using errcode = '22023';
        end if;
        return next;
    end loop;
end
$$;
