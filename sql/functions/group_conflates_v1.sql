-- group_conflates_v1: does a group take only the newest message of each partition of a queue?
--
-- Parameters: p_subscription  the group's row of consumer_groups_metadata; NULL = not registered
-- Tables:     none
-- Locks:      none
create or replace function queen.group_conflates_v1(p_subscription queen.consumer_groups_metadata)
returns boolean
language sql immutable
as $$
    select coalesce(p_subscription.conflation, false);
$$;
