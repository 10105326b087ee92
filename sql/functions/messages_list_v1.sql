-- messages_list_v1: stored messages, newest first.
--
-- Parameters: p_queue, p_partition, p_namespace, p_task, p_status  '' = all
--             p_from, p_to  of created_at, both inclusive; NULL = the last hour, no end
--             p_limit, p_offset
-- Returns:    one row per message. blob: its segment, on the first row of each segment; NULL on the
--             others, and on all of a segment when the segments before it hold 64 MB together
-- Algorithm:  partitions that can hold any, by their last write, newest first, until none can hold anything newer than
--             the page's last message. In each, the window and the status bound the offsets, so that
--             what lies outside is not looked at; then its segments backwards, at most one page full.
-- Tables:     queues, log_partitions, log_segments, log_consumers, log_dlq (read)
-- Locks:      none
create or replace function queen.messages_list_v1(p_queue text, p_partition text, p_namespace text, p_task text,
                                                  p_status text, p_from timestamptz, p_to timestamptz,
                                                  p_limit int, p_offset int)
returns table (partition_id uuid, partition text, queue text, namespace text, task text, base_offset bigint,
               "offset" bigint, created_at timestamptz, status text, consumed_by int, total_groups int,
               lease_expires_at timestamptz, blob bytea)
language plpgsql stable
set jit = off
as $$
#variable_conflict use_column
declare
    c_blob_bytes constant bigint := 64 << 20;
    v_need constant bigint := greatest(p_limit, 0)::bigint + greatest(p_offset, 0);
    v_now constant timestamptz := clock_timestamp();
    -- The oldest that can still be on the page: the window's begin, then the page's last message.
    v_floor timestamptz := coalesce(p_from, v_now - interval '1 hour');
    v_part record;
    v_progress record;
    v_low bigint;
    v_high bigint;
    v_found record;
    v_pids uuid[] := '{}';       -- what was found, newest first once it is cut to v_need
    v_bases bigint[] := '{}';
    v_offsets bigint[] := '{}';
    v_times timestamptz[] := '{}';
