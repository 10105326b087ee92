-- The log engine's tables. What locks what, and in which order: sql/README.md.

create schema if not exists queen;

-- Queues and their options. The defaults are those of a queue that a push or a pop creates;
-- configure_v1 has its own where they differ (lease_time).
create table queen.queues (
    id uuid primary key default gen_random_uuid(),
    name text not null unique,
    namespace text not null default '',
    task text not null default '',
    created_at timestamptz not null default now(),
    lease_time int not null default 60,                     -- s
    retry_limit int not null default 3,
    retry_delay int not null default 1000,                  -- ms, stored only
    dead_letter_queue boolean not null default true,        -- either of the two switches
    dlq_after_max_retries boolean not null default true,    -- dead-lettering on
    delayed_processing int not null default 0,              -- s
    window_buffer int not null default 0,                   -- s
    min_pop_wait_time int not null default 0,               -- ms
    retention_enabled boolean not null default false,
    retention_seconds int not null default 0,
    completed_retention_seconds int not null default 0,
    max_wait_time_seconds int not null default 0,
    encryption_enabled boolean not null default false,
    dedup_window_seconds int not null default 3600,         -- 0 = off
    priority int not null default 0,                        -- stored only
    ttl int not null default 3600,                          -- stored only
    max_size int not null default 0,                        -- stored only
    retention_sink_hold text not null default '',
    retention_sink_hold_max_seconds int not null default 604800
);
create index queues_namespace on queen.queues (namespace);
create index queues_task on queen.queues (task);

-- One row per partition; its row lock is the partition's write serializer.
create table queen.log_partitions (
    id uuid primary key default gen_random_uuid(),
    queue_id uuid not null references queen.queues (id) on delete cascade,
    name text not null default 'Default',
    last_offset bigint not null default -1,                 -- allocator: the next base is last_offset + 1
    log_start bigint not null default 0,                    -- every offset below is deleted
    txns_start bigint not null default 0,                   -- log_txns rows below are purged
    last_created_at timestamptz not null default '-infinity', -- created_at of the newest segment: never goes back
    last_write_at timestamptz not null default now(),       -- indexed, so changed at most once a second
    oldest_live_at timestamptz,                             -- work list of the retention; NULL = no segment
    oldest_txn_at timestamptz,                              -- work list of the purge; NULL = no log_txns row
    created_at timestamptz not null default now(),
    unique (queue_id, name)
) with (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);
create index log_partitions_last_write on queen.log_partitions (last_write_at);
create index log_partitions_oldest_live on queen.log_partitions (queue_id, oldest_live_at)
    where oldest_live_at is not null;
create index log_partitions_oldest_txn on queen.log_partitions (queue_id, oldest_txn_at)
    where oldest_txn_at is not null;

-- Many messages a row: frames [base_offset, end_offset], compressed together. No foreign key: rows are
-- only written under the partition's row lock; whatever deletes a partition deletes them itself.
create table queen.log_segments (
    partition_id uuid not null,
    base_offset bigint not null,
    end_offset bigint not null,                             -- inclusive
    created_at timestamptz not null,
    blob bytea not null,
    primary key (partition_id, base_offset)
) with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_insert_scale_factor = 0.3,
        autovacuum_vacuum_cost_limit = 4000, autovacuum_vacuum_cost_delay = 0,
        toast.autovacuum_vacuum_scale_factor = 0.1, toast.autovacuum_vacuum_insert_scale_factor = 0.3,
        toast.autovacuum_vacuum_cost_limit = 4000, toast.autovacuum_vacuum_cost_delay = 0);
alter table queen.log_segments alter column blob set storage external;

-- The hash sidecar of every segment: 16 bytes per frame, in frame order. No foreign key, as above.
create table queen.log_txns (
    partition_id uuid not null,
    base_offset bigint not null,
    end_offset bigint not null,
    created_at timestamptz not null,
    request_id uuid,                                        -- the flush that wrote it: recognises its retry
    hashes bytea not null,
    primary key (partition_id, base_offset)
) with (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_insert_scale_factor = 0.3,
        autovacuum_vacuum_cost_limit = 4000, autovacuum_vacuum_cost_delay = 0);
alter table queen.log_txns alter column hashes set storage external;

-- A group's durable subscription to a queue. Every partition of the queue has a log_consumers row for it.
create table queen.consumer_groups_metadata (
    queue_id uuid not null references queen.queues (id) on delete cascade,
    consumer_group text not null,
    subscription_mode text not null check (subscription_mode in ('all', 'new', 'timestamp')),
    subscription_timestamp timestamptz not null,            -- all: 1970-01-01
    created_at timestamptz not null default now(),
    primary key (queue_id, consumer_group)
);

-- The cursor and lease of one (partition, group). Only the primary key is indexed: every update is HOT.
create table queen.log_consumers (
    partition_id uuid not null references queen.log_partitions (id) on delete cascade,
    consumer_group text not null default '__QUEUE_MODE__',
    committed bigint not null default -1,                   -- last acked offset
    batch_end bigint,                                       -- inclusive end of the leased span; survives expiry
    worker_id text,                                         -- lease id
    lease_expires_at timestamptz,
    lease_acquired_at timestamptz,
    batch_retry_count int not null default 0,               -- retry budget consumed
    attempt_offset bigint,                                  -- start of the last leased delivery
    attempt_count int not null default 0,                   -- deliveries of that start
    handoff_from bigint,                                    -- start of the ack that handed a poison over, until it is filed
    total_consumed bigint not null default 0,               -- positions retired
    -- The last release, so that a repeat of the ack that made it is answered as the first time.
    released_worker text,                                   -- NULL: released by an ack without lease id
    released_from bigint,                                   -- span the ack was decided in
    released_end bigint,
    released_signal text,                                   -- NULL (completed), failed, retry, dlq, dropped
    released_offset bigint,                                 -- of the signal
    released_upto bigint,                                   -- committed after the release
    released_at timestamptz,                                -- claimable since
    created_at timestamptz not null default now(),
    primary key (partition_id, consumer_group)
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 500,
        autovacuum_vacuum_cost_delay = 0, vacuum_truncate = off);

-- Dead letters: a snapshot of bytes, so that filing cannot fail on what a message holds.
create table queen.log_dlq (
    id uuid primary key default gen_random_uuid(),
    partition_id uuid not null,
    consumer_group text not null,
    "offset" bigint not null,
    message_id uuid,                                        -- NULL, as payload: the frame was not readable
    transaction_id bytea,
    payload bytea,
    error text not null,
    retry_count int not null default 0,                     -- budget consumed at filing
    created_at timestamptz,                                 -- of the message's segment
    failed_at timestamptz not null default now()
);
create index log_dlq_partition on queen.log_dlq (partition_id, failed_at desc);
create index log_dlq_failed on queen.log_dlq (failed_at desc);

-- Outcomes of transactions, by request id: a repeat is answered with the recorded one.
create table queen.request_outcomes (
    request_id uuid primary key,
    outcome jsonb not null,
    created_at timestamptz not null default now()
);
create index request_outcomes_created on queen.request_outcomes (created_at);

-- Switches that reach every worker and host.
create table queen.system_state (
    key text primary key,
    value jsonb not null,
    updated_at timestamptz not null default now()
);
