-- A group's delivery policy on a queue: only the newest message of each partition.
alter table queen.consumer_groups_metadata add column conflation boolean not null default false;

-- Was the batch (the live one, or the last released one) delivered by a conflating pop? A clean ack of its
-- message commits all of it.
alter table queen.log_consumers add column lease_conflated boolean not null default false;
