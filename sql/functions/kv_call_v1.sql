-- kv_call_v1: kv_apply_v1 as a call of its own. A lost `required` is an answer, not an error.
--
-- Parameters: p_ops, p_values  as of kv_apply_v1
-- Returns:    per operation its index and the JSON text of its result; or one row with NULL as index and
--             the lost precondition as JSON (the DETAIL of kv_apply_v1), then nothing was written
-- Tables:     kv
-- Locks:      as kv_apply_v1
create or replace function queen.kv_call_v1(p_ops jsonb, p_values text[])
returns table (index int, result text)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_results text[];
    v_detail text;
begin
    begin
        v_results := queen.kv_apply_v1(p_ops, p_values, null, false);
    exception when check_violation then
        get stacked diagnostics v_detail = pg_exception_detail;
        return query select null::int, v_detail;
        return;
    end;
    return query
    select u.ord::int - 1, u.result from unnest(v_results) with ordinality as u (result, ord) order by u.ord;
end
$$;
