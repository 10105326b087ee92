-- streams_register_v1: registers a stream query under its name, or takes it up again.
--
-- Parameters: p_name, p_source_queue, p_sink_queue (NULL = none)
--             p_config_hash  names the chain of operators
--             p_reset        on another hash: forget the state instead of refusing
-- Returns:    query_id; fresh: the name is new; reset: the state was forgotten; mismatch: the hash is
--             another one, nothing was changed
-- Tables:     queen.stream_queries (insert, update), queen.stream_state (delete)
-- Locks, in order: the query's row FOR UPDATE (no cycle of it runs meanwhile), its state rows.
create or replace function queen.streams_register_v1(p_name text, p_source_queue text, p_sink_queue text,
                                                     p_config_hash text, p_reset boolean,
                                                     out query_id uuid, out fresh boolean, out reset boolean,
                                                     out mismatch boolean)
language plpgsql
as $$
declare
    v_hash text;
begin
    reset := false;
    mismatch := false;
    insert into queen.stream_queries as q (name, source_queue, sink_queue, config_hash)
    values (p_name, p_source_queue, p_sink_queue, p_config_hash)
    on conflict (name) do nothing
    returning q.id into query_id;
    fresh := found;
    if fresh then
        return;
    end if;

    select q.id, q.config_hash into query_id, v_hash
    from queen.stream_queries q where q.name = p_name for update;
    if v_hash <> p_config_hash and not p_reset then
        mismatch := true;
        return;
    end if;
    if v_hash <> p_config_hash then
        reset := true;
        delete from queen.stream_state s where s.query_id = streams_register_v1.query_id;
    end if;
    update queen.stream_queries q
    set source_queue = p_source_queue, sink_queue = p_sink_queue, config_hash = p_config_hash, updated_at = now()
    where q.id = query_id;
end
$$;
