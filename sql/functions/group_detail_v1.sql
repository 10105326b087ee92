-- group_detail_v1: one group: per queue its cursors, by partition name.
--
-- Parameters: p_group
--             p_limit, p_offset  cursors, counted over all queues in order of (queue, partition)
-- Returns:    the answer of GET /api/v1/consumer-groups/:group (contract 2, section 2), as text; {} when
--             the group has no cursor
-- Tables:     those of consumer_lag_v1, consumer_groups_metadata (read)
-- Locks:      none
create or replace function queen.group_detail_v1(p_group text, p_limit int, p_offset int)
returns text
language sql stable
as $$
    select coalesce(json_object_agg(t.queue, json_build_object(
               'conflation', queen.group_conflates_v1(m), 'partitions', t.partitions) order by t.queue), '{}')::text
    from (select c.queue_id, c.queue, json_agg(json_build_object(
                     'partition', c.partition, 'workerId', c.worker_id, 'lastConsumedAt', null,
                     'totalConsumed', c.total_consumed, 'offsetLag', c.lag,
                     'timeLagSeconds', queen.seconds_since_v1(c.oldest), 'leaseActive', c.leased)
                     order by c.partition) as partitions
          from (select x.* from queen.consumer_lag_v1(p_group) as x
                order by x.queue, x.partition
                limit p_limit offset p_offset) as c
          group by c.queue_id, c.queue) as t
    left join queen.consumer_groups_metadata m on m.queue_id = t.queue_id and m.consumer_group = p_group;
$$;
