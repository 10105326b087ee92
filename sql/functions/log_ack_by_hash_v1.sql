-- log_ack_by_hash_v1: the authoritative ack: statuses of transaction hashes against one cursor.
--
-- Parameters: p_partition_id, p_group  the cursor
--             p_worker   lease id; '' = lease-less: the lease is not validated
--             p_hashes   16-byte hashes; p_statuses: completed, failed, retry, dlq; aligned
-- Returns:    {"ok":false,"error"} or {"ok":true,"leaseReleased","dlq","off","acked","repeat",
--             "noopHashes","staleHashes","unresolvedHashes","dlqHashes"[,"dropped"][,"conflated"]}; the lists hold
--             32-digit hex tokens. dlq:true keeps the lease and hands the poison at "off" to the
--             caller, who files it with log_dlq_head_v1.
-- Algorithm:  seed "Ack internals", the authoritative decision procedure. A hash resolves to its lowest
--             offset in [max(committed + 1, txns_start), batch_end], without upper end when no live
--             lease is held; only what does not resolve there is looked for at or below the cursor. The
--             lowest failed/retry/dlq clamps the cursor below itself, ties dlq > failed > retry. A
--             signal counts only when a batch is recorded on the row (also an expired one) and holds it.
--             A completed message of a conflated lease stands for the whole batch ("conflated": how many
--             others); without the lease's id only its newest one does.
--             A repeat of the call that released the lease is decided against the span and the cursor
--             of that time; if it comes to the same signal and position it is answered as the first
--             time and changes nothing, else it is one with a stale lease.
-- Tables:     log_consumers (update), log_partitions, queues, log_txns (read)
-- Locks:      the log_consumers row FOR UPDATE, and no other
create or replace function queen.log_ack_by_hash_v1(p_partition_id uuid, p_group text, p_worker text,
                                                    p_hashes bytea[], p_statuses text[])
returns jsonb
language plpgsql
set enable_seqscan = off
set jit = off
set plan_cache_mode = force_generic_plan
as $$
declare
    v_row queen.log_consumers;
    v_now timestamptz;
    v_repeat boolean := false;
    v_same boolean;
    v_live boolean;
    v_start bigint;          -- txns_start
    v_low bigint;
    v_high bigint;           -- NULL = no upper end
    v_cursor bigint;         -- what counts as committed for this call
    v_signal text;
    v_off bigint;            -- of the signal
    v_max_ok bigint;
    v_new bigint;
    v_lists jsonb;
    v_dead jsonb;
    v_limit int;
    v_dlq_on boolean;
    v_lease_free boolean := false;
    v_retry int;
    v_result jsonb;
