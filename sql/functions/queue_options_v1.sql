-- queue_options_v1: the options of a queue: name on the wire, column, default, range.
--
-- Returns:    per option one row; refuse: a value outside the range or the pattern is an error, else a
--             number is clamped into the range. The default's JSON type is the option's type.
-- Tables:     none
-- Locks:      none
create or replace function queen.queue_options_v1()
returns table (option text, col text, default_value jsonb, low bigint, high bigint, refuse boolean)
language sql immutable
as $$
    values
        ('namespace', 'namespace', '""'::jsonb, 0::bigint, 0::bigint, false),
        ('task', 'task', '""', 0, 0, false),
        ('leaseTime', 'lease_time', '300', 1, 2147483647, false),
        ('retryLimit', 'retry_limit', '3', 0, 2147483647, false),
        ('retryDelay', 'retry_delay', '1000', 0, 2147483647, false),
        ('deadLetterQueue', 'dead_letter_queue', 'true', 0, 0, false),
        ('dlqAfterMaxRetries', 'dlq_after_max_retries', 'true', 0, 0, false),
        ('delayedProcessing', 'delayed_processing', '0', 0, 2147483647, false),
        ('windowBuffer', 'window_buffer', '0', 0, 2147483647, false),
        ('minPopWaitTime', 'min_pop_wait_time', '0', 0, 60000, false),
        ('retentionEnabled', 'retention_enabled', 'false', 0, 0, false),
        ('retentionSeconds', 'retention_seconds', '0', 0, 2147483647, false),
        ('completedRetentionSeconds', 'completed_retention_seconds', '0', 0, 2147483647, false),
        ('maxWaitTimeSeconds', 'max_wait_time_seconds', '0', 0, 2147483647, false),
        ('encryptionEnabled', 'encryption_enabled', 'false', 0, 0, false),
        ('dedupWindowSeconds', 'dedup_window_seconds', '3600', 0, 2147483647, false),
        ('priority', 'priority', '0', -2147483648, 2147483647, false),
        ('ttl', 'ttl', '3600', 0, 2147483647, false),
        ('maxSize', 'max_size', '0', 0, 2147483647, false),
        ('retentionSinkHold', 'retention_sink_hold', '""', 0, 0, true),
        ('retentionSinkHoldMaxSeconds', 'retention_sink_hold_max_seconds', '604800', 60, 31536000, true);
$$;
