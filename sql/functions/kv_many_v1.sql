-- kv_many_v1: the live ones among some keys of a namespace.
--
-- Parameters: p_ns      the namespace
--             p_keys    JSON array of keys; one that repeats counts once
--             p_budget  bytes of values: the row that crosses it is the last, later ones are in neither list
--             p_now     expiry is judged by it
-- Returns:    rows in byte order of their keys, missing keys in the order asked for, both JSON arrays
-- Tables:     kv (read)
-- Locks:      none
create or replace function queen.kv_many_v1(p_ns text, p_keys jsonb, p_budget bigint, p_now timestamptz,
                                            out rows text, out missing text, out truncated boolean,
                                            out bytes bigint)
language sql stable
as $$
    with asked as (
        select a.key collate "C" as key, min(a.ord) as ord
        from jsonb_array_elements_text(p_keys) with ordinality as a (key, ord)
        group by a.key
    ), found as (
        select a.ord, k.*,
               sum(octet_length(k.value)) over (order by k.key) - octet_length(k.value) as before
        from asked a
        join queen.kv k on k.namespace = p_ns and k.key = a.key
                       and (k.expires_at is null or k.expires_at > p_now)
    )
    select '[' || coalesce(string_agg('{' || queen.kv_entry_text_v1(f.key, f.value, f.version, f.expires_at, f.updated_at)
                                      || '}', ',' order by f.key) filter (where f.before <= p_budget), '') || ']',
           (select '[' || coalesce(string_agg(to_json(a.key::text)::text, ',' order by a.ord), '') || ']'
            from asked a where a.ord not in (select x.ord from found x)),
           coalesce(bool_or(f.before > p_budget), false),
           coalesce(sum(octet_length(f.value)) filter (where f.before <= p_budget), 0)::bigint
    from found f;
$$;
