-- group_subscription_v1: changes the moment from which a group wants messages, on all its queues.
--
-- Parameters: p_group
--             p_timestamp  text as the client sent it; what does not parse is refused with SQLSTATE 22007
-- Returns:    the answer of POST /api/v1/consumer-groups/:group/subscription, as text
-- Algorithm:  no cursor moves: the moment places the cursors that are made from now on for partitions
--             that exist (log_consumers_seed_v1), so those of a group that was deleted without its
--             subscription.
-- Tables:     consumer_groups_metadata (update)
-- Locks:      its consumer_groups_metadata rows FOR UPDATE ascending by queue_id
create or replace function queen.group_subscription_v1(p_group text, p_timestamp text)
returns text
language plpgsql
as $$
declare
    v_moment constant timestamptz := queen.time_parameter_v1('subscriptionTimestamp', p_timestamp);
    v_rows bigint;
begin
    perform 1 from queen.consumer_groups_metadata m where m.consumer_group = p_group
    order by m.queue_id for update;
    update queen.consumer_groups_metadata m set subscription_timestamp = v_moment
    where m.consumer_group = p_group;
    get diagnostics v_rows = row_count;
    return json_build_object('success', true, 'consumerGroup', p_group, 'newTimestamp', p_timestamp,
                             'rowsUpdated', v_rows)::text;
end
$$;
