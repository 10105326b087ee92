-- streams_frames_upto_v1: where a cursor stands after a number of messages that really exist.
--
-- Parameters: p_partition_id
--             p_after   the cursor: messages behind it are counted
--             p_end     inclusive end of the leased span, which is never passed
--             p_count   messages
-- Returns:    upto: the new cursor; frames: the messages passed, fewer than p_count when the span has no
--             more (then upto is its end)
-- Algorithm:  offsets that retention deleted are stepped over: only stored segments count.
-- Tables:     log_segments (read)
-- Locks:      none
create or replace function queen.streams_frames_upto_v1(p_partition_id uuid, p_after bigint, p_end bigint,
                                                        p_count int, out upto bigint, out frames int)
language plpgsql stable
as $$
declare
    v_part record;
begin
    upto := p_after;
    frames := 0;
    if p_count <= 0 then
        return;
    end if;
    for v_part in
        select greatest(s.base_offset, p_after + 1) as first, least(s.end_offset, p_end) as last
        from queen.log_segments s
        where s.partition_id = p_partition_id and s.base_offset <= p_end
          and s.base_offset >= coalesce((select h.base_offset from queen.log_head_v1(p_partition_id, p_after + 1) as h),
                                        p_end + 1)
        order by s.base_offset
    loop
        if v_part.last - v_part.first + 1 >= p_count - frames then
            upto := v_part.first + (p_count - frames) - 1;
            frames := p_count;
            return;
        end if;
        frames := frames + (v_part.last - v_part.first + 1)::int;
    end loop;
    upto := greatest(p_after, p_end);
end
$$;
