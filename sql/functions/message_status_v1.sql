-- message_status_v1: the status of one message.
--
-- Parameters: p_partition_id, p_offset  its place
--             p_completed_upto, p_span_from, p_span_to  from log_progress_v1
-- Returns:    dead_letter, completed, processing or pending
-- Tables:     log_dlq (read)
-- Locks:      none
create or replace function queen.message_status_v1(p_partition_id uuid, p_offset bigint, p_completed_upto bigint,
                                                   p_span_from bigint[], p_span_to bigint[])
returns text
language sql stable
as $$
    select case
        when exists (select 1 from queen.log_dlq d where d.partition_id = p_partition_id and d."offset" = p_offset)
            then 'dead_letter'
        when p_offset <= p_completed_upto then 'completed'
        when exists (select 1 from unnest(p_span_from, p_span_to) as s (low, high)
                     where p_offset between s.low and s.high) then 'processing'
        else 'pending'
    end;
$$;
