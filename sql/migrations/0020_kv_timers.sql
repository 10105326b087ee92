-- The key/value store and the timers. Locks and their order: sql/README.md (both come before queues).

-- Values are kept as text: jsonb would change numbers and escapes.
create table queen.kv (
    namespace text collate "C" not null,
    key text collate "C" not null,                          -- 1 to 512 bytes
    value text not null,                                    -- JSON as it was sent, at most 65536 bytes
    version bigint not null,                                -- of kv_version_seq, taken while the key is held
    expires_at timestamptz,                                 -- NULL = never; at or before now = not there
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (namespace, key)
) with (fillfactor = 80);
create index kv_expires on queen.kv (expires_at) where expires_at is not null;
create sequence queen.kv_version_seq;

-- A message to come, ready to be stored: the fire is pure SQL.
create table queen.log_timers (
    queue text collate "C" not null,                        -- need not exist before the fire
    timer_key text collate "C" not null,
    partition text not null,
    deliver_at timestamptz not null,                        -- as promised
    visible_at timestamptz not null,                        -- deliver_at, later after a failed fire
    txn bytea not null,                                     -- transaction id; may hold NUL
    message_id uuid not null,
    hash bytea not null,                                    -- of the transaction id, 16 bytes
    blob bytea not null,                                    -- segment of this one frame
    attempts int not null default 0,                        -- fires that failed
    last_error text,
    created_at timestamptz not null,
    updated_at timestamptz not null,
    primary key (queue, timer_key)
);
alter table queen.log_timers alter column blob set storage external;
create index log_timers_visible on queen.log_timers (visible_at);
