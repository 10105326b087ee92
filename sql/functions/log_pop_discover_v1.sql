-- log_pop_discover_v1: one pop over every queue of a namespace or task.
--
-- Parameters: p_namespace, p_task  '' = any; the rest as log_pop_multi_v1
-- Returns:    as log_pop_multi_v1, claim = 1
-- Algorithm:  registers the group on each matching queue, then claims queue by queue until the budget or
--             p_max_partitions is spent; in random order, so that no queue starves.
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
set jit = off
as $$
#variable_conflict use_column
declare
    v_ids uuid[];
    v_names text[];
    v_registered boolean[];
    v_left int := p_budget;
    v_partitions int := p_max_partitions;
    v_wait int;
    v_row record;
    v_last uuid;
begin
    select array_agg(t.id), array_agg(t.name) into v_ids, v_names
    from (select q.id, q.name from queen.queues q
          where (p_namespace = '' or q.namespace = p_namespace) and (p_task = '' or q.task = p_task)
          order by random()) as t;
    if v_ids is not null then
        v_registered := queen.log_group_register_v1(
            v_ids, array_fill(p_group, array[cardinality(v_ids)]),
            array_fill(p_sub_mode, array[cardinality(v_ids)]), array_fill(p_sub_from, array[cardinality(v_ids)]));
        for i in 1 .. cardinality(v_ids) loop
            exit when v_left < 1 or v_partitions < 1;
            if not v_registered[i] then
                v_wait := 20;
                continue;
            end if;
            v_last := null;
            for v_row in
                select s.* from queen.log_pop_claim_v1(array[v_ids[i]], array[null::text], array[p_group],
                                                       array[v_left], array[v_partitions],
                                                       array[p_lease_seconds], array[p_worker],
                                                       array[p_auto_ack]) as s
                order by s.rank, s.base_offset
            loop
                if v_row.partition_id is distinct from v_last then
                    v_partitions := v_partitions - 1;
                    v_last := v_row.partition_id;
                end if;
                v_left := v_left - v_row.take;
                return query select 1, v_names[i], v_row.partition_id, v_row.partition, v_row.batch_end,
                                    v_row.lease_seconds, v_row.attempt, v_row.base_offset, v_row.start_idx,
                                    v_row.take, v_row.created_at, v_row.blob, null::int;
            end loop;
            if v_left = p_budget then
                v_wait := least(v_wait, queen.log_pop_wait_v1(v_ids[i], null, p_group));
            end if;
        end loop;
    end if;
    if v_left = p_budget then
        return query select 1, null::text, null::uuid, null::text, null::bigint, null::int, null::int,
                            null::bigint, null::int, null::int, null::timestamptz, null::bytea, v_wait;
    end if;
end
$$;
