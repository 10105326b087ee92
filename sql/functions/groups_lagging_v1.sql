-- groups_lagging_v1: the cursors whose oldest unconsumed message is older than a limit, worst first.
--
-- Parameters: p_min_seconds, p_limit, p_offset
-- Returns:    the answer of GET /api/v1/consumer-groups/lagging (contract 2, section 2), as text
-- Tables:     those of consumer_lag_v1 (read)
-- Locks:      none
create or replace function queen.groups_lagging_v1(p_min_seconds int, p_limit int, p_offset int)
returns text
language sql stable
as $$
    select coalesce(json_agg(json_build_object(
               'consumer_group', t.consumer_group, 'queue_name', t.queue, 'partition_name', t.partition,
               'partition_id', t.partition_id, 'worker_id', t.worker_id, 'offset_lag', t.lag,
               'time_lag_seconds', t.age, 'lag_hours', round(t.age / 3600.0, 2),
               'oldest_unconsumed_at', queen.time_text_v1(t.oldest)::json, 'last_consumed_at', null)
               order by t.oldest, t.partition_id, t.consumer_group), '[]')::text
    from (select c.*, queen.seconds_since_v1(c.oldest) as age
          from queen.consumer_lag_v1(null) as c
          where c.oldest < clock_timestamp() - make_interval(secs => p_min_seconds)
          order by c.oldest, c.partition_id, c.consumer_group
          limit p_limit offset p_offset) as t;
$$;
