-- What retention deleted, one row per run, queue and rule; purged with the other metrics.
create table queen.retention_history (
    queue_id uuid not null,
    retention_type text not null,                           -- retention, completed_retention, max_wait_time_eviction
    segments bigint not null,
    messages bigint not null,
    executed_at timestamptz not null default clock_timestamp()
);
create index retention_history_executed on queen.retention_history (executed_at);

-- The work list of the partition cleanup. Its predicate changes only with the first segment into an empty
-- partition and the last one out of it.
create index log_partitions_empty on queen.log_partitions (last_write_at) where oldest_live_at is null;
