-- message_detail_v1: one message with everything known about it.
--
-- Parameters: p_partition_id
--             p_hash    of its transaction id: the lowest retained offset with it is meant
--             p_offset  its offset, when that is known already; p_hash is not looked at then
-- Returns:    no row when the partition does not exist. offset is NULL when the hash is not known;
--             scan_below is where segments without known hashes end. config and consumer_groups: JSON
-- Tables:     log_partitions, queues, log_txns, log_segments, log_consumers, log_dlq (read)
-- Locks:      none
create or replace function queen.message_detail_v1(p_partition_id uuid, p_hash bytea, p_offset bigint)
returns table (partition text, queue text, namespace text, task text, scan_below bigint, "offset" bigint,
               base_offset bigint, created_at timestamptz, blob bytea, status text, consumed_by int,
               total_groups int, lease_expires_at timestamptz, queue_mode boolean, error text, retry_count int,
               config text, consumer_groups text)
language sql stable
as $$
    select p.name, q.name, q.namespace, q.task, p.txns_start, s.off, s.base_offset, s.created_at, s.blob,
           case when s.off is not null then
               queen.message_status_v1(p.id, s.off, g.completed_upto, g.span_from, g.span_to) end,
           (select count(*) from unnest(g.committed) as c (o) where c.o >= s.off)::int, cardinality(g.committed),
           g.lease_expires_at,
           exists (select 1 from queen.log_consumers c
                   where c.partition_id = p.id and c.consumer_group = '__QUEUE_MODE__'),
           d.error, coalesce(d.retry_count, 0),
           json_build_object('leaseTime', q.lease_time, 'retryLimit', q.retry_limit, 'retryDelay', q.retry_delay,
                             'ttl', q.ttl, 'priority', q.priority)::text,
           coalesce((select json_agg(json_build_object(
                         'name', c.consumer_group, 'group', c.consumer_group, 'consumed', c.committed >= s.off,
                         'leaseExpiresAt', case when c.batch_end is not null and c.lease_expires_at >= clock_timestamp()
                                                then queen.time_text_v1(c.lease_expires_at)::json end)
                         order by c.consumer_group)
                     from queen.log_consumers c
                     where c.partition_id = p.id and c.consumer_group <> '__QUEUE_MODE__')::text, '[]')
    from queen.log_partitions p
    join queen.queues q on q.id = p.queue_id
    cross join lateral queen.log_progress_v1(p.id) as g
    left join lateral (
        select a.off, l.base_offset, l.created_at, l.blob
        from (select coalesce(p_offset, (select min(f.found) from queen.log_txn_find_v1(
                  p.id, array[p_hash], greatest(p.txns_start, p.log_start), null, null) as f)) as off) as a
        cross join lateral queen.log_segments_at_v1(array[p.id], array[a.off]) as l) as s on true
    left join lateral (
        select e.error, e.retry_count from queen.log_dlq e
        where e.partition_id = p.id and e."offset" = s.off order by e.failed_at desc limit 1) as d on true
    where p.id = p_partition_id;
$$;
