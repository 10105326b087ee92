-- kv_namespaces_v1: namespaces that hold keys, and how many (expired ones that are not swept yet count).
--
-- Parameters: p_limit  most namespaces
-- Returns:    namespace, keys; in byte order
-- Algorithm:  the distinct namespaces by jumping along the primary key, then one index range each.
-- Tables:     kv (read)
-- Locks:      none
create or replace function queen.kv_namespaces_v1(p_limit int)
returns table (namespace text, keys bigint)
language sql stable
as $$
    with recursive names as (
        (select k.namespace, 1 as n from queen.kv k order by k.namespace limit 1)
        union all
        select (select k.namespace from queen.kv k where k.namespace > names.namespace order by k.namespace limit 1),
               names.n + 1
        from names
        where names.namespace is not null and names.n < p_limit
    )
    select names.namespace, (select count(*) from queen.kv k where k.namespace = names.namespace)
    from names
    where names.namespace is not null
    order by names.namespace;
$$;
