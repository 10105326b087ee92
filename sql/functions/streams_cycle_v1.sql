-- streams_cycle_v1: one cycle of a stream query on one source partition: its messages to the sinks, its
-- ack, its state; all of it or nothing.
--
-- Parameters: p_request_id, p_retry  with p_retry, a cycle that an earlier try under this id committed is
--                            answered from its record and not done again
--             p_query_id, p_partition_id, p_group  NULL ids are unknown ones
--             p_types, p_keys, p_values, p_window_ends  as for streams_state_apply_v1
--             p_queues .. p_verified_ids  the segments, as for log_push_multi_v1
--             p_ok       NULL = no ack; else with p_lease, p_count, p_release as for streams_ack_v1
-- Returns:    a row per segment (ordinal, status, base_offset, partition_id, dup_index, dup_offset, as
--             log_push_multi_v1 answers), then one without ordinal: error, queue_name (of the source),
--             ack_count, lease_released. With an error nothing has happened. It is 'duplicates' when
--             messages are stored already: the caller repeats the cycle without the named ones.
-- Algorithm:  failures are raised and caught here, which takes back what was done before them.
-- Tables:     those of log_push_multi_v1, streams_ack_v1 and streams_state_apply_v1;
--             queen.stream_queries (read), queen.stream_cycles (insert, update)
-- Locks, in order: those of log_push_multi_v1, the log_consumers row FOR UPDATE (also without an ack, if it
--             exists: the partition is not deleted meanwhile), the query's row KEY SHARE, the
--             queen.stream_cycles row, state rows.
create or replace function queen.streams_cycle_v1(p_request_id uuid, p_retry boolean, p_query_id uuid,
                                                  p_partition_id uuid, p_group text, p_types text[],
                                                  p_keys text[], p_values text[],
                                                  p_window_ends double precision[], p_queues text[],
                                                  p_partitions text[], p_counts int[], p_hashes bytea[],
                                                  p_verified bigint[], p_blobs bytea[], p_verified_from bigint[],
                                                  p_verified_ids uuid[], p_ok boolean, p_lease text,
                                                  p_count int, p_release boolean)
returns table (ordinal int, status int, base_offset bigint, partition_id uuid, dup_index int[],
               dup_offset bigint[], error text, queue_name text, ack_count int, lease_released boolean)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_push record;
    v_ack record;
    v_cycle queen.stream_cycles;
    v_queue text;
    v_error text;
    v_count int;
    v_released boolean := false;
    v_bases bigint[] := '{}';
    v_sinks uuid[] := '{}';
begin
    select q.name into v_queue
    from queen.log_partitions p join queen.queues q on q.id = p.queue_id where p.id = p_partition_id;
    begin
        if v_queue is null then
            raise exception 'partition not found' using errcode = 'QS002';
        end if;
        if not exists (select 1 from queen.stream_queries q where q.id = p_query_id) then
            raise exception 'query not found' using errcode = 'QS002';
        end if;
        select 'Unknown state_op type: ' || u.type into v_error
        from unnest(p_types) with ordinality as u (type, ord)
        where u.type not in ('upsert', 'delete')
        order by u.ord limit 1;
        if found then
            raise exception '%', v_error using errcode = 'QS002';
        end if;
        if p_retry and exists (select 1 from queen.stream_cycles c
                               where c.query_id = p_query_id and c.partition_id = p_partition_id
                                 and c.request_id = p_request_id) then
            raise exception 'repeat' using errcode = 'QS002';
        end if;

        if cardinality(p_queues) > 0 then
            for v_push in
                select m.* from queen.log_push_multi_v1(p_queues, p_partitions, p_counts, p_hashes, p_verified,
                                                        p_blobs, p_request_id, false, p_verified_from,
                                                        p_verified_ids) as m
                order by m.ordinal
            loop
                ordinal := v_push.ordinal;
                status := v_push.status;
                base_offset := v_push.base_offset;
                partition_id := v_push.partition_id;
                dup_index := v_push.dup_index;
                dup_offset := v_push.dup_offset;
                v_bases := v_bases || base_offset;
                v_sinks := v_sinks || partition_id;
                return next;
            end loop;
            if array_position(v_bases, null) is not null then
                raise exception 'duplicates' using errcode = 'QS002';
            end if;
        end if;

        if p_ok is null then
            perform 1 from queen.log_consumers c
            where c.partition_id = p_partition_id and c.consumer_group = p_group for update;
        else
            select * into v_ack from queen.streams_ack_v1(p_partition_id, p_group, p_lease, p_ok, p_count, p_release);
            if v_ack.error is not null then
                raise exception '%', v_ack.error using errcode = 'QS002';
            end if;
            v_count := v_ack.count;
            v_released := v_ack.released;
        end if;

        perform 1 from queen.stream_queries q where q.id = p_query_id for key share;
        insert into queen.stream_cycles as c (query_id, partition_id, request_id, ack_count, lease_released,
                                          base_offsets, sink_ids)
        values (p_query_id, p_partition_id, p_request_id, v_count, v_released, v_bases, v_sinks)
        on conflict (query_id, partition_id) do update
        set request_id = excluded.request_id, ack_count = excluded.ack_count,
            lease_released = excluded.lease_released, base_offsets = excluded.base_offsets,
            sink_ids = excluded.sink_ids
        where not (p_retry and c.request_id = p_request_id);
        if not found then
            raise exception 'repeat' using errcode = 'QS002';
        end if;
        if cardinality(p_types) > 0 then
            perform queen.streams_state_apply_v1(p_query_id, p_partition_id, p_types, p_keys, p_values, p_window_ends);
        end if;
        v_error := null;
    exception when sqlstate 'QS002' then
        v_error := sqlerrm;
        v_count := null;
        v_released := false;
    end;

    -- An earlier try that was still running when this one began shows here at the latest.
    if p_retry and v_error is not null then
        select * into v_cycle from queen.stream_cycles c
        where c.query_id = p_query_id and c.partition_id = p_partition_id and c.request_id = p_request_id;
        if found then
            v_error := null;
            v_count := v_cycle.ack_count;
            v_released := v_cycle.lease_released;
            return query
            select u.ord::int, 1, u.base, u.sink, null::int[], null::bigint[], null::text, null::text, null::int,
                   null::boolean
            from unnest(v_cycle.base_offsets, v_cycle.sink_ids) with ordinality as u (base, sink, ord);
        end if;
    end if;
    return query select null::int, null::int, null::bigint, null::uuid, null::int[], null::bigint[],
                        v_error, v_queue, v_count, v_released;
end
$$;
