-- message_scan_v1: a few segments, newest first, for a search by the worker, which alone can open them.
--
-- Parameters: p_partition_id
--             p_below  only segments that start below this offset
--             p_limit  most segments; fewer when they hold 4 MB together
-- Returns:    base_offset, blob
-- Tables:     log_segments (read)
-- Locks:      none
create or replace function queen.message_scan_v1(p_partition_id uuid, p_below bigint, p_limit int)
returns table (base_offset bigint, blob bytea)
language sql stable
as $$
    select t.base_offset, (select l.blob from queen.log_segments l
                           where l.partition_id = p_partition_id and l.base_offset = t.base_offset)
    from (select s.base_offset, sum(s.bytes) over (order by s.base_offset desc) - s.bytes as before
          from (select l.base_offset, length(l.blob) as bytes
                from queen.log_segments l
                where l.partition_id = p_partition_id and l.base_offset < p_below
                order by l.base_offset desc
                limit p_limit) as s) as t
    where t.before < 4 << 20
    order by t.base_offset desc;
$$;
