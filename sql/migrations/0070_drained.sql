-- How far back a pop must look: every partition of the queue that was last written before drained_before is
-- consumed by the group, and unleased. `moved` counts what can make an old partition pending again (a seek,
-- deleted cursors): who moves cursors back sets drained_before to -infinity and counts up, so that a claim
-- that looked before that cannot put its older finding back.
alter table queen.consumer_groups_metadata
    add column drained_before timestamptz not null default '-infinity',
    add column moved bigint not null default 0;

create index log_partitions_queue_write on queen.log_partitions (queue_id, last_write_at);

-- A partition that was never written is never pending.
alter table queen.log_partitions alter column last_write_at set default '-infinity';
