-- log_pop_hold_v1: minPopWaitTime: which claims would come back under-full, and may wait for more.
--
-- Parameters: one element per claim, aligned
--             p_queue_ids, p_partitions, p_groups, p_budgets  as log_pop_multi_v1
--             p_waits    minPopWaitTime of the queue, ms; 0 = off
--             p_hold_ms  how long the caller can still be held; 0 or NULL = not at all
-- Returns:    per claim: NULL = serve it now, else ask again in so many milliseconds
-- Algorithm:  a claim is held while something is claimable, but less than its budget on all partitions of
--             the queue, and the first of it has been claimable for less than minPopWaitTime.
-- Tables:     those of log_pop_pending_v1 (read)
-- Locks:      none
create or replace function queen.log_pop_hold_v1(p_queue_ids uuid[], p_partitions text[], p_groups text[],
                                                 p_budgets int[], p_waits int[], p_hold_ms int[])
returns int[]
language sql stable
as $$
    select array_agg(case when e.ready < u.budget and e.until > n.now
                          then least(ceil(1000 * extract(epoch from e.until - n.now)), u.hold_ms)::int end
                     order by u.ord)
    from (select clock_timestamp() as now) as n,
         unnest(p_queue_ids, p_partitions, p_groups, p_budgets, p_waits, p_hold_ms) with ordinality
             as u (queue_id, partition, consumer_group, budget, wait, hold_ms, ord)
    cross join lateral (
        select sum(k.sure) as ready, min(k.claimable_at) + make_interval(secs => u.wait / 1000.0) as until
        from queen.log_pop_pending_v1(array[u.queue_id], u.partition, u.consumer_group, n.now) as k
        where u.wait > 0 and u.hold_ms > 0 and u.budget > 1 and k.claimable_at < n.now) as e;
$$;
