-- log_retention_cut_v1: deletes the oldest segments of one partition, as far as the rules allow.
--
-- Parameters: p_partition_id    the partition; the caller holds its row FOR UPDATE
--             p_before          every segment older than this goes; NULL = none by this rule
--             p_completed_before  older than this, a segment goes when every group has consumed it; NULL = none
--             p_max_segments    at most
-- Returns:    segments and messages deleted
-- Algorithm:  created_at never goes back within a partition and cursors are prefixes, so what may go is a
--             prefix: one range. log_start moves behind it, oldest_live_at to the first segment left.
--             Cursors are not touched: a pop steps over the gap. A partition without cursor rows has
--             consumed nothing.
-- Tables:     log_segments (delete), log_consumers (read), log_partitions (update)
-- Locks:      none beyond the caller's
create or replace function queen.log_retention_cut_v1(p_partition_id uuid, p_before timestamptz,
                                                      p_completed_before timestamptz, p_max_segments int,
                                                      out segments bigint, out messages bigint)
language plpgsql
as $$
declare
    v_consumed bigint := -1;
    v_end bigint;
begin
    if p_completed_before is not null then
        select coalesce(min(c.committed), -1) into v_consumed
        from queen.log_consumers c where c.partition_id = p_partition_id;
    end if;
    select max(t.end_offset) into v_end
    from (select s.end_offset, s.created_at from queen.log_segments s
          where s.partition_id = p_partition_id
          order by s.base_offset
          limit p_max_segments) as t
    where t.created_at < p_before or (t.created_at < p_completed_before and t.end_offset <= v_consumed);
    if v_end is null then
        segments := 0;
        messages := 0;
        return;
    end if;
    with gone as (
        delete from queen.log_segments s
        where s.partition_id = p_partition_id and s.base_offset <= v_end
        returning s.end_offset - s.base_offset + 1 as frames
    )
    select count(*), sum(g.frames) into segments, messages from gone g;
    update queen.log_partitions p
    set log_start = v_end + 1,
        oldest_live_at = (select s.created_at from queen.log_segments s
                          where s.partition_id = p_partition_id order by s.base_offset limit 1)
    where p.id = p_partition_id;
end
$$;