begin
    if p_status not in ('', 'dead_letter', 'completed', 'processing', 'pending') or v_need = 0 then
        return;
    end if;
    for v_part in
        select p.id, p.log_start, p.last_offset, p.last_created_at, p.last_write_at
        from queen.log_partitions p
        join queen.queues q on q.id = p.queue_id
        where p.last_write_at >= v_floor - interval '1 second'
          and (p_queue = '' or q.name = p_queue) and (p_partition = '' or p.name = p_partition)
          and (p_namespace = '' or q.namespace = p_namespace) and (p_task = '' or q.task = p_task)
          and (p_to is null or p.oldest_live_at is null or p.oldest_live_at <= p_to)
          and case p_status
                  when 'dead_letter' then exists (select 1 from queen.log_dlq d where d.partition_id = p.id)
                  when 'processing' then exists (select 1 from queen.log_consumers c
                                                 where c.partition_id = p.id and c.batch_end is not null
                                                   and c.lease_expires_at >= v_now)
                  when 'pending' then coalesce((select min(c.committed) from queen.log_consumers c
                                                where c.partition_id = p.id), -1) < p.last_offset
                  else true
              end
        order by p.last_write_at desc
    loop
        -- last_write_at lags by up to a second.
        exit when v_part.last_write_at < v_floor - interval '1 second';
        continue when v_part.last_created_at < v_floor;
        v_low := greatest(queen.log_offset_at_v1(v_part.id, v_floor) + 1, v_part.log_start);
        v_high := case when p_to is null or v_part.last_created_at <= p_to then v_part.last_offset
                       else queen.log_offset_at_v1(v_part.id, p_to + interval '1 microsecond') end;
        select * into v_progress from queen.log_progress_v1(v_part.id);
        if p_status = 'completed' then
            v_high := least(v_high, v_progress.completed_upto);
        elsif p_status = 'pending' then
            v_low := greatest(v_low, v_progress.completed_upto + 1);
        elsif p_status = 'processing' then
            v_low := greatest(v_low, (select min(s.o) from unnest(v_progress.span_from) as s (o)),
                              v_progress.completed_upto + 1);
            v_high := least(v_high, coalesce((select max(s.o) from unnest(v_progress.span_to) as s (o)), -1));
        elsif p_status = 'dead_letter' then
            select greatest(v_low, min(d."offset")), least(v_high, coalesce(max(d."offset"), -1)) into v_low, v_high
            from queen.log_dlq d
            where d.partition_id = v_part.id and d."offset" between v_low and v_high;
        end if;
        continue when v_low > v_high;

        if p_status = 'dead_letter' then
            select array_agg(s.base_offset) as bases, array_agg(t.o) as offsets, array_agg(s.created_at) as times
            into v_found
            from (select distinct d."offset" as o from queen.log_dlq d
                  where d.partition_id = v_part.id and d."offset" between v_low and v_high
                  order by 1 desc limit v_need) as t
            cross join lateral (
                select l.base_offset, l.end_offset, l.created_at from queen.log_segments l
                where l.partition_id = v_part.id and l.base_offset <= t.o
                order by l.base_offset desc limit 1) as s
            where s.end_offset >= t.o;
        else
            select array_agg(t.base_offset) as bases, array_agg(t.o) as offsets, array_agg(t.created_at) as times
            into v_found
            from (select s.base_offset, k.o, s.created_at
                  from queen.log_segments s
                  cross join lateral generate_series(least(s.end_offset, v_high),
                                                     greatest(s.base_offset, v_low), -1) as k (o)
                  where s.partition_id = v_part.id and s.base_offset <= v_high
                    and s.base_offset >= coalesce((select l.base_offset from queen.log_segments l
                                                   where l.partition_id = v_part.id and l.base_offset <= v_low
                                                   order by l.base_offset desc limit 1), v_low)
                    and (p_status = ''
                         or p_status = queen.message_status_v1(v_part.id, k.o, v_progress.completed_upto,
                                                               v_progress.span_from, v_progress.span_to))
                  order by s.base_offset desc, k.o desc
                  limit v_need) as t;
        end if;
        continue when v_found.offsets is null;
        v_pids := v_pids || array_fill(v_part.id, array[cardinality(v_found.offsets)]);
        v_bases := v_bases || v_found.bases;
        v_offsets := v_offsets || v_found.offsets;
        v_times := v_times || v_found.times;
        if cardinality(v_pids) >= v_need then
            select array_agg(t.pid order by t.n), array_agg(t.base order by t.n), array_agg(t.off order by t.n),
                   array_agg(t.at order by t.n)
            into v_pids, v_bases, v_offsets, v_times
            from (select u.*, row_number() over (order by u.at desc, u.pid, u.off desc) as n
                  from unnest(v_pids, v_bases, v_offsets, v_times) as u (pid, base, off, at)) as t
            where t.n <= v_need;
            v_floor := greatest(v_floor, v_times[v_need]);
        end if;
    end loop;

    return query
    with page as (
        select u.pid, u.base, u.off, u.at,
               row_number() over w as n, row_number() over (partition by u.pid, u.base order by u.off desc) = 1 as first
        from (select * from unnest(v_pids, v_bases, v_offsets, v_times) as t (pid, base, off, at)
              order by t.at desc, t.pid, t.off desc limit p_limit offset p_offset) as u
        window w as (order by u.at desc, u.pid, u.off desc)
    ), bytes as (
        select p.pid, p.base, sum(length(s.blob)) over (order by p.n) - length(s.blob) <= c_blob_bytes as fits
        from page p
        join queen.log_segments s on s.partition_id = p.pid and s.base_offset = p.base
        where p.first
    ), progress as materialized (
        select t.pid, g.* from (select distinct p.pid from page p) as t
        cross join lateral queen.log_progress_v1(t.pid) as g
    )
    select g.pid, lp.name, q.name, q.namespace, q.task, g.base, g.off, g.at,
           queen.message_status_v1(g.pid, g.off, r.completed_upto, r.span_from, r.span_to),
           (select count(*) from unnest(r.committed) as c (o) where c.o >= g.off)::int,
           cardinality(r.committed), r.lease_expires_at,
           case when g.first and b.fits then
               (select s.blob from queen.log_segments s where s.partition_id = g.pid and s.base_offset = g.base) end
    from page g
    join progress r on r.pid = g.pid
    join queen.log_partitions lp on lp.id = g.pid
    join queen.queues q on q.id = lp.queue_id
    left join bytes b on b.pid = g.pid and b.base = g.base
    order by g.n;
end
$$;
