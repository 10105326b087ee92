-- log_pop_multi_v1: the claims of many pops, in one transaction.
--
-- Parameters: one element per claim, aligned
--             p_queues, p_partitions (NULL = any partition of the queue), p_groups
--             p_budgets        messages at most, over all its partitions; 0 = chosen here (autopilot)
--             p_max_partitions partitions at most; 0 = chosen here
--             p_lease_seconds  0 = the queue's leaseTime
--             p_workers        lease ids
--             p_auto_ack       commit at delivery
--             p_sub_modes ('all', 'new'), p_sub_froms ('', 'now', a timestamp): a first contact's start
--             p_conflate  the policy that the pop asks for; NULL = none. A stored one decides.
--             p_hold_ms   how long the claim may be held for more to come (minPopWaitTime); 0 = not at all
--             p_widths    partitions at most, when the group conflates
-- Returns:    per served segment one row, ordered by claim, partition in claim order, base_offset; a claim
--             that got nothing one row with partition_id NULL and retry_after_ms: how long until something
--             may become claimable, NULL = nothing pending. On every row: conflation: the policy that
--             applies; held: something is claimable, but the caller waits for more; auto_partitions and
--             auto_batch: what was chosen. conflated: see log_pop_serve_newest_v1; NULL = not conflating.
-- Algorithm:  unknown queues are created and groups registered, both at first contact only and for all
--             claims before any cursor is locked. Claims that want the same (queue, partition, group),
--             a target, share one look for candidates. A handful of statements does it for all targets.
--             What only few claims need (a conflating group, autopilot, minPopWaitTime) costs the others a
--             comparison.
-- Tables:     queues, consumer_groups_metadata, log_partitions, log_segments, log_consumers
-- Locks, in order: new queues rows (log_queue_create_v1), those of log_group_register_v1, then
--             log_consumers FOR UPDATE SKIP LOCKED.
drop function if exists queen.log_pop_multi_v1(text[], text[], text[], int[], int[], int[], text[], boolean[],
                                              text[], text[]);
create or replace function queen.log_pop_multi_v1(p_queues text[], p_partitions text[], p_groups text[],
                                                  p_budgets int[], p_max_partitions int[],
                                                  p_lease_seconds int[], p_workers text[],
                                                  p_auto_ack boolean[], p_sub_modes text[],
                                                  p_sub_froms text[], p_conflate boolean[] default null,
                                                  p_hold_ms int[] default null,
                                                  p_widths int[] default null)
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
    v_registered boolean[];
    v_conflation boolean[];
    v_waits int[];                  -- minPopWaitTime of the queues
    v_holds int[];                  -- by claim: NULL = serve it, else hold it so long
    v_budgets int[] := p_budgets;
    v_max_partitions int[] := p_max_partitions;
    v_claim_targets int[];          -- by claim; NULL = its group is not registered
    v_target_ids uuid[];            -- by target
    v_target_partitions text[];
    v_target_groups text[];
    v_claims int[];
    v_partitions uuid[];
    v_newest_claims int[];
    v_newest_partitions uuid[];
