-- log_transaction_wire_v1: a client's transaction: key/value, timers, pushes and acks, all or an exception.
--
-- Parameters: p_request_id  the request; p_retry  an earlier try under this id may have committed
--             p_kv_ops, p_kv_values  as of kv_apply_v1; NULL = none
--             p_timer_*     as of log_timers_apply_v1
--             p_queues .. p_verified_ids  as of log_push_multi_v1, each (queue, partition) once
--             p_leases .. p_dead_errors   as of log_transaction_acks_v1
-- Returns:    {"kv":[result as a JSON text],"timers":[{status,deliverUs,txn (hex)}],
--             "pushes":[{id,base}],"acks":[as of log_transaction_acks_v1]}, in the order of the parameters
-- Raises:     as kv_apply_v1, log_timers_apply_v1, log_transaction_acks_v1; QT001 with
--             {"push":place from 0,"index":item in it,"off"} as DETAIL when a pushed id is inside its window
-- Algorithm:  a lock on the request id makes a repeat wait for the try before it, which then is either
--             recorded, and answered from the record, or did nothing. Then the parts, in lock order; the
--             record is written with them.
-- Tables:     those of the functions called; request_outcomes (read, insert)
-- Locks, in order: advisory (request id), kv ascending by (namespace, key), log_timers ascending by
--             (queue, timer_key), those of log_push_multi_v1 (queues, log_partitions ascending by id),
--             log_consumers ascending by (partition_id, consumer_group).
create or replace function queen.log_transaction_wire_v1(
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
returns jsonb
language plpgsql
as $$
declare
    v_outcome jsonb;
    v_kv text[];
    v_timers jsonb;
    v_pushes jsonb;
    v_again jsonb;
    v_acks jsonb;
begin
    perform pg_advisory_xact_lock(hashtextextended('queen.request/' || p_request_id, 42));
    if p_retry then
        select o.outcome into v_outcome from queen.request_outcomes o where o.request_id = p_request_id;
        if found then
            return v_outcome;
        end if;
    end if;

    if p_kv_ops is not null then
        v_kv := queen.kv_apply_v1(p_kv_ops, p_kv_values, null, true);
    end if;

    if cardinality(p_timer_ops) > 0 then
        select jsonb_agg(jsonb_build_object('status', t.status, 'txn', encode(t.txn, 'hex'),
                                            'deliverUs', (extract(epoch from t.deliver_at) * 1000000)::bigint)
                         order by t.ordinal)
        into v_timers
        from queen.log_timers_apply_v1(p_timer_ops, p_timer_queues, p_timer_keys, p_timer_partitions,
                                       p_timer_delays_us, p_timer_txns, p_timer_ids, p_timer_hashes,
                                       p_timer_blobs, null) as t;
    end if;

    if cardinality(p_queues) > 0 then
        select jsonb_agg(jsonb_build_object('id', m.partition_id, 'base', m.base_offset) order by m.ordinal),
               (jsonb_agg(jsonb_build_object('push', m.ordinal - 1, 'index', m.dup_index[1], 'off', m.dup_offset[1])
                          order by m.ordinal) filter (where m.status <> 1)) -> 0
        into v_pushes, v_again
        from queen.log_push_multi_v1(p_queues, p_partitions, p_counts, p_hashes, p_verified, p_blobs,
                                     p_request_id, false, p_verified_from, p_verified_ids) as m;
        if v_again is not null then
            raise exception 'a pushed transactionId is in the log already' using errcode = 'QT001', detail = v_again::text;
        end if;
    end if;

    v_acks := queen.log_transaction_acks_v1(p_leases, p_ack_pids, p_ack_groups, p_ack_workers, p_ack_ends,
                                            p_ack_counts, p_ack_hashes, p_ack_statuses, p_dead_acks,
                                            p_dead_offsets, p_dead_ids, p_dead_txns, p_dead_payloads, p_dead_errors);

    v_outcome := jsonb_build_object('kv', coalesce(to_jsonb(v_kv), '[]'), 'timers', coalesce(v_timers, '[]'),
                                    'pushes', coalesce(v_pushes, '[]'), 'acks', coalesce(v_acks, '[]'));
    insert into queen.request_outcomes (request_id, outcome) values (p_request_id, v_outcome);
    return v_outcome;
end
$$;
