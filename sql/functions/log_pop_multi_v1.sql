-- log_pop_multi_v1: the claims of many pops, in one transaction.
--
-- Parameters: one element per claim, aligned
--             p_queues, p_partitions (NULL = any partition of the queue), p_groups
--             p_budgets        messages at most, over all its partitions
--             p_max_partitions partitions at most
--             p_lease_seconds  0 = the queue's leaseTime
--             p_workers        lease ids
--             p_auto_ack       commit at delivery
--             p_sub_modes ('all', 'new'), p_sub_froms ('', 'now', a timestamp): a first contact's start
-- Returns:    per served segment one row, ordered by claim, partition in claim order, base_offset; a claim
--             that got nothing one row with partition_id NULL and retry_after_ms: how long until something
--             may become claimable, NULL = nothing pending.
-- Algorithm:  unknown queues are created and groups registered, both at first contact only and for all
--             claims before any cursor is locked. Claims that want the same (queue, partition, group),
--             a target, share one look for candidates. A handful of statements does it for all targets.
-- Tables:     queues, consumer_groups_metadata, log_partitions, log_segments, log_consumers
-- Locks, in order: new queues rows (log_queue_create_v1), those of log_group_register_v1, then
--             log_consumers FOR UPDATE SKIP LOCKED.
create or replace function queen.log_pop_multi_v1(p_queues text[], p_partitions text[], p_groups text[],
                                                  p_budgets int[], p_max_partitions int[],
                                                  p_lease_seconds int[], p_workers text[],
                                                  p_auto_ack boolean[], p_sub_modes text[],
                                                  p_sub_froms text[])
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
    v_registered boolean[];
    v_claim_targets int[];          -- by claim; NULL = its group is not registered
    v_target_ids uuid[];            -- by target
    v_target_partitions text[];
    v_target_groups text[];
    v_claims int[];
    v_partitions uuid[];
begin
    for v_try in 1 .. 2 loop
        select array_agg(q.id order by u.ord) into v_ids
        from unnest(p_queues) with ordinality as u (name, ord)
        left join queen.queues q on q.name = u.name;
        exit when array_position(v_ids, null) is null;
        perform queen.log_queue_create_v1(p_queues);
    end loop;
    v_registered := queen.log_group_register_v1(v_ids, p_groups, p_sub_modes, p_sub_froms);

    select array_agg(case when u.registered then u.target end order by u.ord),
           array_agg(u.id order by u.target) filter (where u.first),
           array_agg(u.partition order by u.target) filter (where u.first),
           array_agg(u.consumer_group order by u.target) filter (where u.first)
    into v_claim_targets, v_target_ids, v_target_partitions, v_target_groups
    from (select w.*, dense_rank() over (order by w.id, w.partition, w.consumer_group)::int as target,
                 row_number() over (partition by w.id, w.partition, w.consumer_group order by w.ord) = 1 as first
          from unnest(v_ids, p_partitions, p_groups, v_registered) with ordinality
               as w (id, partition, consumer_group, registered, ord)) as u;
    select array_agg(t.claim), array_agg(t.partition_id) into v_claims, v_partitions
    from queen.log_pop_take_v1(array(select generate_series(1, cardinality(v_target_ids))), v_target_ids,
                               v_target_partitions, v_target_groups, v_claim_targets, p_budgets,
                               p_max_partitions) as t;

    return query
    with served as materialized (
        select s.*
        from queen.log_pop_serve_v1(v_claims, v_partitions, array(select p_groups[c] from unnest(v_claims) as c),
                                    p_budgets, p_lease_seconds, p_workers, p_auto_ack) as s
    ), empty as materialized (
        select u.ord::int as claim, u.target
        from unnest(v_claim_targets) with ordinality as u (target, ord)
        where not exists (select 1 from served s where s.claim = u.ord)
    ), waits as materialized (
        select t.target, queen.log_pop_wait_v1(array[v_target_ids[t.target]], v_target_partitions[t.target],
                                               v_target_groups[t.target]) as ms
        from (select distinct e.target from empty e where e.target is not null) as t
    )
    select t.claim, t.queue, t.partition_id, t.partition, t.batch_end, t.lease_seconds, t.attempt,
           t.base_offset, t.start_idx, t.take, t.created_at, t.blob, t.ms
    from (select s.claim, s.queue, s.partition_id, s.partition, s.batch_end, s.lease_seconds, s.attempt,
                 s.base_offset, s.start_idx, s.take, s.created_at, s.blob, null::int as ms, s.rank
          from served s
          union all
          select e.claim, p_queues[e.claim], null, null, null, null, null, null, null, null, null, null,
                 case when e.target is null then c_soon else w.ms end, 0
          from empty e
          left join waits w on w.target = e.target) as t
    order by t.claim, t.rank, t.base_offset;
end
$$;
