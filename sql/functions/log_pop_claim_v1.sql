-- log_pop_claim_v1: claims work for many pops in one statement.
--
-- Parameters: one element per claim, aligned
--             p_queue_ids      NULL = the claim gets nothing (unknown queue, group not registered)
--             p_partitions     partition name; NULL = any of the queue
--             p_groups, p_budgets (messages), p_max_partitions, p_lease_seconds (0 = the queue's)
--             p_workers        lease ids
--             p_auto_ack       commit at delivery, no lease
-- Returns:    per served segment one row: claim (1-based), partition, batch, frames [start_idx, start_idx
--             + take); unordered
-- Algorithm:  claims that want the same (queue, partition, group) are served from one list of candidates,
--             oldest claimable first, each its share: so no two claims of a call touch one cursor row.
--             A candidate has something pending behind its cursor, no live lease, and a first pending
--             segment that the queue's gates let through: delayedProcessing D, only segments at least D
--             old; windowBuffer W, nothing while the newest segment is younger than W, unless the first
--             pending one is W old or 100 messages have gathered. A candidate whose pending segments
--             were all deleted has its cursor sealed to last_offset. Offsets behind the first pending
--             segment have no gaps, so the segments of a batch are one range of the primary key.
-- Tables:     queues, log_partitions, log_segments (read), log_consumers (update)
-- Locks, in order: log_consumers FOR UPDATE SKIP LOCKED: never waits.
create or replace function queen.log_pop_claim_v1(p_queue_ids uuid[], p_partitions text[], p_groups text[],
                                                  p_budgets int[], p_max_partitions int[],
                                                  p_lease_seconds int[], p_workers text[],
                                                  p_auto_ack boolean[])
returns table (claim int, partition_id uuid, partition text, batch_end bigint, lease_seconds int,
               attempt int, base_offset bigint, start_idx int, take int, created_at timestamptz,
               blob bytea, rank bigint)
language sql
as $$
    with clock as materialized (
        select clock_timestamp() as now
    ), claims as materialized (
        select u.ord::int as claim, u.queue_id, u.partition, u.consumer_group, u.budget::bigint,
               u.max_partitions, u.worker, u.auto_ack,
               coalesce(nullif(u.lease_seconds, 0), q.lease_time) as lease_seconds,
               make_interval(secs => q.delayed_processing) as delay, q.window_buffer,
               sum(u.max_partitions) over same - u.max_partitions as skip,
               sum(u.max_partitions) over (partition by u.queue_id, u.partition, u.consumer_group) as want
        from unnest(p_queue_ids, p_partitions, p_groups, p_budgets, p_max_partitions, p_lease_seconds,
                    p_workers, p_auto_ack) with ordinality
             as u (queue_id, partition, consumer_group, budget, max_partitions, lease_seconds, worker,
                   auto_ack, ord)
        join queen.queues q on q.id = u.queue_id
        window same as (partition by u.queue_id, u.partition, u.consumer_group order by u.ord)
    ), locked as materialized (
        select k.queue_id, k.pinned, k.consumer_group, x.*,
               row_number() over (partition by k.queue_id, k.pinned, k.consumer_group
                                  order by x.since, x.id) as rank
        from (select distinct c.queue_id, c.partition as pinned, c.consumer_group, c.want, c.delay,
                              c.window_buffer from claims c) as k
        cross join lateral (
            select p.id, p.name, p.last_offset, c.committed, c.attempt_offset, c.attempt_count,
                   h.base_offset as head,
                   greatest(h.created_at + k.delay, c.released_at, c.lease_expires_at) as since
            from queen.log_partitions p
            join queen.log_consumers c on c.partition_id = p.id and c.consumer_group = k.consumer_group
            left join lateral (
                select s.base_offset, s.created_at
                from queen.log_segments s
                where s.partition_id = p.id
                  and s.base_offset >= coalesce((select case when b.end_offset > c.committed then b.base_offset end
                                                 from (select l.base_offset, l.end_offset
                                                       from queen.log_segments l
                                                       where l.partition_id = p.id
                                                         and l.base_offset <= c.committed + 1
                                                       order by l.base_offset desc limit 1) as b),
                                                c.committed + 1)
                order by s.base_offset
                limit 1) as h on true
            where p.queue_id = k.queue_id and (k.pinned is null or p.name = k.pinned)
              and p.last_offset > c.committed
              and (c.worker_id is null or c.lease_expires_at is null
                   or c.lease_expires_at < (select now from clock))
              and (h.base_offset is null
                   or (h.created_at <= (select now from clock) - k.delay
                       and (k.window_buffer = 0
                            or p.last_created_at <= (select now from clock) - make_interval(secs => k.window_buffer)
                            or h.created_at <= (select now from clock) - make_interval(secs => k.window_buffer)
                            or p.last_offset - c.committed >= 100)))
            order by since, p.id
            limit k.want
            for update of c skip locked) as x
    ), sealed as (
        update queen.log_consumers c
        set committed = l.last_offset
        from locked l
        where l.head is null and c.partition_id = l.id and c.consumer_group = l.consumer_group
    ), assigned as (
        select distinct on (l.id, l.consumer_group)
               c.claim, c.budget, c.worker, c.auto_ack, c.lease_seconds, c.delay, l.id, l.name,
               l.consumer_group, l.rank, l.attempt_offset, l.attempt_count, l.last_offset, l.head,
               greatest(l.committed + 1, l.head) as first
        from locked l
        join claims c on c.queue_id = l.queue_id and c.partition is not distinct from l.pinned
                     and c.consumer_group = l.consumer_group
                     and l.rank > c.skip and l.rank <= c.skip + c.max_partitions
        where l.head is not null
        order by l.id, l.consumer_group, c.claim
    ), offered as (
        select a.claim, a.id, a.rank, a.first, a.budget, s.base_offset, s.created_at, s.blob,
               greatest(s.base_offset, a.first) as low,
               s.end_offset - greatest(s.base_offset, a.first) + 1 as frames
        from assigned a
        join queen.log_segments s
            on s.partition_id = a.id and s.base_offset >= a.head and s.base_offset < a.first + a.budget
           and s.end_offset >= a.first and s.created_at <= (select now from clock) - a.delay
    ), counted as (
        select o.*, sum(o.frames) over (partition by o.claim order by o.rank, o.base_offset) - o.frames as before
        from offered o
    ), served as materialized (
        select c.claim, c.id, c.rank, c.base_offset, c.created_at, c.blob, c.low,
               least(c.frames, c.budget - c.before) as take
        from counted c
        where c.before < c.budget
    ), batches as (
        select a.claim, a.id, a.consumer_group, a.worker, a.auto_ack, a.lease_seconds, a.name, a.first,
               a.attempt_offset, a.attempt_count, b.batch_end, b.messages
        from (select s.id, max(s.low + s.take - 1) as batch_end, sum(s.take) as messages, s.claim
              from served s group by s.id, s.claim) as b
        join assigned a on a.id = b.id and a.claim = b.claim
    ), leased as (
        update queen.log_consumers c
        set committed = case when b.auto_ack then b.batch_end else c.committed end,
            batch_end = case when b.auto_ack then null else b.batch_end end,
            worker_id = case when b.auto_ack then null else b.worker end,
            lease_expires_at = case when b.auto_ack then null
                                    else (select now from clock) + make_interval(secs => b.lease_seconds) end,
            lease_acquired_at = case when b.auto_ack then null else (select now from clock) end,
            attempt_offset = case when b.auto_ack then c.attempt_offset else b.first end,
            attempt_count = case when b.auto_ack then c.attempt_count
                                 when c.attempt_offset = b.first then c.attempt_count + 1
                                 else 1 end,
            released_at = case when b.auto_ack then (select now from clock) else c.released_at end,
            total_consumed = c.total_consumed + case when b.auto_ack then b.messages else 0 end
        from batches b
        where c.partition_id = b.id and c.consumer_group = b.consumer_group
        returning b.claim, c.partition_id, b.name, b.batch_end, b.lease_seconds,
                  case when b.auto_ack then 1 else c.attempt_count end as attempt
    )
    select s.claim, s.id, l.name, l.batch_end, l.lease_seconds, l.attempt, s.base_offset,
           (s.low - s.base_offset)::int, s.take::int, s.created_at, s.blob, s.rank
    from served s
    join leased l on l.claim = s.claim and l.partition_id = s.id;
$$;
