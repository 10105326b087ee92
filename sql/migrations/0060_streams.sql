-- Stream processing: queries, their state per source partition, and the last cycle of each. Locks and
-- their order: sql/README.md (the rows here come last).


create table queen.stream_queries (
    id uuid primary key default gen_random_uuid(),
    name text not null unique,
    source_queue text not null,
    sink_queue text,
    config_hash text not null,                              -- of the chain of operators: other state otherwise
    created_at timestamptz not null default now(),
    updated_at timestamptz not null default now()
);

-- No foreign keys: queries are never deleted, and whoever deletes a partition deletes its rows here. A
-- foreign key would lock the partition's row, on which pushes wait, after the cursor's.
create table queen.stream_state (
    query_id uuid not null,
    partition_id uuid not null,
    key text collate "C" not null,                          -- at most 2048 bytes
    value text not null,                                    -- JSON as it was sent
    window_end double precision,                            -- the number value.windowEnd, if there is one
    updated_at timestamptz not null,
    primary key (query_id, partition_id, key)
) with (fillfactor = 80);
create index stream_state_window_end on queen.stream_state (query_id, partition_id, window_end)
    where window_end is not null;

-- One row per (query, partition) that ever had a cycle. Its lock makes the cycles of one follow each
-- other; what the last one did answers a repeat whose first answer the worker did not get.
create table queen.stream_cycles (
    query_id uuid not null,
    partition_id uuid not null,
    request_id uuid not null,
    ack_count int,                                          -- NULL = the cycle had no ack
    lease_released boolean not null,
    base_offsets bigint[] not null,                         -- of the stored segments, in order
    sink_ids uuid[] not null,                               -- the partitions they went to
    primary key (query_id, partition_id)
) with (fillfactor = 50);
create index stream_cycles_partition on queen.stream_cycles (partition_id);
