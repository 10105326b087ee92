-- log_allocate_v1: the one allocator: gives segments their offsets and stores them.
--
-- Parameters: p_partition_ids  partitions, each at most once; a NULL element is passed over
--             p_counts, p_hashes, p_blobs  aligned: frames, 16 bytes of hash per frame, packed frames
--             p_request_id     identifies the write for its retry; NULL = none
-- Returns:    per stored element its ordinal (1-based), base offset and created_at
-- Algorithm:  one statement: advance last_offset, insert the segment and its hash row. created_at is
--             the clock read under the lock, and never earlier than the partition's last one.
--             last_write_at is indexed, so it moves at most once a second.
-- Tables:     log_partitions (update), log_segments, log_txns (insert)
-- Locks:      the caller holds the log_partitions rows FOR NO KEY UPDATE, taken in ascending id order.
create or replace function queen.log_allocate_v1(p_partition_ids uuid[], p_counts int[], p_hashes bytea[],
                                                 p_blobs bytea[], p_request_id uuid)
returns table (ordinal int, base_offset bigint, created_at timestamptz)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
begin
    return query
    with allocated as (
        update queen.log_partitions p
        set last_offset = p.last_offset + u.count,
            last_created_at = greatest(p.last_created_at, v_now),
            last_write_at = case when p.last_write_at <= v_now - interval '1 second' then v_now
                                 else p.last_write_at end,
            oldest_live_at = coalesce(p.oldest_live_at, v_now),
            oldest_txn_at = coalesce(p.oldest_txn_at, v_now)
        from unnest(p_partition_ids, p_counts) with ordinality as u (id, count, ord)
        where p.id = u.id
        returning u.ord, p.id, p.last_offset - u.count + 1 as base, p.last_offset as last,
                  p.last_created_at as created
    ), segments as (
        insert into queen.log_segments (partition_id, base_offset, end_offset, created_at, blob)
        select a.id, a.base, a.last, a.created, p_blobs[a.ord]
        from allocated a
    ), txns as (
        insert into queen.log_txns (partition_id, base_offset, end_offset, created_at, request_id, hashes)
        select a.id, a.base, a.last, a.created, p_request_id, p_hashes[a.ord]
        from allocated a
    )
    select a.ord::int, a.base, a.created from allocated a;
end
$$;
