-- log_retention_completed_v1: one bounded step of completedRetentionSeconds: consumed by every group.
--
-- Parameters: p_max_partitions  looked at per step; p_max_segments  deleted per partition
-- Returns:    segments deleted; 0 = nothing among those looked at, or another host is at it
-- Algorithm:  whether a segment is consumed stands in the cursors, which no index follows, so this walks
--             the partitions with something old enough in id order, a bounded number per step, and goes on
--             where the last step ended (system_state 'retention_walk'). A backlog that nobody has consumed
--             costs two index probes per partition and walk.
-- Tables:     queues, log_consumers (read), log_partitions (update), log_segments (delete),
--             retention_history (insert), system_state (upsert)
-- Locks, in order: advisory (try), log_partitions FOR UPDATE SKIP LOCKED ascending by id, system_state.
create or replace function queen.log_retention_completed_v1(p_max_partitions int, p_max_segments int)
returns bigint
language plpgsql
as $$
declare
    v_total bigint := 0;
    v_seen int := 0;
    v_after uuid;
    v_row record;
    v_cut record;
begin
    if not pg_try_advisory_xact_lock(hashtextextended('queen.log_retention_completed', 42))
       or not exists (select 1 from queen.queues q where q.retention_enabled and q.completed_retention_seconds > 0) then
        return 0;
    end if;
    select (s.value ->> 'after')::uuid into v_after from queen.system_state s where s.key = 'retention_walk';
    v_after := coalesce(v_after, '00000000-0000-0000-0000-000000000000');
    for v_row in
        select p.id, p.queue_id,
               clock_timestamp() - make_interval(secs => q.completed_retention_seconds) as before
        from (select x.id from queen.log_partitions x
              join queen.queues k on k.id = x.queue_id
              where x.id > v_after and k.retention_enabled and k.completed_retention_seconds > 0
                and x.oldest_live_at < clock_timestamp() - make_interval(secs => k.completed_retention_seconds)
              order by x.id
              limit p_max_partitions) as d
        join queen.log_partitions p on p.id = d.id
        join queen.queues q on q.id = p.queue_id
        order by p.id
        for update of p skip locked
    loop
        v_seen := v_seen + 1;
        v_after := v_row.id;
        select * into v_cut from queen.log_retention_cut_v1(v_row.id, null, v_row.before, p_max_segments);
        if v_cut.segments > 0 then
            v_total := v_total + v_cut.segments;
            insert into queen.retention_history (queue_id, retention_type, segments, messages)
            values (v_row.queue_id, 'completed_retention', v_cut.segments, v_cut.messages);
        end if;
    end loop;
    insert into queen.system_state (key, value)
    values ('retention_walk', jsonb_build_object('after', case when v_seen < p_max_partitions then null else v_after end))
    on conflict (key) do update set value = excluded.value, updated_at = now();
    return v_total;
end
$$;
