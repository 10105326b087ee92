-- groups_list_v1: the consumer groups, one entry per (group, queue) that has cursors.
--
-- Parameters: p_limit, p_offset
-- Returns:    the answer of GET /api/v1/consumer-groups (contract 2, section 2), as text
-- Tables:     those of consumer_lag_v1, consumer_groups_metadata (read)
-- Locks:      none
create or replace function queen.groups_list_v1(p_limit int, p_offset int)
returns text
language sql stable
as $$
    select coalesce(json_agg(json_build_object(
               'name', t.consumer_group, 'topics', json_build_array(t.queue), 'queueName', t.queue,
               'members', t.cursors, 'partitionCursors', t.cursors, 'partitionsWithLag', t.lagging,
               'totalLag', t.lag, 'maxTimeLag', t.age,
               'state', case when t.age > 300 then 'Lagging' when t.consumed > 0 then 'Stable' else 'Dead' end,
               'storage', 'segments', 'subscriptionMode', m.subscription_mode,
               'subscriptionTimestamp', queen.time_text_v1(m.subscription_timestamp)::json,
               'subscriptionCreatedAt', queen.time_text_v1(m.created_at)::json,
               'conflation', queen.group_conflates_v1(m)) order by t.consumer_group, t.queue), '[]')::text
    from (select c.consumer_group, c.queue_id, c.queue, count(*) as cursors,
                 count(*) filter (where c.lag > 0) as lagging, sum(c.lag) as lag,
                 max(c.total_consumed) as consumed, queen.seconds_since_v1(min(c.oldest)) as age
          from queen.consumer_lag_v1(null) as c
          group by c.consumer_group, c.queue_id, c.queue
          order by c.consumer_group, c.queue
          limit p_limit offset p_offset) as t
    left join queen.consumer_groups_metadata m
        on m.queue_id = t.queue_id and m.consumer_group = t.consumer_group;
$$;
