-- log_progress_v1: how far a partition's groups are: what decides the status of its messages.
--
-- Parameters: p_partition_id
-- Returns:    one row: completed_upto  offsets up to it are completed: the position of the queue-mode
--                 cursor; without one, the lowest of the named groups; -1 when there is no group
--             span_from, span_to  spans under a live lease, aligned
--             lease_expires_at    of the queue-mode lease, NULL when it holds none
--             committed           positions of the named groups
-- Tables:     log_consumers (read)
-- Locks:      none
create or replace function queen.log_progress_v1(p_partition_id uuid)
returns table (completed_upto bigint, span_from bigint[], span_to bigint[], lease_expires_at timestamptz,
               committed bigint[])
language sql stable
as $$
    select coalesce(max(c.committed) filter (where not t.named), min(c.committed) filter (where t.named), -1),
           coalesce(array_agg(c.committed + 1) filter (where t.leased), '{}'),
           coalesce(array_agg(c.batch_end) filter (where t.leased), '{}'),
           max(c.lease_expires_at) filter (where not t.named and t.leased),
           coalesce(array_agg(c.committed) filter (where t.named), '{}')
    from queen.log_consumers c
    cross join lateral (
        select c.consumer_group <> '__QUEUE_MODE__' as named,
               c.batch_end is not null and c.lease_expires_at >= clock_timestamp() as leased) as t
    where c.partition_id = p_partition_id;
$$;
