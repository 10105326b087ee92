-- queue_depth_v1: how much waits in a queue, by watermarks alone.
--
-- Parameters: p_queue
--             p_group            whose cursor counts; '' = the lowest over all groups
--             p_limit, p_offset  of its partitions, by name; the sums are over all
-- Returns:    the answer of GET /api/v1/resources/queues/:queue/depth (contract 2, section 1), as text;
--             NULL = no such queue
-- Tables:     queues, consumer_groups_metadata, log_partitions, log_consumers (read)
-- Locks:      none
create or replace function queen.queue_depth_v1(p_queue text, p_group text, p_limit int, p_offset int)
returns text
language sql stable
as $$
    with load as materialized (
        select p.partition, p.pending, p.processing, p.pending - p.processing as ready
        from queen.partition_load_v1(array(select q.id from queen.queues q where q.name = p_queue),
                                     nullif(p_group, '')) as p
    )
    select json_build_object(
        'queue', q.name, 'group', nullif(p_group, ''), 'pending', s.pending, 'processing', s.processing,
        'ready', s.ready, 'partitionsPending', s.partitions_pending, 'partitionsReady', s.partitions_ready,
        'conflation', c.conflates,
        'effectivePending', case when c.conflates then s.partitions_pending else s.pending end,
        'effectiveReady', case when c.conflates then s.partitions_ready else s.ready end,
        'partitions', (select coalesce(json_agg(json_build_object(
                                  'partition', p.partition, 'pending', p.pending, 'processing', p.processing,
                                  'ready', p.ready) order by p.partition), '[]')
                       from (select * from load order by partition limit p_limit offset p_offset) as p))::text
    from queen.queues q
    left join queen.consumer_groups_metadata m on m.queue_id = q.id and m.consumer_group = p_group
    cross join lateral (select queen.group_conflates_v1(m) as conflates) as c
    cross join (select coalesce(sum(l.pending), 0) as pending, coalesce(sum(l.processing), 0) as processing,
                       coalesce(sum(l.ready), 0) as ready, count(*) filter (where l.pending > 0) as partitions_pending,
                       count(*) filter (where l.ready > 0) as partitions_ready
                from load l) as s
    where q.name = p_queue;
$$;
