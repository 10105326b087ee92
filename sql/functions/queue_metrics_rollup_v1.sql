-- queue_metrics_rollup_v1: measures every queue: what was pushed and consumed since the last look, lag, bytes.
--
-- Parameters: p_min_age_s  nothing is done when the last look is younger
-- Returns:    queues and partitions measured; NULL when another host is at it or has just been
-- Algorithm:  watermarks, all of them; segments and lags by a sample: everything while there are at most
--             c_pages pages of segments and c_cursors cursors, else about that many (a lag costs one or two
--             index probes), so the cost grows with the partitions only. A queue that was neither
--             written nor consumed gets no row in the series. What was there before the first look at a
--             queue counts only when the queue is young.
-- Tables:     queues, log_segments (sample), those of queue_load_v1 (read), queue_usage,
--             queue_metrics_minute, stats (insert, update), queue_usage (delete)
-- Locks:      advisory (try)
create or replace function queen.queue_metrics_rollup_v1(p_min_age_s int, out queues bigint, out partitions bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    c_pages constant numeric := 10000;
    v_now constant timestamptz := clock_timestamp();
    c_cursors constant numeric := 100000;
    v_percent real;
    v_cursors_percent real;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('queen.queue_metrics', 42))
       or (select max(u.measured_at) from queen.queue_usage u) > v_now - make_interval(secs => p_min_age_s) then
        return;
    end if;
    v_percent := least(100, 100 * c_pages * 8192 / greatest(pg_relation_size('queen.log_segments'), 1));
    v_cursors_percent := (select least(100, 100 * c_cursors / greatest(t.reltuples, 1)::numeric) from pg_class t
                          where t.oid = 'queen.log_consumers'::regclass);

    with lag as materialized (
        select p.queue_id, p.last_offset - greatest(c.committed, p.log_start - 1) as lag,
               greatest(1000 * extract(epoch from v_now - h.created_at), 0)::bigint as age_ms
        from queen.log_consumers c tablesample system (v_cursors_percent)
        join queen.log_partitions p on p.id = c.partition_id
        left join lateral (select x.created_at from queen.log_head_v1(p.id, greatest(c.committed + 1, p.log_start)) as x) as h on true
        where p.last_offset > greatest(c.committed, p.log_start - 1)
    ), summed as (
        select jsonb_build_object(
            'time', jsonb_build_object('avg', coalesce(round(avg(l.age_ms) / 1000), 0),
                'median', coalesce(percentile_disc(0.5) within group (order by l.age_ms) / 1000, 0),
                'min', coalesce(min(l.age_ms) / 1000, 0), 'max', coalesce(max(l.age_ms) / 1000, 0)),
            'offset', jsonb_build_object('avg', coalesce(round(avg(l.lag)), 0),
                'median', coalesce(percentile_disc(0.5) within group (order by l.lag), 0),
                'min', coalesce(min(l.lag), 0), 'max', coalesce(max(l.lag), 0))) as value
        from lag l
    ), kept as (
        insert into queen.stats (topic, value, measured_at) select 'lag', s.value, v_now from summed s
        on conflict (topic) do update set value = excluded.value, measured_at = excluded.measured_at
    ), usage as (
        select p.queue_id, round(count(*) * 100 / v_percent)::bigint as segments,
               round(sum(octet_length(s.blob)) * 100 / v_percent)::bigint as bytes
        from queen.log_segments s tablesample system (v_percent)
        join queen.log_partitions p on p.id = s.partition_id
        group by p.queue_id
    ), look as materialized (
        select q.id, coalesce(l.partitions, 0) as partitions, coalesce(l.pushed, 0) as pushed,
               coalesce(l.consumed, 0) as consumed, coalesce(l.pending, 0) as pending,
               coalesce(u.segments, 0) as segments, coalesce(u.bytes, 0) as bytes, g.avg_ms, g.max_ms,
               extract(epoch from v_now - coalesce(o.measured_at, q.created_at)) as seconds,
               coalesce(o.pushed, case when q.created_at > v_now - interval '5 minutes' then 0 else l.pushed end) as old_pushed,
               coalesce(o.consumed, case when q.created_at > v_now - interval '5 minutes' then 0 else l.consumed end) as old_consumed
        from queen.queues q
        left join queen.queue_load_v1(array(select x.id from queen.queues x)) as l on l.queue_id = q.id
        left join usage u on u.queue_id = q.id
        left join queen.queue_usage o on o.queue_id = q.id
        left join (select y.queue_id, round(avg(y.age_ms))::bigint as avg_ms, max(y.age_ms) as max_ms
                   from lag y group by y.queue_id) as g on g.queue_id = q.id
    ), series as (
        insert into queen.queue_metrics_minute as m (minute, queue_id, seconds, pushed, consumed, pending, partitions,
                                                     lag_avg_ms, lag_max_ms)
        select date_trunc('minute', v_now - make_interval(secs => k.seconds::double precision / 2)), k.id,
               greatest(k.seconds, 0.001), greatest(k.pushed - k.old_pushed, 0), greatest(k.consumed - k.old_consumed, 0),
               k.pending, k.partitions, k.avg_ms, k.max_ms
        from look k
        where k.pushed > k.old_pushed or k.consumed > k.old_consumed
        on conflict (minute, queue_id) do update
        set seconds = m.seconds + excluded.seconds, pushed = m.pushed + excluded.pushed,
            consumed = m.consumed + excluded.consumed, pending = excluded.pending,
            partitions = excluded.partitions, lag_avg_ms = excluded.lag_avg_ms,
            lag_max_ms = greatest(m.lag_max_ms, excluded.lag_max_ms)
    ), used as (
        insert into queen.queue_usage as u (queue_id, segments, bytes, pushed, consumed, measured_at)
        select k.id, k.segments, k.bytes, k.pushed, k.consumed, v_now from look k
        on conflict (queue_id) do update
        set segments = excluded.segments, bytes = excluded.bytes, pushed = excluded.pushed,
            consumed = excluded.consumed, measured_at = excluded.measured_at
    )
    select count(*), coalesce(sum(k.partitions), 0)::bigint into queues, partitions from look k;

    delete from queen.queue_usage u where not exists (select 1 from queen.queues q where q.id = u.queue_id);
end
$$;
