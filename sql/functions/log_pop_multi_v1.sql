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
-- Algorithm:  unknown queues are created, groups registered (both at first contact only), then
--             log_pop_claim_v1.
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
set jit = off
as $$
#variable_conflict use_column
declare
    v_ids uuid[];
    v_registered boolean[];
begin
    for v_try in 1 .. 2 loop
        select array_agg(q.id order by u.ord) into v_ids
        from unnest(p_queues) with ordinality as u (name, ord)
        left join queen.queues q on q.name = u.name;
        exit when array_position(v_ids, null) is null;
        perform queen.log_queue_create_v1(p_queues);
    end loop;
    v_registered := queen.log_group_register_v1(v_ids, p_groups, p_sub_modes, p_sub_froms);

    return query
    with served as materialized (
        select s.* from queen.log_pop_claim_v1(v_ids, p_partitions, p_groups, p_budgets, p_max_partitions,
                                               p_lease_seconds, p_workers, p_auto_ack) as s
    )
    select u.ord::int, u.queue, s.partition_id, s.partition, s.batch_end, s.lease_seconds, s.attempt,
           s.base_offset, s.start_idx, s.take, s.created_at, s.blob,
           case when s.claim is not null then null
                when not u.registered then 20
                else queen.log_pop_wait_v1(u.queue_id, u.pinned, u.consumer_group) end
    from unnest(p_queues, v_ids, p_partitions, p_groups, v_registered) with ordinality
         as u (queue, queue_id, pinned, consumer_group, registered, ord)
    left join served s on s.claim = u.ord
    order by u.ord, s.rank, s.base_offset;
end
$$;
