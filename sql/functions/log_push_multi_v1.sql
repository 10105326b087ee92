-- log_push_multi_v1: one push flush: many segments, one transaction.
--
-- Parameters: one element per segment, aligned, each (queue, partition) once
--             p_hashes     16 bytes per message (XXH3-128, big-endian)
--             p_verified   offset up to which the caller vouches that none of the hashes occurs; -1 = nothing
--             p_verified_from, p_verified_ids  the offset from which, and the partition it speaks of: a
--                          partition that was deleted and made again is another one. NULL = 0, any
--             p_request_id, p_retry  with p_retry, a segment that an earlier try under this id stored is
--                          reported as queued and not stored again (contract 1, section 7)
-- Returns:    one row per segment in input order: status 1 = queued, 2 = duplicate. A duplicate stores
--             nothing of its segment; dup_index (0-based) names the messages that exist, dup_offset the
--             lowest offset of each inside the window.
-- Algorithm:  resolve the names, create what is missing; lock the partitions; then, with a snapshot
--             taken under the locks, look for retried segments and for duplicates; allocate the rest.
-- Tables:     queues, log_partitions, log_consumers (new partitions), log_txns, log_segments
-- Locks, in order: those of log_provision_v1 (only when something is missing, before any other), then
--             log_partitions FOR NO KEY UPDATE ascending by id: whoever creates cursor rows (foreign key)
--             does not wait for it.
create or replace function queen.log_push_multi_v1(p_queues text[], p_partitions text[], p_counts int[],
                                                   p_hashes bytea[], p_verified bigint[], p_blobs bytea[],
                                                   p_request_id uuid, p_retry boolean,
                                                   p_verified_from bigint[] default null,
                                                   p_verified_ids uuid[] default null)
returns table (ordinal int, status int, partition_id uuid, base_offset bigint, created_at timestamptz,
               dup_index int[], dup_offset bigint[])
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
    c_retry_horizon constant interval := interval '10 minutes';
    v_count constant int := coalesce(cardinality(p_queues), 0);
    v_ids uuid[];           -- by ordinal; NULL once the segment is decided
    v_all uuid[];           -- by ordinal
    v_windows int[];        -- s, by ordinal
    v_below bigint[];       -- by ordinal: duplicates are looked for in [txns_start, below] ..
    v_from bigint[];        -- .. and from this offset on; NULL = not there
    v_starts bigint[];      -- txns_start
    v_locked int;
    v_row record;
begin
    if v_count is distinct from cardinality(p_partitions) or v_count is distinct from cardinality(p_counts)
       or v_count is distinct from cardinality(p_hashes) or v_count is distinct from cardinality(p_verified)
       or v_count is distinct from cardinality(p_blobs) then
        raise exception 'QMULTI misaligned arrays' using errcode = '22023';
    end if;
    for i in 1 .. v_count loop
        if coalesce(p_queues[i], '') = '' or coalesce(p_partitions[i], '') = '' or p_blobs[i] is null
           or coalesce(p_counts[i], 0) < 1 or length(p_hashes[i]) is distinct from 16 * p_counts[i] then
            raise exception 'QPUSH bad segment %: queue "%", partition "%", % messages, % bytes of hashes, % bytes',
                i, p_queues[i], p_partitions[i], p_counts[i], length(p_hashes[i]), length(p_blobs[i])
                using errcode = '22023';
        end if;
    end loop;

    for v_try in 1 .. 2 loop
        select array_agg(p.id order by u.ord), array_agg(q.dedup_window_seconds order by u.ord)
        into v_all, v_windows
        from unnest(p_queues, p_partitions) with ordinality as u (queue, partition, ord)
        join queen.queues q on q.name = u.queue
        join queen.log_partitions p on p.queue_id = q.id and p.name = u.partition;
        exit when coalesce(cardinality(v_all), 0) = v_count;
        perform queen.log_provision_v1(p_queues, p_partitions);
    end loop;

    select count(*), array_agg(l.txns_start order by l.ord),
           array_agg(case when l.known and l.verified_from > l.txns_start then l.verified_from - 1 end order by l.ord),
           array_agg(case when not l.known then l.txns_start
                          when l.last_offset > l.verified then l.verified + 1 end order by l.ord)
    into v_locked, v_starts, v_below, v_from
    from (select u.ord, p.last_offset, p.txns_start, p_verified[u.ord] as verified,
                 coalesce(p_verified_from[u.ord], 0) as verified_from,
                 p_verified[u.ord] between p.txns_start and p.last_offset
                     and coalesce(p_verified_ids[u.ord] = p.id, true) as known
          from unnest(v_all) with ordinality as u (id, ord)
          join queen.log_partitions p on p.id = u.id
          order by p.id
          for no key update of p) as l;
    if v_locked is distinct from v_count then
        raise exception 'QMULTI % of % segments have a partition: a queue was deleted meanwhile',
            coalesce(v_locked, 0), v_count using errcode = '40001';
    end if;
    if v_count > 1 and (select count(distinct u.id) from unnest(v_all) as u (id)) <> v_count then
        raise exception 'QMULTI a partition is named twice in one call' using errcode = '22023';
    end if;
    v_ids := v_all;

    if p_retry then
        for i in 1 .. v_count loop
            for v_row in
                select t.base_offset, t.created_at, t.request_id
                from queen.log_txns t
                where t.partition_id = v_all[i]
                order by t.base_offset desc
            loop
                if v_row.request_id = p_request_id then
                    v_ids[i] := null;
                    return query select i, 1, v_all[i], v_row.base_offset, v_row.created_at,
                                        null::int[], null::bigint[];
                    exit;
                end if;
                exit when v_row.created_at < clock_timestamp() - c_retry_horizon;
            end loop;
        end loop;
    end if;

    for v_row in select u.ord, u.below, u.start, v_starts[u.ord] as first
                 from unnest(v_below, v_from) with ordinality as u (below, start, ord)
                 where (u.below is not null or u.start is not null)
                   and v_ids[u.ord] is not null and v_windows[u.ord] > 0
    loop
        with hashes as materialized (
            select array(select substring(p_hashes[v_row.ord] from 16 * k.i + 1 for 16)
                         from generate_series(0, p_counts[v_row.ord] - 1) as k (i)) as list,
                   clock_timestamp() - make_interval(secs => v_windows[v_row.ord]) as since
        ), found as (
            select f.hash, f.found
            from hashes h
            cross join lateral queen.log_txn_find_v1(v_all[v_row.ord], h.list, v_row.first, v_row.below, h.since) as f
            where v_row.below is not null
            union all
            select f.hash, f.found
            from hashes h
            cross join lateral queen.log_txn_find_v1(v_all[v_row.ord], h.list, v_row.start, null, h.since) as f
            where v_row.start is not null
        )
        select array_agg(t.idx order by t.idx), array_agg(t.off order by t.idx) into dup_index, dup_offset
        from (select i.idx, min(f.found) as off
              from generate_series(0, p_counts[v_row.ord] - 1) as i (idx)
              join found f on f.hash = substring(p_hashes[v_row.ord] from 16 * i.idx + 1 for 16)
              group by i.idx) as t;
        if dup_index is not null then
            v_ids[v_row.ord] := null;
            return query select v_row.ord::int, 2, v_all[v_row.ord], null::bigint, null::timestamptz,
                                dup_index, dup_offset;
        end if;
    end loop;

    return query
    select a.ordinal, 1, v_all[a.ordinal], a.base_offset, a.created_at, null::int[], null::bigint[]
    from queen.log_allocate_v1(v_ids, p_counts, p_hashes, p_blobs, p_request_id) as a;
end
$$;
