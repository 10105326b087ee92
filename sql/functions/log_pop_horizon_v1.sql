-- log_pop_horizon_v1: the start of the oldest transaction under way in this database.
--
-- Returns:    a moment; NULL when it cannot be known: another role's sessions are hidden from this one, or
--             the server does not track activities
-- Algorithm:  a transaction that is not seen here begins later than now.
-- Tables:     pg_stat_activity (read)
-- Locks:      none
create or replace function queen.log_pop_horizon_v1()
returns timestamptz
language sql volatile
as $$
    select case when bool_or(a.pid = pg_backend_pid() and a.xact_start is not null)
                     and not bool_or(a.usename is distinct from current_user
                                     and a.backend_type is null)
                then min(a.xact_start) end
    from pg_stat_activity a
    where a.datname = current_database();
$$;
