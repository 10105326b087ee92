-- log_queue_create_v1: creates the queues of these names that do not exist, with column defaults.
--
-- Parameters: p_names       queue names; NULL and empty ones are passed over
-- Returns:    nothing
-- Algorithm:  namespace and task come from a dotted name: the text before the first dot, and between
--             the first and the second. A name without a dot has neither.
-- Tables:     queues (insert)
-- Locks, in order: the inserted queues rows, ascending by name.
create or replace function queen.log_queue_create_v1(p_names text[])
returns void
language sql
as $$
    insert into queen.queues (name, namespace, task)
    select n.name,
           case when position('.' in n.name) > 0 then split_part(n.name, '.', 1) else '' end,
           split_part(n.name, '.', 2)
    from (select distinct u.name from unnest(p_names) as u (name)) as n
    where n.name <> ''
      and not exists (select 1 from queen.queues q where q.name = n.name)
    order by n.name
    on conflict (name) do nothing;
$$;
