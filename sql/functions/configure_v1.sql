-- configure_v1: creates a queue or changes its options.
--
-- Parameters: p_queue  name ('' is allowed)
--             p_body   the request: namespace, task, options (or the options at top level), mode
-- Returns:    the answer of POST /api/v1/configure (contract 2, section 1)
-- Algorithm:  merge: an absent key keeps its value, null restores the default, a value sets it; replace:
--             everything from the defaults. A new queue is made from the defaults either way. A value of
--             the wrong type or range is refused with SQLSTATE 22023; nothing is written.
-- Tables:     queues (insert, update)
-- Locks:      the queues row FOR UPDATE
create or replace function queen.configure_v1(p_queue text, p_body jsonb)
returns jsonb
language plpgsql
as $$
declare
    v_mode text := coalesce(p_body ->> 'mode', 'merge');
    v_options jsonb := case when jsonb_typeof(p_body -> 'options') = 'object' then p_body -> 'options'
                            else p_body end;
    v_old jsonb;
    v_new jsonb;
    v_spec record;
    v_value jsonb;
    v_id uuid;
begin
    if v_mode not in ('merge', 'replace') then
        raise exception 'mode must be merge or replace, found "%"', left(v_mode, 64) using errcode = '22023';
    end if;
    if jsonb_typeof(p_body -> 'options') not in ('object', 'null') then
        raise exception 'options must be an object, found %', jsonb_typeof(p_body -> 'options') using errcode = '22023';
    end if;
    insert into queen.queues (name, namespace, task, lease_time) values (p_queue, '', '', 300)
    on conflict (name) do nothing
    returning id into v_id;
    if v_id is not null then
        v_mode := 'replace';
    end if;
    select to_jsonb(q), q.id into v_old, v_id from queen.queues q where q.name = p_queue for update;

    v_new := v_old;
    for v_spec in select * from queen.queue_options_v1() loop
        v_value := case when v_spec.option in ('namespace', 'task') and p_body ? v_spec.option
                        then p_body -> v_spec.option else v_options -> v_spec.option end;
        if v_value is null and v_mode = 'merge' then
            continue;
        end if;
        if v_value is null or v_value = 'null' then
            v_value := v_spec.default_value;
        end if;
        -- Clients also send numbers and booleans as text, and 0 and 1 for booleans.
        if jsonb_typeof(v_spec.default_value) = 'number' and v_value #>> '{}' ~ '^-?[0-9]{1,18}$' then
            v_value := to_jsonb((v_value #>> '{}')::bigint);
        elsif jsonb_typeof(v_spec.default_value) = 'boolean'
              and lower(v_value #>> '{}') in ('true', 'false', 'yes', 'no', 'on', 'off', '1', '0') then
            v_value := to_jsonb((v_value #>> '{}')::boolean);
        end if;
        if jsonb_typeof(v_value) <> jsonb_typeof(v_spec.default_value) then
            raise exception '% must be a %, found %', v_spec.option, jsonb_typeof(v_spec.default_value),
                left(v_value::text, 64) using errcode = '22023';
        end if;
        if jsonb_typeof(v_value) = 'number' then
            if v_value::numeric <> trunc(v_value::numeric) or v_value::numeric not between -2147483648 and 2147483647 then
                raise exception '% must be a whole number of 32 bits, found %', v_spec.option,
                    left(v_value::text, 64) using errcode = '22023';
            end if;
            if v_spec.refuse and v_value::numeric not between v_spec.low and v_spec.high then
                raise exception '% must be from % to %, found %', v_spec.option, v_spec.low, v_spec.high, v_value
                    using errcode = '22023';
            end if;
            v_value := to_jsonb(least(greatest(v_value::numeric, v_spec.low), v_spec.high)::bigint);
        elsif jsonb_typeof(v_value) = 'string' then
            if octet_length(v_value #>> '{}') > 512 then
                raise exception '% has % bytes, the limit is 512', v_spec.option, octet_length(v_value #>> '{}')
                    using errcode = '22023';
            end if;
            if v_spec.refuse and (v_value #>> '{}') !~ '^[A-Za-z0-9._-]{0,64}$' then
                raise exception '% must match [A-Za-z0-9._-]{0,64}', v_spec.option using errcode = '22023';
            end if;
        end if;
        v_new := v_new || jsonb_build_object(v_spec.col, v_value);
    end loop;

    update queen.queues q
    set (namespace, task, lease_time, retry_limit, retry_delay, dead_letter_queue, dlq_after_max_retries,
         delayed_processing, window_buffer, min_pop_wait_time, retention_enabled, retention_seconds,
         completed_retention_seconds, max_wait_time_seconds, encryption_enabled, dedup_window_seconds,
         priority, ttl, max_size, retention_sink_hold, retention_sink_hold_max_seconds)
        = (select n.namespace, n.task, n.lease_time, n.retry_limit, n.retry_delay, n.dead_letter_queue,
                  n.dlq_after_max_retries, n.delayed_processing, n.window_buffer, n.min_pop_wait_time,
                  n.retention_enabled, n.retention_seconds, n.completed_retention_seconds,
                  n.max_wait_time_seconds, n.encryption_enabled, n.dedup_window_seconds, n.priority, n.ttl,
                  n.max_size, n.retention_sink_hold, n.retention_sink_hold_max_seconds
           from jsonb_populate_record(null::queen.queues, v_new) as n)
    where q.id = v_id;

    return jsonb_build_object('configured', true, 'queueId', v_id, 'partitionId', null, 'queue', p_queue,
                              'namespace', v_new ->> 'namespace', 'task', v_new ->> 'task',
                              'storage', 'segments',
                              'options', (select jsonb_object_agg(s.option, v_new -> s.col)
                                          from queen.queue_options_v1() as s
                                          where s.option not in ('namespace', 'task')));
end
$$;
