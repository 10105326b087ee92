-- log_consumers_seed_v1: gives registered groups the cursor rows they lack.
--
-- Parameters: p_queue_ids, p_groups  the (queue, group) pairs, aligned
-- Returns:    number of rows written
-- Algorithm:  every partition of the queue without a row for the group gets one, placed by the
--             group's subscription: just before the first segment at or after its moment (mode all: 1970,
--             so everything retained).
-- Tables:     consumer_groups_metadata, log_partitions (read), log_consumers (insert)
-- Locks, in order: the log_partitions rows concerned (key share, by the foreign key) and the new
--             log_consumers rows, ascending by (partition_id, consumer_group).
create or replace function queen.log_consumers_seed_v1(p_queue_ids uuid[], p_groups text[])
returns bigint
language sql
as $$
    with seeded as (
        insert into queen.log_consumers (partition_id, consumer_group, committed)
        select p.id, m.consumer_group,
               case when m.subscription_timestamp <= '1970-01-01 00:00:00+00' then p.log_start - 1
                    else queen.log_offset_at_v1(p.id, m.subscription_timestamp)
               end
        from unnest(p_queue_ids, p_groups) as u (queue_id, consumer_group)
        join queen.consumer_groups_metadata m
            on m.queue_id = u.queue_id and m.consumer_group = u.consumer_group
        join queen.log_partitions p on p.queue_id = m.queue_id
        where not exists (select 1 from queen.log_consumers c
                          where c.partition_id = p.id and c.consumer_group = m.consumer_group)
        order by p.id, m.consumer_group
        on conflict do nothing
        returning 1
    )
    select count(*) from seeded;
$$;