begin
    for v_try in 1 .. 2 loop
        select array_agg(q.id order by u.ord), array_agg(q.min_pop_wait_time order by u.ord) into v_ids, v_waits
        from unnest(p_queues) with ordinality as u (name, ord)
        left join queen.queues q on q.name = u.name;
        exit when array_position(v_ids, null) is null;
        perform queen.log_queue_create_v1(p_queues);
    end loop;
    select r.registered, r.conflation into v_registered, v_conflation
    from queen.log_group_register_v1(v_ids, p_groups, p_sub_modes, p_sub_froms, p_conflate) as r;

    if true = any (v_conflation) then
        -- One message a partition: only the number of partitions limits such a claim.
        select array_agg(case when u.conflates then 2147483647 else u.budget end order by u.ord),
               array_agg(case when u.conflates then coalesce(u.width, 1) else u.max_partitions end order by u.ord)
        into v_budgets, v_max_partitions
        from unnest(v_conflation, p_budgets, p_max_partitions, p_widths) with ordinality
            as u (conflates, budget, max_partitions, width, ord);
    end if;
    if 0 = any (v_budgets) or 0 = any (v_max_partitions) then
        select a.budgets, a.max_partitions into v_budgets, v_max_partitions
        from queen.log_pop_autopilot_v1(v_ids, p_partitions, p_groups, v_budgets, v_max_partitions) as a;
    end if;
    if 0 < any (v_waits) and 0 < any (p_hold_ms) then
        v_holds := queen.log_pop_hold_v1(v_ids, p_partitions, p_groups, v_budgets, v_waits,
                                         array(select case when c then 0 else h end
                                               from unnest(v_conflation, p_hold_ms) as u (c, h)));
    end if;

    select array_agg(case when u.registered and u.hold is null then u.target end order by u.ord),
           array_agg(u.id order by u.target) filter (where u.first),
           array_agg(u.partition order by u.target) filter (where u.first),
           array_agg(u.consumer_group order by u.target) filter (where u.first)
    into v_claim_targets, v_target_ids, v_target_partitions, v_target_groups
    from (select w.*, dense_rank() over (order by w.id, w.partition, w.consumer_group)::int as target,
                 row_number() over (partition by w.id, w.partition, w.consumer_group order by w.ord) = 1 as first
          from unnest(v_ids, p_partitions, p_groups, v_registered, v_holds) with ordinality
               as w (id, partition, consumer_group, registered, hold, ord)) as u;
    select array_agg(t.claim), array_agg(t.partition_id) into v_claims, v_partitions
    from queen.log_pop_take_v1(array(select generate_series(1, cardinality(v_target_ids))), v_target_ids,
                               v_target_partitions, v_target_groups, v_claim_targets, v_budgets,
                               v_max_partitions) as t;
    if true = any (v_conflation) then
        select array_agg(u.claim order by u.ord) filter (where not v_conflation[u.claim]),
               array_agg(u.partition_id order by u.ord) filter (where not v_conflation[u.claim]),
               array_agg(u.claim order by u.ord) filter (where v_conflation[u.claim]),
               array_agg(u.partition_id order by u.ord) filter (where v_conflation[u.claim])
        into v_claims, v_partitions, v_newest_claims, v_newest_partitions
        from unnest(v_claims, v_partitions) with ordinality as u (claim, partition_id, ord);
    end if;

    return query
    with served as materialized (
        select s.*, null::int as conflated
        from queen.log_pop_serve_v1(v_claims, v_partitions, array(select p_groups[c] from unnest(v_claims) as c),
                                    v_budgets, p_lease_seconds, p_workers, p_auto_ack) as s
        union all
        select s.*
        from queen.log_pop_serve_newest_v1(v_newest_claims, v_newest_partitions,
                                           array(select p_groups[c] from unnest(v_newest_claims) as c),
                                           p_lease_seconds, p_workers, p_auto_ack) as s
        where v_newest_claims is not null
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
           t.base_offset, t.start_idx, t.take, t.created_at, t.blob, t.ms,
           coalesce(v_conflation[t.claim], p_conflate[t.claim], false), t.conflated, v_holds[t.claim] is not null,
           case when p_max_partitions[t.claim] = 0 then v_max_partitions[t.claim] end,
           case when p_budgets[t.claim] = 0 then v_budgets[t.claim] end
    from (select s.claim, s.queue, s.partition_id, s.partition, s.batch_end, s.lease_seconds, s.attempt,
                 s.base_offset, s.start_idx, s.take, s.created_at, s.blob, null::int as ms, s.conflated, s.rank
          from served s
          union all
          select e.claim, p_queues[e.claim], null, null, null, null, null, null, null, null, null, null,
                 case when v_holds[e.claim] is not null then v_holds[e.claim]
                      when e.target is null then c_soon else w.ms end, null, 0
          from empty e
          left join waits w on w.target = e.target) as t
    order by t.claim, t.rank, t.base_offset;
end
$$;
