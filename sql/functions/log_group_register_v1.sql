-- log_group_register_v1: the durable subscription of groups to queues, at a group's first pop.
--
-- Parameters: p_queue_ids  queues; NULL elements are never registered
--             p_groups, p_sub_modes, p_sub_froms  aligned: who subscribes, and from where
--             p_conflate   aligned: the delivery policy that a first pop asks for; NULL = none
-- Returns:    per element: registered: is the group registered on the queue now? false: another call is
--             at it, or the queue is gone; the caller looks again soon. conflation: the stored policy,
--             NULL when not registered.
-- Algorithm:  registered pairs cost one index probe. For the rest: a try-lock keeps concurrent first
--             pops from queueing up behind each other; the queue rows are locked FOR UPDATE, which
--             waits for pushes that are creating partitions and holds off new ones (the foreign key
--             of log_partitions takes KEY SHARE): a partition is either seen here and seeded, or its
--             creator sees the record and seeds it. Then records, then cursor rows.
-- Tables:     consumer_groups_metadata (insert), queues, log_partitions (read), log_consumers (insert)
-- Locks, in order: advisory (try), queues FOR UPDATE ascending by id, log_partitions KEY SHARE and new
--             log_consumers rows ascending by (partition_id, consumer_group).
drop function if exists queen.log_group_register_v1(uuid[], text[], text[], text[]);
create or replace function queen.log_group_register_v1(p_queue_ids uuid[], p_groups text[],
                                                       p_sub_modes text[], p_sub_froms text[],
                                                       p_conflate boolean[],
                                                       out registered boolean[], out conflation boolean[])
language plpgsql
as $$
#variable_conflict use_column
declare
    v_queue_ids uuid[];
    v_groups text[];
    v_alive uuid[];
begin
    select array_agg(m.queue_id is not null order by u.ord), array_agg(m.conflation order by u.ord)
    into registered, conflation
    from unnest(p_queue_ids, p_groups) with ordinality as u (queue_id, consumer_group, ord)
    left join queen.consumer_groups_metadata m
        on m.queue_id = u.queue_id and m.consumer_group = u.consumer_group;
    if not (false = any (registered)) or registered is null then
        return;
    end if;

    select array_agg(t.queue_id), array_agg(t.consumer_group) into v_queue_ids, v_groups
    from (select distinct u.queue_id, u.consumer_group
          from unnest(p_queue_ids, p_groups, registered) as u (queue_id, consumer_group, known)
          where not u.known and u.queue_id is not null) as t
    where pg_try_advisory_xact_lock(hashtextextended(t.queue_id || '/' || t.consumer_group, 42));
    if v_queue_ids is null then
        return;
    end if;

    select array_agg(t.id) into v_alive
    from (select q.id from queen.queues q where q.id = any (v_queue_ids) order by q.id for update) as t;

    insert into queen.consumer_groups_metadata (queue_id, consumer_group, subscription_mode,
                                                subscription_timestamp, conflation)
    select distinct on (u.queue_id, u.consumer_group) u.queue_id, u.consumer_group, s.mode, s.moment,
           coalesce(u.conflate, false) and u.consumer_group <> '__QUEUE_MODE__'
    from unnest(p_queue_ids, p_groups, p_sub_modes, p_sub_froms, p_conflate) with ordinality
        as u (queue_id, consumer_group, sub_mode, sub_from, conflate, ord)
    join unnest(v_queue_ids, v_groups) as n (queue_id, consumer_group) using (queue_id, consumer_group)
    cross join lateral queen.log_subscription_v1(u.consumer_group, u.sub_mode, u.sub_from) as s
    where u.queue_id = any (v_alive)
    order by u.queue_id, u.consumer_group, u.ord
    on conflict do nothing;

    perform queen.log_consumers_seed_v1(v_queue_ids, v_groups);

    select array_agg(m.queue_id is not null order by u.ord), array_agg(m.conflation order by u.ord)
    into registered, conflation
    from unnest(p_queue_ids, p_groups) with ordinality as u (queue_id, consumer_group, ord)
    left join queen.consumer_groups_metadata m
        on m.queue_id = u.queue_id and m.consumer_group = u.consumer_group;
end
$$;
