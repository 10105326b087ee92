-- metrics_purge_v1: deletes rows of the time series that are too old, a bounded number.
--
-- Parameters: p_days, p_rows  per table
-- Returns:    rows deleted; 0 = nothing is due
-- Tables:     metrics_minute, queue_metrics_minute, retention_history, metrics_last (delete)
-- Locks:      the rows deleted, those that others hold are passed over
create or replace function queen.metrics_purge_v1(p_days int, p_rows int)
returns bigint
language sql
as $$
    with due as (select clock_timestamp() - make_interval(days => p_days) as before),
    hosts as (
        delete from queen.metrics_minute where ctid = any (array(
            select m.ctid from queen.metrics_minute m where m.minute < (select before from due)
            order by m.minute limit p_rows for update skip locked)) returning 1
    ), queues as (
        delete from queen.queue_metrics_minute where ctid = any (array(
            select m.ctid from queen.queue_metrics_minute m where m.minute < (select before from due)
            order by m.minute limit p_rows for update skip locked)) returning 1
    ), history as (
        delete from queen.retention_history where ctid = any (array(
            select h.ctid from queen.retention_history h where h.executed_at < (select before from due)
            order by h.executed_at limit p_rows for update skip locked)) returning 1
    ), gone as (
        delete from queen.metrics_last where taken_at < (select before from due) returning 1
    )
    select (select count(*) from hosts) + (select count(*) from queues) + (select count(*) from history)
         + (select count(*) from gone);
$$;
