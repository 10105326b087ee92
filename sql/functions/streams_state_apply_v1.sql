-- streams_state_apply_v1: writes state of a query on one partition, in the caller's transaction.
--
-- Parameters: p_query_id, p_partition_id
--             p_types        upsert or delete; of several on one key the last counts
--             p_keys, p_values, p_window_ends  aligned; the latter two are NULL for a delete
-- Returns:    nothing
-- Tables:     queen.stream_state (insert, update, delete)
-- Locks:      state rows; the caller holds the (query, partition)'s row of queen.stream_cycles, without
--             which nobody writes them.
create or replace function queen.streams_state_apply_v1(p_query_id uuid, p_partition_id uuid, p_types text[],
                                                        p_keys text[], p_values text[],
                                                        p_window_ends double precision[])
returns void
language sql
as $$
    with last as materialized (
        select distinct on (u.key) u.key, u.type, u.value, u.window_end
        from unnest(p_types, p_keys, p_values, p_window_ends) with ordinality
             as u (type, key, value, window_end, ord)
        order by u.key, u.ord desc
    ), deleted as (
        delete from queen.stream_state s
        using last l
        where l.type = 'delete' and s.query_id = p_query_id and s.partition_id = p_partition_id and s.key = l.key
    )
    insert into queen.stream_state as s (query_id, partition_id, key, value, window_end, updated_at)
    select p_query_id, p_partition_id, l.key, l.value, l.window_end, clock_timestamp()
    from last l
    where l.type = 'upsert'
    on conflict (query_id, partition_id, key) do update
    set value = excluded.value, window_end = excluded.window_end, updated_at = excluded.updated_at;
$$;
