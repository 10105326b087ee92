-- log_renew_lease_v1: renews every live lease of one lease id.
--
-- Parameters: p_worker lease id; p_seconds from now, at least 1
-- Returns:    how many rows, and the earliest expiry among them (NULL when none)
-- Algorithm:  GREATEST, so that renewing never shortens. Rows are found by a scan of log_consumers: an
--             index on worker_id would make every claim and ack a non-HOT update.
-- Tables:     log_consumers (update)
-- Locks, in order: the rows FOR UPDATE ascending by (partition_id, consumer_group).
create or replace function queen.log_renew_lease_v1(p_worker text, p_seconds int)
returns table (renewed int, expires_at timestamptz)
language sql
as $$
    with held as materialized (
        select c.partition_id, c.consumer_group
        from queen.log_consumers c
        where c.worker_id = p_worker and c.lease_expires_at >= clock_timestamp() and p_worker <> ''
        order by c.partition_id, c.consumer_group
        for update
    ), moved as (
        update queen.log_consumers c
        set lease_expires_at = greatest(c.lease_expires_at,
                                        clock_timestamp() + make_interval(secs => greatest(p_seconds, 1)))
        from held h
        where c.partition_id = h.partition_id and c.consumer_group = h.consumer_group
        returning c.lease_expires_at
    )
    select count(*)::int, min(m.lease_expires_at) from moved m;
$$;
