-- log_provision_v1: creates the queues and partitions that a write names and that do not exist.
--
-- Parameters: p_queues, p_partitions  names, aligned; not empty
-- Returns:    nothing
-- Algorithm:  queues; then their rows are locked KEY SHARE, which a deletion and a registration
--             (log_group_register_v1) wait for and are waited for; then partitions; then, in a
--             statement that sees every registration that came before, a cursor row at -1 for each
--             registered group: a partition born after the subscription is delivered whole.
-- Tables:     queues, log_partitions, log_consumers (insert), consumer_groups_metadata (read)
-- Locks, in order: new queues rows ascending by name, queues KEY SHARE ascending by id, new
--             log_partitions rows ascending by (queue_id, name), new log_consumers rows ascending by
--             (partition_id, consumer_group). The caller must hold no partition or consumer lock.
create or replace function queen.log_provision_v1(p_queues text[], p_partitions text[])
returns void
language plpgsql
as $$
declare
    v_new uuid[];
begin
    perform queen.log_queue_create_v1(p_queues);
    perform 1 from queen.queues q where q.name = any (p_queues) order by q.id for key share;

    with created as (
        insert into queen.log_partitions (queue_id, name)
        select distinct q.id, u.partition
        from unnest(p_queues, p_partitions) as u (queue, partition)
        join queen.queues q on q.name = u.queue
        where not exists (select 1 from queen.log_partitions p
                          where p.queue_id = q.id and p.name = u.partition)
        order by q.id, u.partition
        on conflict (queue_id, name) do nothing
        returning id
    )
    select array_agg(c.id) into v_new from created c;

    insert into queen.log_consumers (partition_id, consumer_group)
    select p.id, m.consumer_group
    from queen.log_partitions p
    join queen.consumer_groups_metadata m on m.queue_id = p.queue_id
    where p.id = any (v_new)
    order by p.id, m.consumer_group
    on conflict do nothing;
end
$$;
