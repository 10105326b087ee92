-- log_segments_at_v1: the segments that cover given offsets.
--
-- Parameters: p_pids, p_offsets  aligned
-- Returns:    per covered offset its ordinal (1-based) and the segment; no row where none covers it
-- Algorithm:  the last segment that starts at or below the offset, if it reaches it
-- Tables:     log_segments (read)
-- Locks:      none
create or replace function queen.log_segments_at_v1(p_pids uuid[], p_offsets bigint[])
returns table (ordinal int, base_offset bigint, end_offset bigint, created_at timestamptz, blob bytea)
language sql stable
as $$
    select u.ord::int, s.base_offset, s.end_offset, s.created_at, s.blob
    from unnest(p_pids, p_offsets) with ordinality as u (id, off, ord)
    cross join lateral (
        select l.base_offset, l.end_offset, l.created_at, l.blob
        from queen.log_segments l
        where l.partition_id = u.id and l.base_offset <= u.off
        order by l.base_offset desc
        limit 1) as s
    where s.end_offset >= u.off;
$$;
