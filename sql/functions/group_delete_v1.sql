-- group_delete_v1: forgets a group, on one queue or everywhere. Its next pop is a first contact.
--
-- Parameters: p_group
--             p_queue     NULL = every queue
--             p_metadata  its subscriptions too; else they place the cursors that its next pop makes
-- Returns:    number of cursors deleted, number of subscriptions deleted
-- Algorithm:  the queues are locked first, so that no partition is created with a cursor for the group
--             between the two deletions. Dead letters stay.
-- Tables:     queues, log_partitions (read), log_consumers, consumer_groups_metadata (delete)
-- Locks, in order: the group's queues FOR UPDATE ascending by id, its log_consumers FOR UPDATE ascending
--             by (partition_id, consumer_group)
create or replace function queen.group_delete_v1(p_group text, p_queue text, p_metadata boolean,
                                                 out cursors bigint, out subscriptions bigint)
language plpgsql
as $$
declare
    v_queues uuid[];
    v_partitions uuid[];
begin
    select array_agg(t.id) into v_queues
    from (select q.id
          from queen.queues q
          where (p_queue is null or q.name = p_queue)
            and (exists (select 1 from queen.consumer_groups_metadata m
                         where m.queue_id = q.id and m.consumer_group = p_group)
                 or exists (select 1 from queen.log_partitions p
                            join queen.log_consumers c on c.partition_id = p.id and c.consumer_group = p_group
                            where p.queue_id = q.id))
          order by q.id for update) as t;

    select array_agg(t.partition_id) into v_partitions
    from (select c.partition_id
          from queen.log_consumers c
          join queen.log_partitions p on p.id = c.partition_id
          where c.consumer_group = p_group and p.queue_id = any (v_queues)
          order by c.partition_id for update of c) as t;
    delete from queen.log_consumers c
    where c.partition_id = any (v_partitions) and c.consumer_group = p_group;
    get diagnostics cursors = row_count;

    perform queen.group_moved_v1(v_queues, p_group);
    subscriptions := 0;
    if p_metadata then
        delete from queen.consumer_groups_metadata m
        where m.consumer_group = p_group and m.queue_id = any (v_queues);
        get diagnostics subscriptions = row_count;
    end if;
end
$$;
