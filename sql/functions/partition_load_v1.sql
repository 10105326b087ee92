-- partition_load_v1: what lies in partitions and how far it is consumed, by watermarks alone.
--
-- Parameters: p_queue_ids  the queues
--             p_group      whose cursor counts; NULL = the lowest over all groups
-- Returns:    a row per partition. total = retained messages; pending = behind the cursor (without one:
--             everything retained), leased ones included; processing = in live leases, at most pending;
--             wanted = first offset not consumed; consumed = positions retired, over the groups that count
-- Tables:     log_partitions, log_consumers (read); log_dlq (index, only when dead is asked for)
-- Locks:      none
create or replace function queen.partition_load_v1(p_queue_ids uuid[], p_group text default null)
returns table (queue_id uuid, partition_id uuid, partition text, created_at timestamptz,
               last_write_at timestamptz, newest timestamptz, last_offset bigint, log_start bigint,
               wanted bigint, total bigint, pending bigint, processing bigint, consumed bigint, dead bigint)
language sql stable
as $$
    select t.queue_id, t.id, t.name, t.created_at, t.last_write_at,
           case when t.oldest_live_at is not null then t.last_created_at end, t.last_offset, t.log_start,
           t.wanted, greatest(t.last_offset - t.log_start + 1, 0), t.pending, least(t.leased, t.pending),
           t.consumed, (select count(*) from queen.log_dlq d where d.partition_id = t.id)
    from (select p.queue_id, p.id, p.name, p.created_at, p.last_write_at, p.oldest_live_at,
                 p.last_created_at, p.last_offset, p.log_start,
                 greatest(coalesce(min(c.committed), -1) + 1, p.log_start) as wanted,
                 greatest(p.last_offset - greatest(coalesce(min(c.committed), -1), p.log_start - 1), 0) as pending,
                 coalesce(sum(greatest(c.batch_end - greatest(c.committed, p.log_start - 1), 0))
                              filter (where c.lease_expires_at >= clock_timestamp()), 0)::bigint as leased,
                 coalesce(sum(c.total_consumed), 0)::bigint as consumed
          from queen.log_partitions p
          left join queen.log_consumers c
              on c.partition_id = p.id and (p_group is null or c.consumer_group = p_group)
          where p.queue_id = any (p_queue_ids)
          group by p.id) as t;
$$;
