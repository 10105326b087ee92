-- log_ack_multi_v1: many positional acks of whole batches, one transaction.
--
-- Parameters: one element per ack, aligned
--             p_pids, p_groups  the cursor
--             p_ends            the batch's end, inclusive
--             p_workers         lease id; '' = lease-less: not validated
--             p_counts          messages, for total_consumed
-- Returns:    a verdict per input, in input order
-- Algorithm:  validates each input against the row: the worker's live lease, an end inside the leased
--             batch; or a repeat of the ack that released exactly that lease and end, which is ok and
--             changes nothing. The highest valid end of a row wins: a cursor advance is monotone. The
--             advance releases the lease; at the batch's end it resets retry and attempt state.
-- Tables:     log_consumers (update)
-- Locks, in order: log_consumers FOR UPDATE ascending by (partition_id, consumer_group).
create or replace function queen.log_ack_multi_v1(p_pids uuid[], p_groups text[], p_ends bigint[],
                                                  p_workers text[], p_counts int[])
returns table (ordinal int, ok boolean, error text)
language plpgsql
set enable_seqscan = off
set enable_hashjoin = off
set enable_mergejoin = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
begin
    if cardinality(p_pids) is distinct from cardinality(p_groups)
       or cardinality(p_pids) is distinct from cardinality(p_ends)
       or cardinality(p_pids) is distinct from cardinality(p_workers)
       or cardinality(p_pids) is distinct from cardinality(p_counts) then
        raise exception 'QACKM misaligned arrays' using errcode = '22023';
    end if;
    return query
    with input as materialized (
        select u.ord, u.pid, u.consumer_group, u.upto, coalesce(u.worker, '') as worker, u.count
        from unnest(p_pids, p_groups, p_ends, p_workers, p_counts) with ordinality
             as u (pid, consumer_group, upto, worker, count, ord)
    ), locked as materialized (
        select c.*
        from (select distinct i.pid, i.consumer_group from input i order by 1, 2 offset 0) as k
        cross join lateral (
            select x.partition_id, x.consumer_group, x.committed, x.batch_end, x.worker_id,
                   x.lease_expires_at, x.attempt_offset, x.released_worker, x.released_end, x.released_signal
            from queen.log_consumers x
            where x.partition_id = k.pid and x.consumer_group = k.consumer_group
            limit 1
            for update) as c
    ), judged as materialized (
        select i.ord, i.upto, i.worker, i.count, l.partition_id, l.consumer_group, l.batch_end,
               l.committed, l.attempt_offset,
               i.worker <> '' and l.released_worker = i.worker and l.released_end = i.upto
                   and l.released_signal is null
                   and (l.worker_id is distinct from i.worker) as repeat,
               case when l.partition_id is null then 'consumer not found'
                    when i.worker <> '' and (l.worker_id is distinct from i.worker
                                             or l.lease_expires_at is null
                                             or l.lease_expires_at < clock_timestamp())
                        then 'invalid or expired lease'
                    when l.batch_end is null then 'no leased batch'
                    when i.upto > l.batch_end then 'position beyond leased batch'
               end as refusal
        from input i
        left join locked l on l.partition_id = i.pid and l.consumer_group = i.consumer_group
    ), advance as (
        select distinct on (j.partition_id, j.consumer_group)
               j.partition_id, j.consumer_group, j.upto, j.worker,
               sum(j.count) over (partition by j.partition_id, j.consumer_group) as count
        from judged j
        where j.refusal is null and not j.repeat
        order by j.partition_id, j.consumer_group, j.upto desc, j.ord
    ), advanced as (
        update queen.log_consumers c
        set committed = greatest(c.committed, a.upto),
            total_consumed = c.total_consumed + a.count,
            released_worker = nullif(a.worker, ''), released_from = coalesce(c.attempt_offset, c.committed + 1),
            released_end = a.upto, released_signal = null, released_offset = null,
            released_upto = greatest(c.committed, a.upto), released_at = clock_timestamp(),
            batch_end = null, worker_id = null, lease_expires_at = null, lease_acquired_at = null,
            batch_retry_count = case when a.upto = c.batch_end then 0 else c.batch_retry_count end,
            attempt_offset = case when a.upto = c.batch_end then null else c.attempt_offset end,
            attempt_count = case when a.upto = c.batch_end then 0 else c.attempt_count end,
            handoff_from = null
        from advance a
        where c.partition_id = a.partition_id and c.consumer_group = a.consumer_group
    )
    select j.ord::int, coalesce(j.repeat, false) or j.refusal is null,
           case when not coalesce(j.repeat, false) then j.refusal end
    from judged j
    order by j.ord;
end
$$;
