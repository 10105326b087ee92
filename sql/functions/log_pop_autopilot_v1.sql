-- log_pop_autopilot_v1: chooses what autopilot claims leave open, from what is ready.
--
-- Parameters: one element per claim, aligned; as log_pop_multi_v1. A budget or a number of partitions of 0
--             is to be chosen.
-- Returns:    the same two arrays without zeros
-- Algorithm:  partitions: as many as have been ready for longer than the other consumers need to come for
--             them (25 ms), 1 to 64. Budget: what is ready on so many, 100 to 1000.
-- Tables:     those of log_pop_pending_v1 (read)
-- Locks:      none
create or replace function queen.log_pop_autopilot_v1(p_queue_ids uuid[], p_partitions text[], p_groups text[],
                                                      p_budgets int[], p_max_partitions int[],
                                                      out budgets int[], out max_partitions int[])
language sql stable
as $$
    select array_agg(case when u.budget > 0 then u.budget
                          else least(greatest(coalesce(b.ready, 0), 100), 1000) end order by u.ord),
           array_agg(w.width order by u.ord)
    from (select clock_timestamp() as now) as n,
         unnest(p_queue_ids, p_partitions, p_groups, p_budgets, p_max_partitions) with ordinality
             as u (queue_id, partition, consumer_group, budget, max_partitions, ord)
    cross join lateral (
        select array_agg(k.sure order by k.claimable_at) as sure,
               count(*) filter (where k.claimable_at < n.now - interval '25 milliseconds') as overdue
        from (select x.sure, x.claimable_at
              from queen.log_pop_pending_v1(array[u.queue_id], u.partition, u.consumer_group, n.now) as x
              where (u.budget = 0 or u.max_partitions = 0) and x.claimable_at < n.now
              order by x.claimable_at
              limit 64) as k) as r
    cross join lateral (
        select case when u.max_partitions > 0 then u.max_partitions
                    else greatest(r.overdue, 1) end::int as width) as w
    cross join lateral (select sum(s) as ready from unnest(r.sure[1 : w.width]) as s) as b;
$$;
