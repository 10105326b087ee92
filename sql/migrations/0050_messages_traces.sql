-- Addressing of dead letters, and traces.

-- A message's dead letters by its place, and by its transaction id (hashed: an id may be longer than
-- an index entry).
create index log_dlq_offset on queen.log_dlq (partition_id, "offset");
create index log_dlq_transaction on queen.log_dlq (partition_id, md5(transaction_id));

-- What consumers noted about messages. The message need not exist, so nothing refers to it.
create table queen.message_traces (
    id uuid primary key,
    partition_id uuid not null,
    transaction_id bytea not null,
    consumer_group text not null,
    event_type text not null,
    data text not null,                                     -- JSON as it was sent
    worker_id text,
    created_at timestamptz not null
);
create index message_traces_message on queen.message_traces (partition_id, md5(transaction_id), created_at);

create table queen.message_trace_names (
    trace_name text collate "C" not null,
    created_at timestamptz not null,                        -- the trace's
    trace_id uuid not null references queen.message_traces (id) on delete cascade,
    primary key (trace_name, created_at, trace_id)
);
create index message_trace_names_trace on queen.message_trace_names (trace_id);
