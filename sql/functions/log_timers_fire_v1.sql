-- log_timers_fire_v1: stores the messages of timers that are due and deletes the timers, in one
-- transaction: every timer delivers once, whoever fires and whenever it dies.
--
-- Parameters: p_limit  most timers
-- Returns:    a row per partition whose timers were fired (queue, partition, fired), and one with NULL as
--             queue: how many were, and in how many microseconds the next is due (0 = now; NULL = there
--             is none, or firing is switched off)
-- Algorithm:  timers whose time has come by this server's clock, earliest first, passing over those that
--             another host is firing. Those of a partition become one segment: blobs of one frame each,
--             put together, are a blob. An id that is in the dedup window already, or twice among them,
--             counts as fired and is not stored again.
-- Tables:     log_timers (delete), queues, system_state (read); those of log_push_multi_v1
-- Locks, in order: log_timers rows (never waiting), then those of log_push_multi_v1
create or replace function queen.log_timers_fire_v1(p_limit int)
returns table (queue text, partition text, fired bigint, next_us bigint)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_now timestamptz := clock_timestamp();
    v_queues text[];
    v_partitions text[];
    v_hashes bytea[];
    v_blobs bytea[];
    v_fired_queues text[];
    v_fired_partitions text[];
begin
    if not queen.switch_is_on_v1('timers_fire_enabled') then
        return query select null::text, null::text, 0::bigint, null::bigint;
        return;
    end if;

    with due as (
        select t.queue, t.timer_key
        from queen.log_timers t
        where t.visible_at <= v_now
        order by t.visible_at
        limit p_limit
        for update skip locked
    ), taken as (
        delete from queen.log_timers t using due d
        where t.queue = d.queue and t.timer_key = d.timer_key
        returning t.queue, t.timer_key, t.partition, t.deliver_at, t.hash, t.blob
    ), ranked as (
        select k.*, row_number() over w as repeat
        from taken k
        window w as (partition by k.queue, k.partition, k.hash order by k.deliver_at, k.timer_key)
    )
    select array_agg(r.queue order by r.deliver_at, r.timer_key) filter (where s.stored),
           array_agg(r.partition order by r.deliver_at, r.timer_key) filter (where s.stored),
           array_agg(r.hash order by r.deliver_at, r.timer_key) filter (where s.stored),
           array_agg(r.blob order by r.deliver_at, r.timer_key) filter (where s.stored),
           array_agg(r.queue), array_agg(r.partition)
    into v_queues, v_partitions, v_hashes, v_blobs, v_fired_queues, v_fired_partitions
    from ranked r
    left join queen.queues q on q.name = r.queue
    cross join lateral (select r.repeat = 1 or q.dedup_window_seconds = 0 as stored) as s;

    -- A segment with repeats of stored ids is refused as a whole: the second round is without them.
    while v_queues is not null loop
        with items as (
            select u.*, row_number() over (partition by u.queue, u.partition order by u.ord) - 1 as place
            from unnest(v_queues, v_partitions, v_hashes, v_blobs)
                 with ordinality as u (queue, partition, hash, blob, ord)
        ), segments as (
            select i.queue, i.partition, count(*)::int as count,
                   string_agg(i.hash, ''::bytea order by i.ord) as hashes,
                   string_agg(i.blob, ''::bytea order by i.ord) as blob,
                   row_number() over (order by i.queue, i.partition) as ord
            from items i
            group by i.queue, i.partition
        ), verdicts as materialized (
            select p.*
            from (select array_agg(s.queue order by s.ord) as queues,
                         array_agg(s.partition order by s.ord) as partitions,
                         array_agg(s.count order by s.ord) as counts,
                         array_agg(s.hashes order by s.ord) as hashes,
                         array_agg(-1::bigint order by s.ord) as verified,
                         array_agg(s.blob order by s.ord) as blobs
                  from segments s) as a
            cross join lateral queen.log_push_multi_v1(a.queues, a.partitions, a.counts, a.hashes, a.verified,
                                                       a.blobs, null::uuid, false) as p
        )
        select array_agg(i.queue order by i.ord), array_agg(i.partition order by i.ord),
               array_agg(i.hash order by i.ord), array_agg(i.blob order by i.ord)
        into v_queues, v_partitions, v_hashes, v_blobs
        from items i
        join segments s on s.queue = i.queue and s.partition = i.partition
        join verdicts v on v.ordinal = s.ord
        where v.status = 2 and i.place <> all (v.dup_index);
    end loop;

    return query
    select u.queue, u.partition, count(*), null::bigint
    from unnest(v_fired_queues, v_fired_partitions) as u (queue, partition)
    group by u.queue, u.partition;
    return query
    select null::text, null::text, coalesce(cardinality(v_fired_queues), 0)::bigint,
           (select greatest(ceil(extract(epoch from t.visible_at - clock_timestamp()) * 1000000), 0)::bigint
            from queen.log_timers t order by t.visible_at limit 1);
end
$$;
