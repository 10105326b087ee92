-- log_transaction_acks_v1: the acks of a transaction, all of them or an exception.
--
-- Parameters: p_leases   lease ids that the request names; empty = it names none
--             one element per cursor, aligned, each (partition, group) once:
--             p_pids, p_groups
--             p_workers  the lease id that the acks themselves carry; '' = none
--             p_ends, p_counts  of a batch that the caller recognised as acked whole: its end and its
--                        messages; NULL = not recognised. Only a hint.
--             p_hashes   16 bytes per ack; p_statuses  a letter per ack: c(ompleted), f(ailed), r(etry), d(lq)
--             p_dead_*   snapshots of dead letters, aligned: place of the cursor in these arrays (1-based),
--                        offset, message id, transaction id, payload (NULL: not readable any more), reason
-- Returns:    per cursor, in order: {"queue","released":bool,"dlq":[hex]}; NULL when there are none
-- Raises:     QT002 "<text>" with {"ack":place from 0[,"hash":hex]} as DETAIL: an ack that the contract
--             refuses; QT003 with [{"ack","off","hash"}] as DETAIL: dead letters whose snapshot was not given
-- Algorithm:  locks all cursors; then resolves the lease of each: its own; else, when the request names
--             leases, the row's live holder if it is among them; else none. A cursor whose lease should be
--             named but is not there lets only what is at or below the cursor pass: a nack of the same
--             batch may have released it. Recognised batches go through log_ack_multi_v1 at once, the rest
--             through log_ack_by_hash_v1 one by one; log_dlq_head_v1 files what that hands over.
-- Tables:     log_consumers (update), log_dlq (insert), queues, log_partitions, log_txns, log_segments (read)
-- Locks, in order: log_consumers FOR UPDATE ascending by (partition_id, consumer_group).
create or replace function queen.log_transaction_acks_v1(p_leases text[], p_pids uuid[], p_groups text[],
                                                         p_workers text[], p_ends bigint[], p_counts int[],
                                                         p_hashes bytea[], p_statuses text[],
                                                         p_dead_acks int[], p_dead_offsets bigint[],
                                                         p_dead_ids uuid[], p_dead_txns bytea[],
                                                         p_dead_payloads bytea[], p_dead_errors text[])
returns jsonb
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
declare
    c_lease constant text := 'invalid or expired lease';
    v_count constant int := coalesce(cardinality(p_pids), 0);
    v_now timestamptz;
    v_places int[];         -- those that have a cursor
    v_holders text[];       -- by place: who holds the row, live or not
    v_expiries timestamptz[];
    v_batch_ends bigint[];
    v_whole int[] := '{}';  -- places of recognised batches
    v_workers text[] := '{}';
    v_settled boolean;
    v_bytes bytea;
    v_answer jsonb;
    v_refused int;
    v_released boolean[];
    v_dead jsonb[];
    v_at int;
    v_missing jsonb := '[]';
    v_result jsonb;
