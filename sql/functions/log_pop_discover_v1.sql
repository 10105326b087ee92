-- log_pop_discover_v1: one pop over every queue of a namespace or task.
--
-- Parameters: p_namespace, p_task  '' = any; the rest as log_pop_multi_v1
-- Returns:    as log_pop_multi_v1, claim = 1; conflation is NULL when the policies of the queues differ
-- Algorithm:  registers the group on each matching queue, then claims as log_pop_multi_v1 does, from the
--             partitions of all of them, oldest claimable first. Each queue is served by the group's
--             policy there; when all of them conflate, the number of partitions is the only limit.
-- Tables:     queues, consumer_groups_metadata, log_partitions, log_segments, log_consumers
-- Locks, in order: those of log_group_register_v1, then log_consumers FOR UPDATE SKIP LOCKED.
drop function if exists queen.log_pop_discover_v1(text, text, text, int, int, int, text, boolean, text, text);
create or replace function queen.log_pop_discover_v1(p_namespace text, p_task text, p_group text,
                                                     p_budget int, p_max_partitions int,
                                                     p_lease_seconds int, p_worker text,
                                                     p_auto_ack boolean, p_sub_mode text, p_sub_from text,
                                                     p_conflate boolean default null,
                                                     p_width int default null)
returns table (claim int, queue text, partition_id uuid, partition text, batch_end bigint,
               lease_seconds int, attempt int, base_offset bigint, start_idx int, take int,
               created_at timestamptz, blob bytea, retry_after_ms int, conflation boolean, conflated int,
               held boolean, auto_partitions int, auto_batch int)
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
    v_newest_queues uuid[];
    v_newest uuid[];
    v_conflation boolean := coalesce(p_conflate, false);
    v_budget int := p_budget;
    v_max_partitions int := p_max_partitions;
    v_served boolean := false;
begin
    select array_agg(q.id) into v_ids
    from queen.queues q
    where (p_namespace = '' or q.namespace = p_namespace) and (p_task = '' or q.task = p_task);
    if v_ids is not null then
        select array_agg(u.id) filter (where u.registered), array_agg(u.id) filter (where u.conflation),
               case when bool_and(coalesce(u.conflation, p_conflate, false))
                         = bool_or(coalesce(u.conflation, p_conflate, false))
                    then bool_or(coalesce(u.conflation, p_conflate, false)) end
        into v_known, v_newest_queues, v_conflation
        from queen.log_group_register_v1(v_ids, array_fill(p_group, array[cardinality(v_ids)]),
                                         array_fill(p_sub_mode, array[cardinality(v_ids)]),
                                         array_fill(p_sub_from, array[cardinality(v_ids)]),
                                         array_fill(p_conflate, array[cardinality(v_ids)])) as r,
             unnest(v_ids, r.registered, r.conflation) as u (id, registered, conflation);
        if v_conflation then
            v_budget := 2147483647;
            v_max_partitions := coalesce(p_width, 1);
        end if;
        select array_agg(t.partition_id) into v_partitions
        from queen.log_pop_take_v1(array(select 1 from unnest(v_known)), v_known, array[null::text],
                                   array[p_group], array[1], array[v_budget], array[v_max_partitions]) as t;
        if v_newest_queues is not null then
            select array_agg(p.id order by u.ord) filter (where p.queue_id <> all (v_newest_queues)),
                   array_agg(p.id order by u.ord) filter (where p.queue_id = any (v_newest_queues))
            into v_partitions, v_newest
            from unnest(v_partitions) with ordinality as u (id, ord)
            join queen.log_partitions p on p.id = u.id;
        end if;
        return query
        select 1, s.queue, s.partition_id, s.partition, s.batch_end, s.lease_seconds, s.attempt,
               s.base_offset, s.start_idx, s.take, s.created_at, s.blob, null::int, v_conflation, s.conflated,
               false, null::int, null::int
        from (select x.*, null::int as conflated
              from queen.log_pop_serve_v1(array(select 1 from unnest(v_partitions)), v_partitions,
                                          array(select p_group from unnest(v_partitions)), array[p_budget],
                                          array[p_lease_seconds], array[p_worker], array[p_auto_ack]) as x
              union all
              select x.*
              from queen.log_pop_serve_newest_v1(array(select 1 from unnest(v_newest)), v_newest,
                                                 array(select p_group from unnest(v_newest)),
                                                 array[p_lease_seconds], array[p_worker], array[p_auto_ack]) as x
              where v_newest is not null) as s
        order by s.conflated is not null, s.rank, s.base_offset;
        v_served := found;
    end if;
    if not v_served then
        return query
        select 1, null::text, null::uuid, null::text, null::bigint, null::int, null::int, null::bigint,
               null::int, null::int, null::timestamptz, null::bytea,
               case when cardinality(v_known) is distinct from cardinality(v_ids) then c_soon
                    else queen.log_pop_wait_v1(v_ids, null, p_group) end,
               v_conflation, null::int, false, null::int, null::int;
    end if;
end
$$;
