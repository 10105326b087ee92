-- kv_sweep_v1: deletes expired keys, a bounded step.
--
-- Parameters: p_limit  most rows
-- Returns:    rows deleted
-- Tables:     kv (delete)
-- Locks:      the deleted rows; those that somebody holds are passed over
create or replace function queen.kv_sweep_v1(p_limit int)
returns int
language plpgsql
as $$
declare
    v_rows int;
begin
    delete from queen.kv k
    using (select x.namespace, x.key from queen.kv x
           where x.expires_at <= now()
           order by x.expires_at limit p_limit
           for update skip locked) as d
    where k.namespace = d.namespace and k.key = d.key;
    get diagnostics v_rows = row_count;
    return v_rows;
end
$$;