begin
    if cardinality(p_hashes) is distinct from cardinality(p_statuses) then
        raise exception 'QACK misaligned arrays' using errcode = '22023';
    end if;
    select * into v_row from queen.log_consumers c
    where c.partition_id = p_partition_id and c.consumer_group = p_group for update;
    if not found then
        return jsonb_build_object('ok', false, 'error', 'consumer not found');
    end if;
    v_now := clock_timestamp();
    v_live := v_row.batch_end is not null and v_row.lease_expires_at >= v_now;
    v_cursor := v_row.committed;
    if p_worker <> '' and not (v_live and v_row.worker_id = p_worker) then
        v_repeat := v_row.released_worker = p_worker;
        if v_repeat is not true then
            return jsonb_build_object('ok', false, 'error', 'invalid or expired lease');
        end if;
        v_cursor := v_row.released_from - 1;
    end if;

    select p.txns_start, q.retry_limit, q.dead_letter_queue or q.dlq_after_max_retries
    into v_start, v_limit, v_dlq_on
    from queen.log_partitions p join queen.queues q on q.id = p.queue_id
    where p.id = p_partition_id;
    v_low := greatest(v_cursor + 1, v_start);
    v_high := case when v_repeat then v_row.released_end when v_live then v_row.batch_end end;

    with input as materialized (
        select u.hash, u.ord,
               case when u.status in ('completed', 'retry', 'dlq') then u.status else 'failed' end as status
        from unnest(p_hashes, p_statuses) with ordinality as u (hash, status, ord)
    ), inside as materialized (
        select f.hash, f.found from queen.log_txn_find_v1(p_partition_id, p_hashes, v_low, v_high, null) as f
    ), missing as materialized (
        select array_agg(distinct i.hash) as hashes from input i
        where not exists (select 1 from inside s where s.hash = i.hash)
    ), below as materialized (
        select f.hash from missing m
        cross join lateral queen.log_txn_find_v1(p_partition_id, m.hashes, v_start, v_cursor, null) as f
        where m.hashes is not null and v_cursor >= v_start
    ), resolved as materialized (
        select i.hash, i.status, i.ord, s.found as eff, b.hash is not null as below
        from input i left join inside s on s.hash = i.hash left join below b on b.hash = i.hash
    ), signal as (
        select r.status, r.eff from resolved r
        where r.eff is not null and r.status in ('failed', 'retry', 'dlq')
        order by r.eff, array_position(array['dlq', 'failed', 'retry'], r.status)
        limit 1
    )
    select (select s.status from signal s), (select s.eff from signal s),
           max(r.eff) filter (where r.status = 'completed'
                                and r.eff < coalesce((select s.eff from signal s), 9223372036854775807)),
           jsonb_build_object(
               'noopHashes', coalesce(jsonb_agg(encode(r.hash, 'hex') order by r.ord) filter (
                   where r.eff is null and r.below and r.status = 'completed'), '[]'),
               'staleHashes', coalesce(jsonb_agg(encode(r.hash, 'hex') order by r.ord) filter (
                   where r.eff is null and r.below and r.status <> 'completed'), '[]'),
               'unresolvedHashes', coalesce(jsonb_agg(encode(r.hash, 'hex') order by r.ord) filter (
                   where r.eff is null and not r.below), '[]')),
           coalesce(jsonb_agg(distinct encode(r.hash, 'hex')) filter (
                   where r.eff = (select s.eff from signal s)), '[]')
    into v_signal, v_off, v_max_ok, v_lists, v_dead
    from resolved r;

    if v_repeat then
        -- The same in effect: the same signal at the same offset, the same position reached.
        v_same := case
            when v_row.released_signal is null then v_signal is null and (
                v_max_ok = v_row.released_upto or (v_max_ok is not null and v_row.lease_conflated))
            when v_off is distinct from v_row.released_offset then false
            when v_row.released_signal = 'dlq' then v_signal in ('failed', 'dlq')
            when v_row.released_signal = 'dropped' then v_signal = 'failed'
            else v_signal = v_row.released_signal and coalesce(v_max_ok, v_cursor) = v_row.released_upto
        end;
        if v_same is not true then
            return jsonb_build_object('ok', false, 'error', 'invalid or expired lease');
        end if;
        return jsonb_build_object('ok', true, 'leaseReleased', true, 'dlq', false, 'acked', 0, 'repeat', true,
                                  'dlqHashes', case when v_row.released_signal = 'dlq' then v_dead else '[]' end)
               || case when v_row.lease_conflated and v_row.released_signal is null
                       then jsonb_build_object('conflated', v_row.released_upto - v_row.released_from)
                       else '{}' end
               || v_lists;
    end if;

    v_new := coalesce(v_max_ok, v_row.committed);
    if v_row.lease_conflated and v_signal is null and v_max_ok is not null and p_worker <> '' then
        v_new := v_row.batch_end;
    end if;
    v_result := jsonb_build_object('ok', true, 'leaseReleased', false, 'dlq', false, 'off', v_new,
                                   'acked', v_new - v_row.committed, 'repeat', false, 'dlqHashes', '[]'::jsonb)
                || v_lists;
    if v_signal is not null and (v_row.batch_end is null or v_off > v_row.batch_end) then
        v_signal := null;    -- nothing is leased there: it changes nothing
    end if;

    if v_signal = 'dlq' or (v_signal = 'failed' and v_row.batch_retry_count >= v_limit and v_dlq_on) then
        update queen.log_consumers c
        set committed = v_new, total_consumed = c.total_consumed + v_new - v_row.committed,
            handoff_from = v_row.committed + 1
        where c.partition_id = p_partition_id and c.consumer_group = p_group;
        return v_result || jsonb_build_object('dlq', true, 'off', v_off, 'dlqHashes', v_dead);
    end if;

    v_retry := v_row.batch_retry_count;
    if v_signal = 'failed' and v_row.batch_retry_count < v_limit then
        v_lease_free := true;
        v_retry := v_row.batch_retry_count + 1;
    elsif v_signal = 'failed' then
        v_lease_free := true;
        v_retry := 0;
        v_new := v_off;
        v_signal := 'dropped';
        v_result := v_result || jsonb_build_object('dropped', true, 'off', v_off);
    elsif v_signal = 'retry' then
        v_lease_free := true;
    elsif v_row.batch_end is not null and v_new >= v_row.batch_end then
        v_lease_free := true;
        v_retry := 0;
        if v_row.lease_conflated then
            v_result := v_result || jsonb_build_object('conflated', v_new - v_row.committed - 1);
        end if;
    end if;

    if not v_lease_free then
        update queen.log_consumers c
        set committed = v_new, total_consumed = c.total_consumed + v_new - v_row.committed
        where c.partition_id = p_partition_id and c.consumer_group = p_group and v_new > c.committed;
        return v_result;
    end if;
    update queen.log_consumers c
    set committed = v_new, total_consumed = c.total_consumed + v_new - v_row.committed,
        batch_retry_count = v_retry,
        attempt_offset = case when v_signal is null or v_signal = 'dropped' then null else c.attempt_offset end,
        attempt_count = case when v_signal is null or v_signal = 'dropped' then 0 else c.attempt_count end,
        batch_end = null, worker_id = null, lease_expires_at = null, lease_acquired_at = null,
        released_worker = nullif(p_worker, ''), released_from = v_row.committed + 1,
        released_end = greatest(v_row.batch_end, v_new), released_signal = v_signal, released_offset = v_off,
        released_upto = v_new, released_at = v_now, handoff_from = null
    where c.partition_id = p_partition_id and c.consumer_group = p_group;
    return v_result || jsonb_build_object('leaseReleased', true);
end
$$;
