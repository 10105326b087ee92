-- kv_page_v1: live keys of a namespace that start with a prefix, in byte order, from behind a key on.
--
-- Parameters: p_ns, p_prefix  '' = every key
--             p_after         exclusive; NULL or '' = from the first
--             p_limit         most rows
--             p_budget        bytes of values: the row that crosses it is the last
--             p_keys_only     values are left out and cost nothing
--             p_expired       true: expired rows too; true and false: rows say whether they are
--             p_now           expiry is judged by it
-- Returns:    rows as a JSON array (kv_entry_text_v1), whether more follow; the last key, bytes of values
-- Algorithm:  one range of the primary key, read row by row up to the first key beyond the prefix: the
--             planner cannot bound a range by a prefix that is a parameter.
-- Tables:     kv (read)
-- Locks:      none
create or replace function queen.kv_page_v1(p_ns text, p_prefix text, p_after text, p_limit int,
                                            p_budget bigint, p_keys_only boolean, p_expired boolean,
                                            p_now timestamptz,
                                            out rows text, out truncated boolean, out last_key text,
                                            out bytes bigint)
language plpgsql stable
as $$
#variable_conflict use_column
declare
    v_row queen.kv%rowtype;
    v_rows text[] := '{}';
    v_count int := 0;
begin
    truncated := false;
    bytes := 0;
    for v_row in
        select * from queen.kv k
        where k.namespace = p_ns and k.key >= p_prefix and k.key > coalesce(p_after, '')
        order by k.key
    loop
        exit when not starts_with(v_row.key, p_prefix);
        continue when p_expired is not true and v_row.expires_at <= p_now;
        if v_count = p_limit or bytes > p_budget then
            truncated := true;
            exit;
        end if;
        v_count := v_count + 1;
        last_key := v_row.key;
        if not p_keys_only then
            bytes := bytes + octet_length(v_row.value);
        end if;
        v_rows := v_rows || ('{' || queen.kv_entry_text_v1(v_row.key, case when not p_keys_only then v_row.value end,
                                                           v_row.version, v_row.expires_at, v_row.updated_at)
                             || case when p_expired is null then ''
                                     else ',"expired":' || coalesce(v_row.expires_at <= p_now, false) end || '}');
    end loop;
    rows := '[' || array_to_string(v_rows, ',') || ']';
end
$$;
