-- log_pop_discover_v1: one pop over every queue of a namespace or task.
--
-- Parameters: p_namespace, p_task  '' = any; the rest as log_pop_multi_v1
-- Returns:    as log_pop_multi_v1, claim = 1
-- Algorithm:  registers the group on each matching queue, then claims as log_pop_multi_v1 does, from the
--             partitions of all of them, oldest claimable first.
-- Tables:     queues, consumer_groups_metadata, log_partitions, log_segments, log_consumers
-- Locks, in order: those of log_group_register_v1, then log_consumers FOR UPDATE SKIP LOCKED.
create or replace function queen.log_pop_discover_v1(p_namespace text, p_task text, p_group text,
                                                     p_budget int, p_max_partitions int,
                                                     p_lease_seconds int, p_worker text,
                                                     p_auto_ack boolean, p_sub_mode text, p_sub_from text)
returns table (claim int, queue text, partition_id uuid, partition text, batch_end bigint,
               lease_seconds int, attempt int, base_offset bigint, start_idx int, take int,
               created_at timestamptz, blob bytea, retry_after_ms int)
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
    c_soon constant int := 20;      -- ms
    v_ids uuid[];
    v_known uuid[];
    v_partitions uuid[];
    v_served boolean := false;
begin
    select array_agg(q.id) into v_ids
    from queen.queues q
    where (p_namespace = '' or q.namespace = p_namespace) and (p_task = '' or q.task = p_task);
    if v_ids is not null then
        select array_agg(u.id) into v_known
        from unnest(v_ids, queen.log_group_register_v1(
                               v_ids, array_fill(p_group, array[cardinality(v_ids)]),
                               array_fill(p_sub_mode, array[cardinality(v_ids)]),
                               array_fill(p_sub_from, array[cardinality(v_ids)]))) as u (id, registered)
        where u.registered;
        select array_agg(t.partition_id) into v_partitions
        from queen.log_pop_take_v1(array(select 1 from unnest(v_known)), v_known, array[null::text],
                                   array[p_group], array[1], array[p_budget], array[p_max_partitions]) as t;
        return query
        select 1, s.queue, s.partition_id, s.partition, s.batch_end, s.lease_seconds, s.attempt,
               s.base_offset, s.start_idx, s.take, s.created_at, s.blob, null::int
        from queen.log_pop_serve_v1(array(select 1 from unnest(v_partitions)), v_partitions,
                                    array(select p_group from unnest(v_partitions)), array[p_budget],
                                    array[p_lease_seconds], array[p_worker], array[p_auto_ack]) as s
        order by s.rank, s.base_offset;
        v_served := found;
    end if;
    if not v_served then
        return query
        select 1, null::text, null::uuid, null::text, null::bigint, null::int, null::int, null::bigint,
               null::int, null::int, null::timestamptz, null::bytea,
               case when cardinality(v_known) is distinct from cardinality(v_ids) then c_soon
                    else queen.log_pop_wait_v1(v_ids, null, p_group) end;
    end if;
end
$$;
