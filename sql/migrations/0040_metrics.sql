-- Time series behind the status pages, one row a minute, and what is costly to measure. Purged after 90 days.

-- What one instance (a host and a run directory: one shared memory) did in a minute. Zeros are left out.
create table queen.metrics_minute (
    minute timestamptz not null,
    host text not null,
    instance text not null,
    seconds real not null,                                  -- that the differences cover
    counters jsonb not null,                                -- differences
    gauges jsonb not null,                                  -- as they stood
    primary key (minute, host, instance)
);

-- The last counters of each instance: the next row of the series is the difference.
create table queen.metrics_last (
    host text not null,
    instance text not null,
    counters jsonb not null,
    taken_at timestamptz not null,
    primary key (host, instance)
) with (fillfactor = 50);

-- What happened to a queue in a minute, from its watermarks; quiet queues have no row.
create table queen.queue_metrics_minute (
    minute timestamptz not null,
    queue_id uuid not null,
    seconds real not null,
    pushed bigint not null,
    consumed bigint not null,                               -- over all groups
    pending bigint not null,                                -- as they stood
    partitions bigint not null,
    lag_avg_ms bigint,                                      -- age of the oldest unconsumed message per cursor
    lag_max_ms bigint,
    primary key (minute, queue_id)
);

-- The last look at each queue.
create table queen.queue_usage (
    queue_id uuid primary key,
    segments bigint not null,                               -- estimated from a sample when the log is large
    bytes bigint not null,
    pushed bigint not null,                                 -- running totals: the next row is the difference
    consumed bigint not null,
    measured_at timestamptz not null
) with (fillfactor = 50);
