-- log_offset_at_v1: where a cursor stands that wants everything from a moment on.
--
-- Parameters: p_partition_id  the partition
--             p_at            the moment
-- Returns:    the offset just before the first segment with created_at >= p_at; the partition's
--             last_offset when there is none; NULL when the partition does not exist
-- Algorithm:  created_at never goes back within a partition, so the first such segment is found by
--             halving the offset range: each step reads the last segment that starts at or below the
--             middle.
-- Tables:     log_partitions, log_segments (read)
-- Locks:      none
create or replace function queen.log_offset_at_v1(p_partition_id uuid, p_at timestamptz)
returns bigint
language plpgsql stable
as $$
declare
    v_last bigint;
    v_low bigint;       -- every segment that starts below is older than p_at
    v_high bigint;      -- every segment that starts at or above is not
    v_middle bigint;
    v_segment record;
begin
    select p.last_offset, p.log_start,
           case when p.last_created_at < p_at then p.log_start else p.last_offset + 1 end
    into v_last, v_low, v_high
    from queen.log_partitions p
    where p.id = p_partition_id;
    if v_low >= v_high then
        return v_last;
    end if;
    while v_low < v_high loop
        v_middle := v_high - 1 - (v_high - 1 - v_low) / 2;
        select s.base_offset, s.end_offset, s.created_at into v_segment
        from queen.log_segments s
        where s.partition_id = p_partition_id and s.base_offset >= v_low and s.base_offset <= v_middle
        order by s.base_offset desc
        limit 1;
        if not found then
            v_low := v_middle + 1;
        elsif v_segment.created_at >= p_at then
            v_high := v_segment.base_offset;
        else
            v_low := greatest(v_segment.end_offset, v_middle) + 1;
        end if;
    end loop;
    -- Nothing starts in [v_low, v_high) any more: v_high is the base wanted, or past the end.
    return least(v_high - 1, v_last);
end
$$;
