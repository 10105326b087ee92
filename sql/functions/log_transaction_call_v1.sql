-- log_transaction_call_v1: log_transaction_wire_v1 as a call. What the contract rolls back for is an answer,
-- not an error: nothing was written, and keys and values do not reach the server's log.
--
-- Parameters: as log_transaction_wire_v1
-- Returns:    one row: the outcome (JSON), or why it was rolled back: SQLSTATE, text, detail (JSON)
-- Tables, Locks: as log_transaction_wire_v1
create or replace function queen.log_transaction_call_v1(
    p_request_id uuid, p_retry boolean,
    p_kv_ops jsonb, p_kv_values text[],
    p_timer_ops text[], p_timer_queues text[], p_timer_keys text[], p_timer_partitions text[],
    p_timer_delays_us bigint[], p_timer_txns bytea[], p_timer_ids uuid[], p_timer_hashes bytea[], p_timer_blobs bytea[],
    p_queues text[], p_partitions text[], p_counts int[], p_hashes bytea[], p_verified bigint[], p_blobs bytea[],
    p_verified_from bigint[], p_verified_ids uuid[],
    p_leases text[], p_ack_pids uuid[], p_ack_groups text[], p_ack_workers text[], p_ack_ends bigint[],
    p_ack_counts int[], p_ack_hashes bytea[], p_ack_statuses text[],
    p_dead_acks int[], p_dead_offsets bigint[], p_dead_ids uuid[], p_dead_txns bytea[], p_dead_payloads bytea[],
    p_dead_errors text[])
returns table (outcome text, state text, error text, detail text)
language plpgsql
as $$
begin
    outcome := queen.log_transaction_wire_v1(
        p_request_id, p_retry, p_kv_ops, p_kv_values, p_timer_ops, p_timer_queues, p_timer_keys,
        p_timer_partitions, p_timer_delays_us, p_timer_txns, p_timer_ids, p_timer_hashes, p_timer_blobs,
        p_queues, p_partitions, p_counts, p_hashes, p_verified, p_blobs, p_verified_from, p_verified_ids,
        p_leases, p_ack_pids, p_ack_groups, p_ack_workers, p_ack_ends, p_ack_counts, p_ack_hashes,
        p_ack_statuses, p_dead_acks, p_dead_offsets, p_dead_ids, p_dead_txns, p_dead_payloads, p_dead_errors)::text;
    return next;
exception when check_violation or sqlstate 'QT001' or sqlstate 'QT002' or sqlstate 'QT003' then
    get stacked diagnostics state = returned_sqlstate, error = message_text, detail = pg_exception_detail;
    outcome := null;
    return next;
end
$$;
