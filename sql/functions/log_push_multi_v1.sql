-- log_push_multi_v1: one push flush: many segments, one transaction.
--
-- Parameters: one element per segment, aligned, each (queue, partition) once
--             p_hashes     16 bytes per message (XXH3-128, big-endian)
--             p_verified   offset up to which the caller vouches that none of the hashes occurs; -1 = nothing
--             p_request_id, p_retry  with p_retry, a segment that an earlier try under this id stored is
--                          reported as queued and not stored again (contract 1, section 7)
-- Returns:    one row per segment in input order: status 1 = queued, 2 = duplicate. A duplicate stores
--             nothing of its segment; dup_index (0-based) names the messages that exist, dup_offset the
--             lowest offset of each inside the window.
-- Algorithm:  resolve the names, create what is missing; lock the partitions; then, with a snapshot
--             taken under the locks, look for retried segments and for duplicates; allocate the rest.
-- Tables:     queues, log_partitions, log_consumers (new partitions), log_txns, log_segments
-- Locks, in order: those of log_provision_v1 (only when something is missing, before any other), then
--             log_partitions FOR UPDATE ascending by id.
create or replace function queen.log_push_multi_v1(p_queues text[], p_partitions text[], p_counts int[],
                                                   p_hashes bytea[], p_verified bigint[], p_blobs bytea[],
                                                   p_request_id uuid, p_retry boolean)
returns table (ordinal int, status int, partition_id uuid, base_offset bigint, created_at timestamptz,
               dup_index int[], dup_offset bigint[])
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set jit = off
as $$
#variable_conflict use_column
declare
    v_count constant int := cardinality(p_queues);
    v_ids uuid[];           -- by ordinal; NULL once the segment is decided
    v_all uuid[];           -- by ordinal
    v_windows int[];        -- s, by ordinal
    v_from bigint[];        -- by ordinal: duplicates are looked for from this offset on; NULL = not at all
    v_locked int;
    v_row record;
begin
    if v_count is distinct from cardinality(p_partitions) or v_count is distinct from cardinality(p_counts)
       or v_count is distinct from cardinality(p_hashes) or v_count is distinct from cardinality(p_verified)
       or v_count is distinct from cardinality(p_blobs) then
        raise exception 'QMULTI misaligned arrays' using errcode = '22023';
    end if;
    if exists (select 1 from unnest(p_queues, p_partitions, p_counts, p_hashes, p_blobs)
                                 as u (queue, partition, count, hashes, blob)
               where coalesce(u.queue, '') = '' or coalesce(u.partition, '') = '' or u.blob is null
                  or coalesce(u.count, 0) < 1 or length(u.hashes) is distinct from 16 * u.count) then
        raise exception 'QPUSH bad segment: a name is empty, or the hashes are not 16 bytes per message'
            using errcode = '22023';
    end if;

    for v_try in 1 .. 2 loop
        select array_agg(p.id order by u.ord), array_agg(q.dedup_window_seconds order by u.ord)
        into v_all, v_windows
        from unnest(p_queues, p_partitions) with ordinality as u (queue, partition, ord)
        join queen.queues q on q.name = u.queue
        join queen.log_partitions p on p.queue_id = q.id and p.name = u.partition;
        exit when coalesce(cardinality(v_all), 0) = v_count;
        perform queen.log_provision_v1(p_queues, p_partitions);
    end loop;

    select count(*), array_agg(case when v_windows[l.ord] > 0
                                     and l.last_offset >= greatest(p_verified[l.ord] + 1, l.txns_start)
                                    then greatest(p_verified[l.ord] + 1, l.txns_start) end order by l.ord)
    into v_locked, v_from
    from (select u.ord, p.last_offset, p.txns_start
          from unnest(v_all) with ordinality as u (id, ord)
          join queen.log_partitions p on p.id = u.id
          order by p.id
          for update of p) as l;
    if v_locked is distinct from v_count then
        raise exception 'QMULTI % of % segments have a partition: a queue was deleted meanwhile',
            coalesce(v_locked, 0), v_count using errcode = '40001';
    end if;
    if v_count > 1 and (select count(distinct u.id) from unnest(v_all) as u (id)) <> v_count then
        raise exception 'QMULTI a partition is named twice in one call' using errcode = '22023';
    end if;
    v_ids := v_all;

    if p_retry then
        for v_row in
            select u.ord, t.base_offset, t.created_at
            from unnest(v_all) with ordinality as u (id, ord)
            join queen.log_txns t on t.partition_id = u.id
            where t.request_id = p_request_id and t.created_at > clock_timestamp() - interval '10 minutes'
        loop
            v_ids[v_row.ord] := null;
            return query select v_row.ord::int, 1, v_all[v_row.ord], v_row.base_offset, v_row.created_at,
                                null::int[], null::bigint[];
        end loop;
    end if;

    for v_row in select u.ord, u.start from unnest(v_from) with ordinality as u (start, ord)
                 where u.start is not null and v_ids[u.ord] is not null
    loop
        select array_agg(i.idx order by i.idx), array_agg(f.found order by i.idx) into dup_index, dup_offset
        from generate_series(0, p_counts[v_row.ord] - 1) as i (idx)
        join queen.log_txn_find_v1(
                 v_all[v_row.ord],
                 array(select substring(p_hashes[v_row.ord] from 16 * k.i + 1 for 16)
                       from generate_series(0, p_counts[v_row.ord] - 1) as k (i)),
                 v_row.start, null,
                 clock_timestamp() - make_interval(secs => v_windows[v_row.ord])) as f
            on f.hash = substring(p_hashes[v_row.ord] from 16 * i.idx + 1 for 16);
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
