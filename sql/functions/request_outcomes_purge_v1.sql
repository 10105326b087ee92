-- request_outcomes_purge_v1: one bounded step of forgetting the outcomes of requests.
--
-- Parameters: p_max_rows; p_window_s  how long they are kept
-- Returns:    rows deleted
-- Tables:     request_outcomes (delete)
-- Locks:      request_outcomes rows, never waiting
create or replace function queen.request_outcomes_purge_v1(p_max_rows int, p_window_s int)
returns bigint
language sql
as $$
    with gone as (
        delete from queen.request_outcomes o
        where o.request_id in (select x.request_id from queen.request_outcomes x
                               where x.created_at < clock_timestamp() - make_interval(secs => p_window_s)
                               order by x.created_at
                               limit p_max_rows
                               for update skip locked)
        returning 1
    )
    select count(*) from gone;
$$;
