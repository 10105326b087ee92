-- kv_apply_v1: runs a list of key/value operations in the caller's transaction, all or nothing.
--
-- Parameters: p_ops     array of {op, ns, key | keys | prefix, ttlSeconds, forever, expect, required,
--                       delta, min, max, after, limit, keysOnly}; other members are ignored
--             p_values  per operation the JSON text of its value as it was sent, NULL = it has none; not
--                       in p_ops, since jsonb would change numbers and refuse \u0000
--             p_now     the instant of the call; NULL = the transaction's start
--             p_in_transaction  rider of a transaction: 64 operations, 256 keys, no getPrefix
-- Returns:    per operation the JSON text of its result, without "index"
-- Raises:     as kv_check_v1; QS001 kv_disabled when the operator's switch is off (deletions still
--             work); 23514 kv_precondition_failed when an operation with required:true does not apply,
--             with {"index","op","ns","key","reason","version","value"} as DETAIL
-- Algorithm:  operations of one key in ascending (ns, key), then in input order; the reads of many keys
--             after them, so they see the writes of their call.
-- Tables:     kv (read, insert, update, delete), system_state (read)
-- Locks, in order: the written keys, ascending by (namespace, key) bytes. Nothing else may be held:
--             keys come before timers, queues, partitions and consumers.
create or replace function queen.kv_apply_v1(p_ops jsonb, p_values text[], p_now timestamptz,
                                             p_in_transaction boolean)
returns text[]
language plpgsql
as $$
declare
    c_budget constant bigint := 4 * 1024 * 1024;
    v_now timestamptz := coalesce(p_now, now());
    v_results text[];
    v_op jsonb;
    v_index int;
    v_head text;
    v_row queen.kv%rowtype;
    v_write record;
    v_page record;
    v_bytes bigint := 0;
begin
    perform queen.kv_check_v1(p_ops, p_values, p_in_transaction);
    v_results := array_fill(null::text, array[jsonb_array_length(p_ops)]);
    if not queen.switch_is_on_v1('kv_enabled')
       and exists (select 1 from jsonb_array_elements(p_ops) as e (op) where e.op ->> 'op' <> 'delete') then
        raise exception 'kv_disabled: key/value is switched off' using errcode = 'QS001';
    end if;

    for v_op, v_index in
        select e.op, e.ord - 1
        from jsonb_array_elements(p_ops) with ordinality as e (op, ord)
        order by e.op ->> 'op' in ('getMany', 'getPrefix'),
                 (case when e.op ->> 'op' not in ('getMany', 'getPrefix') then e.op ->> 'ns' end) collate "C",
                 (case when e.op ->> 'op' not in ('getMany', 'getPrefix') then e.op ->> 'key' end) collate "C",
                 e.ord
    loop
        v_head := '{"op":' || (v_op -> 'op')::text;
        if v_op ->> 'op' = 'get' then
            select * into v_row from queen.kv k
            where k.namespace = v_op ->> 'ns' and k.key = v_op ->> 'key'
              and (k.expires_at is null or k.expires_at > v_now);
            if found then
                v_results[v_index + 1] := v_head || ',"found":true,'
                    || queen.kv_entry_text_v1(v_row.key, v_row.value, v_row.version, v_row.expires_at,
                                              v_row.updated_at) || '}';
            else
                v_results[v_index + 1] := v_head || ',"found":false,"key":' || to_json(v_op ->> 'key')::text || '}';
            end if;
        elsif v_op ->> 'op' = 'getMany' then
            select * into v_page from queen.kv_many_v1(v_op ->> 'ns', v_op -> 'keys', greatest(c_budget - v_bytes, 0), v_now);
            v_bytes := v_bytes + v_page.bytes;
            v_results[v_index + 1] := v_head || ',"rows":' || v_page.rows || ',"missing":' || v_page.missing
                || ',"truncated":' || v_page.truncated || '}';
        elsif v_op ->> 'op' = 'getPrefix' then
            select * into v_page
            from queen.kv_page_v1(v_op ->> 'ns', v_op ->> 'prefix', v_op ->> 'after',
                                  queen.kv_limit_v1(v_op -> 'limit'), greatest(c_budget - v_bytes, 0),
                                  coalesce((v_op ->> 'keysOnly')::boolean, false), null, v_now);
            v_bytes := v_bytes + v_page.bytes;
            v_results[v_index + 1] := v_head || ',"rows":' || v_page.rows || ',"truncated":' || v_page.truncated
                || ',"nextAfter":' || case when v_page.truncated then to_json(v_page.last_key)::text else 'null' end
                || '}';
        else
            select * into v_write from queen.kv_write_v1(v_op, p_values[v_index + 1], v_now);
            if not v_write.applied and v_op -> 'required' = 'true' then
                raise exception 'kv_precondition_failed: operation %: %', v_index, v_write.reason
                    using errcode = '23514',
                          detail = '{"index":' || v_index || ',"op":' || (v_op -> 'op')::text
                                   || ',"ns":' || (v_op -> 'ns')::text || ',"key":' || (v_op -> 'key')::text
                                   || ',"reason":"' || v_write.reason || '","version":' || v_write.version
                                   || ',"value":' || coalesce(v_write.value, 'null') || '}';
            end if;
            v_results[v_index + 1] := v_head || ',"applied":' || v_write.applied
                || ',"key":' || to_json(v_op ->> 'key')::text || ',"value":' || coalesce(v_write.value, 'null')
                || ',"version":' || v_write.version || coalesce(',"reason":"' || v_write.reason || '"', '') || '}';
        end if;
    end loop;
    return v_results;
end
$$;
