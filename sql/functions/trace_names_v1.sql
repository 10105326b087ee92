-- trace_names_v1: the names that traces carry, those used last first.
--
-- Parameters: p_limit, p_offset
-- Returns:    the number of all names on every row; then one row per name of the page. A page without
--             names is one row whose name is NULL
-- Algorithm:  the distinct names by jumps through the index, two steps a name; only those of the page
--             are counted.
-- Tables:     message_traces, message_trace_names (read)
-- Locks:      none
create or replace function queen.trace_names_v1(p_limit int, p_offset int)
returns table (total bigint, trace_name text, trace_count bigint, message_count bigint, last_seen timestamptz)
language sql stable
as $$
    with recursive names (name) as (
        (select n.trace_name from queen.message_trace_names n order by n.trace_name limit 1)
        union all
        select (select n.trace_name from queen.message_trace_names n
                where n.trace_name > s.name order by n.trace_name limit 1)
        from names s where s.name is not null
    ), seen as materialized (
        select s.name, (select n.created_at from queen.message_trace_names n
                        where n.trace_name = s.name order by n.created_at desc limit 1) as last_seen
        from names s where s.name is not null
    ), page as materialized (
        select s.* from seen s order by s.last_seen desc, s.name limit p_limit offset p_offset
    )
    select a.total, p.name, c.traces, c.messages, p.last_seen
    from (select count(*) as total from seen) as a
    left join page p on true
    left join lateral (
        select count(*) as traces, count(distinct m.transaction_id) as messages
        from queen.message_trace_names n join queen.message_traces m on m.id = n.trace_id
        where n.trace_name = p.name) as c on true
    order by p.last_seen desc, p.name;
$$;