begin
    if (cardinality(p_groups), cardinality(p_workers), cardinality(p_ends), cardinality(p_counts),
        cardinality(p_hashes), cardinality(p_statuses))
       is distinct from (v_count, v_count, v_count, v_count, v_count, v_count)
       or (cardinality(p_dead_offsets), cardinality(p_dead_ids), cardinality(p_dead_txns),
           cardinality(p_dead_payloads), cardinality(p_dead_errors))
       is distinct from (cardinality(p_dead_acks), cardinality(p_dead_acks), cardinality(p_dead_acks),
                         cardinality(p_dead_acks), cardinality(p_dead_acks)) then
        raise exception 'QTXN misaligned arrays' using errcode = 'QT000';
    end if;
    if v_count = 0 then
        return null;
    end if;

    select array_agg(l.ord), array_agg(l.worker_id order by l.ord), array_agg(l.lease_expires_at order by l.ord),
           array_agg(l.batch_end order by l.ord)
    into v_places, v_holders, v_expiries, v_batch_ends
    from (select u.ord, c.worker_id, c.lease_expires_at, c.batch_end
          from unnest(p_pids, p_groups) with ordinality as u (pid, consumer_group, ord)
          join queen.log_consumers c on c.partition_id = u.pid and c.consumer_group = u.consumer_group
          order by c.partition_id, c.consumer_group
          for update of c) as l;
    v_now := clock_timestamp();
    if coalesce(cardinality(v_places), 0) < v_count then
        select min(g) into v_refused from generate_series(1, v_count) as g where g <> all (coalesce(v_places, '{}'));
        raise exception 'unresolvable: the consumer group has no cursor in this partition'
            using errcode = 'QT002', detail = jsonb_build_object('ack', v_refused - 1)::text;
    end if;

    for i in 1 .. v_count loop
        v_workers[i] := case
            when p_workers[i] <> '' then p_workers[i]
            when v_batch_ends[i] is not null and v_expiries[i] >= v_now and v_holders[i] = any (p_leases) then v_holders[i]
            else '' end;
        v_released[i] := false;
        v_dead[i] := '[]';
        if v_workers[i] <> '' and not (v_batch_ends[i] is not null and v_expiries[i] >= v_now
                                       and v_holders[i] is not distinct from v_workers[i]) then
            raise exception '%', c_lease using errcode = 'QT002', detail = jsonb_build_object('ack', i - 1)::text;
        end if;
        if v_workers[i] <> '' and p_ends[i] = v_batch_ends[i] then
            v_whole := v_whole || i;
            v_released[i] := true;
        end if;
    end loop;

    if v_whole <> '{}' then
        select min(m.ordinal) into v_refused
        from queen.log_ack_multi_v1(array(select p_pids[w] from unnest(v_whole) as w),
                                    array(select p_groups[w] from unnest(v_whole) as w),
                                    array(select p_ends[w] from unnest(v_whole) as w),
                                    array(select v_workers[w] from unnest(v_whole) as w),
                                    array(select p_counts[w] from unnest(v_whole) as w)) as m
        where not m.ok;
        if v_refused is not null then
            raise exception '%', c_lease using errcode = 'QT002',
                detail = jsonb_build_object('ack', v_whole[v_refused] - 1)::text;
        end if;
    end if;

    for i in 1 .. v_count loop
        continue when v_released[i];
        v_bytes := p_hashes[i];
        v_settled := v_workers[i] = '' and cardinality(p_leases) > 0;
        v_answer := queen.log_ack_by_hash_v1(
            p_pids[i], p_groups[i], v_workers[i],
            array(select substring(v_bytes from 16 * k.n + 1 for 16)
                  from generate_series(0, length(v_bytes) / 16 - 1) as k (n) order by k.n),
            array(select case s.letter when 'c' then 'completed' when 'r' then 'retry' when 'd' then 'dlq'
                                       else 'failed' end
                  from unnest(string_to_array(p_statuses[i], null)) with ordinality as s (letter, n) order by s.n));
        if v_answer -> 'ok' <> 'true' or v_answer -> 'repeat' = 'true' then
            raise exception '%', coalesce(v_answer ->> 'error', c_lease) using errcode = 'QT002',
                detail = jsonb_build_object('ack', i - 1)::text;
        end if;
        if v_answer -> 'unresolvedHashes' <> '[]' then
            raise exception 'unresolvable: transaction not in the ack window (hash purged or never pushed); if leased, the message redelivers'
                using errcode = 'QT002',
                detail = jsonb_build_object('ack', i - 1, 'hash', v_answer -> 'unresolvedHashes' -> 0)::text;
        end if;
        if v_settled and jsonb_array_length(v_answer -> 'noopHashes')
                         + jsonb_array_length(v_answer -> 'staleHashes') < length(v_bytes) / 16 then
            raise exception '%', c_lease using errcode = 'QT002', detail = jsonb_build_object('ack', i - 1)::text;
        end if;
        v_released[i] := v_answer -> 'leaseReleased' = 'true' or v_answer -> 'dlq' = 'true';
        if v_answer -> 'dlq' = 'true' then
            v_dead[i] := v_answer -> 'dlqHashes';
            select d.at::int into v_at
            from unnest(p_dead_acks, p_dead_offsets) with ordinality as d (ack, off, at)
            where d.ack = i and d.off = (v_answer ->> 'off')::bigint;
            if not found then
                v_missing := v_missing || jsonb_build_object('ack', i - 1, 'off', v_answer -> 'off',
                                                             'hash', v_dead[i] -> 0);
            elsif queen.log_dlq_head_v1(p_pids[i], p_groups[i], v_workers[i], p_dead_offsets[v_at],
                                        p_dead_ids[v_at], p_dead_txns[v_at], p_dead_payloads[v_at],
                                        p_dead_errors[v_at]) -> 'ok' <> 'true' then
                raise exception '%', c_lease using errcode = 'QT002', detail = jsonb_build_object('ack', i - 1)::text;
            end if;
        end if;
    end loop;
    if v_missing <> '[]' then
        raise exception 'dead letters without a snapshot' using errcode = 'QT003', detail = v_missing::text;
    end if;

    select jsonb_agg(jsonb_build_object('queue', q.name, 'released', v_released[u.ord], 'dlq', v_dead[u.ord])
                     order by u.ord)
    into v_result
    from unnest(p_pids) with ordinality as u (pid, ord)
    join queen.log_partitions p on p.id = u.pid
    join queen.queues q on q.id = p.queue_id;
    return v_result;
end
$$;
