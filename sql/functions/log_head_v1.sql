-- log_head_v1: the first segment of a partition that holds an offset or anything behind it.
--
-- Parameters: p_partition_id, p_offset
-- Returns:    one row; none when every segment ends below the offset
-- Algorithm:  the last segment that starts at or below the offset, if it reaches it; else (retention
--             took that one) the next. Usually one probe of the primary key.
-- Tables:     log_segments (read)
-- Locks:      none
create or replace function queen.log_head_v1(p_partition_id uuid, p_offset bigint)
returns table (base_offset bigint, end_offset bigint, created_at timestamptz)
language sql stable
as $$
    select coalesce(a.base_offset, b.base_offset), coalesce(a.end_offset, b.end_offset),
           coalesce(a.created_at, b.created_at)
    from (select 1) as one
    left join lateral (
        select s.base_offset, s.end_offset, s.created_at
        from queen.log_segments s
        where s.partition_id = p_partition_id and s.base_offset <= p_offset
        order by s.base_offset desc
        limit 1) as a on a.end_offset >= p_offset
    left join lateral (
        select s.base_offset, s.end_offset, s.created_at
        from queen.log_segments s
        where a.base_offset is null and s.partition_id = p_partition_id and s.base_offset > p_offset
        order by s.base_offset
        limit 1) as b on true
    where a.base_offset is not null or b.base_offset is not null;
$$;
