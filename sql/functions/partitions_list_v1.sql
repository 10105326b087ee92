-- partitions_list_v1: partitions by (queue, name).
--
-- Parameters: p_queue  '' = of all queues
--             p_limit, p_offset
-- Returns:    the answer of GET /api/v1/resources/partitions (contract 2, section 1), as text
-- Tables:     queues, log_partitions (read, by index)
-- Locks:      none
create or replace function queen.partitions_list_v1(p_queue text, p_limit int, p_offset int)
returns text
language sql stable
as $$
    select json_build_object('partitions', coalesce(json_agg(json_build_object(
               'id', t.id, 'name', t.name, 'queue', t.queue, 'lastOffset', t.last_offset,
               'logStart', t.log_start, 'lastWriteAt', queen.time_text_v1(nullif(t.last_write_at, '-infinity'))::json)
               order by t.queue, t.name), '[]'))::text
    from (select p.id, p.name, q.name as queue, p.last_offset, p.log_start, p.last_write_at
          from queen.queues q
          join queen.log_partitions p on p.queue_id = q.id
          where p_queue = '' or q.name = p_queue
          order by q.name, p.name
          limit p_limit offset p_offset) as t;
$$;
