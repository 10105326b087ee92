-- kv_check_v1: refuses a list of key/value operations that is malformed, before anything is done.
--
-- Parameters: p_ops, p_values, p_in_transaction  as of kv_apply_v1
-- Returns:    nothing
-- Raises:     22023 "<code word>: <text>", 22001 for a key or value that is too large. The texts name
--             the operation by its index, never a key or a value.
-- Locks:      none
create or replace function queen.kv_check_v1(p_ops jsonb, p_values text[], p_in_transaction boolean)
returns void
language plpgsql immutable
as $$
declare
    c_max_ops constant int := case when p_in_transaction then 64 else 256 end;
    c_max_keys constant int := case when p_in_transaction then 256 else 1024 end;
    c_max_ttl constant numeric := 3155760000;   -- a hundred years
    v_op jsonb;
    v_name text;
    v_index int;
    v_keys int := 0;
    v_key jsonb;
    v_bad text;
begin
    if jsonb_typeof(p_ops) is distinct from 'array' then
        raise exception 'kv_bad_request: an array of operations is needed' using errcode = '22023';
    end if;
    if jsonb_array_length(p_ops) > c_max_ops then
        raise exception 'kv_too_many_ops: % operations, the limit is %', jsonb_array_length(p_ops), c_max_ops
            using errcode = '22023';
    end if;
    if cardinality(p_values) <> jsonb_array_length(p_ops) then
        raise exception 'kv_bad_request: % operations, % values', jsonb_array_length(p_ops), cardinality(p_values)
            using errcode = '22023';
    end if;

    for v_op, v_index in
        select e.op, e.ord - 1 from jsonb_array_elements(p_ops) with ordinality as e (op, ord)
    loop
        v_bad := null;
        if jsonb_typeof(v_op) <> 'object' then
            raise exception 'kv_bad_request: operation % is not an object', v_index using errcode = '22023';
        end if;
        v_name := v_op ->> 'op';
        v_bad := case
            when v_op ?| array['tenant', 'tenantId', '_tenant'] then 'kv_tenant_not_an_input: the tenant is not an input'
            when v_name is null
                 or v_name not in ('get', 'getMany', 'getPrefix', 'put', 'putIfAbsent', 'delete', 'incr')
                then 'kv_unknown_op: get, getMany, getPrefix, put, putIfAbsent, delete or incr is needed'
            when v_name = 'getPrefix' and p_in_transaction
                then 'kv_get_prefix_not_allowed_in_transaction: getPrefix is only on POST /api/v1/kv'
            when jsonb_typeof(v_op -> 'ns') is distinct from 'string' or v_op ->> 'ns' !~ '^[A-Za-z0-9._-]{1,64}$'
                then 'kv_bad_namespace: ns must be 1 to 64 of A-Z a-z 0-9 . _ -'
        end;

        -- The keys that it names.
        if v_bad is null and v_name = 'getMany' then
            if jsonb_typeof(v_op -> 'keys') is distinct from 'array' then
                v_bad := 'kv_bad_key: keys must be an array of strings';
            else
                v_keys := v_keys + jsonb_array_length(v_op -> 'keys');
                for v_key in select e from jsonb_array_elements(v_op -> 'keys') as e loop
                    if jsonb_typeof(v_key) <> 'string' or v_key #>> '{}' = '' then
                        v_bad := 'kv_bad_key: a key must be a string of 1 to 512 bytes';
                    elsif octet_length(v_key #>> '{}') > 512 then
                        raise exception 'kv_key_too_large: operation %: a key has % bytes, the limit is 512',
                            v_index, octet_length(v_key #>> '{}') using errcode = '22001';
                    end if;
                end loop;
            end if;
        elsif v_bad is null and v_name = 'getPrefix' then
            v_bad := case
                when jsonb_typeof(v_op -> 'prefix') is distinct from 'string' or v_op ->> 'prefix' = ''
                    then 'kv_prefix_required: prefix must be a string that is not empty'
                when jsonb_typeof(v_op -> 'after') not in ('string', 'null')
                    then 'kv_bad_request: after must be a string'
                when jsonb_typeof(v_op -> 'limit') not in ('number', 'null')
                    then 'kv_bad_request: limit must be a number'
                when jsonb_typeof(v_op -> 'keysOnly') not in ('boolean', 'null')
                    then 'kv_bad_request: keysOnly must be true or false'
            end;
            if v_bad is null then
                v_keys := v_keys + queen.kv_limit_v1(v_op -> 'limit');
            end if;
        elsif v_bad is null then
            v_keys := v_keys + 1;
            if jsonb_typeof(v_op -> 'key') is distinct from 'string' or v_op ->> 'key' = '' then
                v_bad := 'kv_bad_key: key must be a string of 1 to 512 bytes';
            elsif octet_length(v_op ->> 'key') > 512 then
                raise exception 'kv_key_too_large: operation %: the key has % bytes, the limit is 512',
                    v_index, octet_length(v_op ->> 'key') using errcode = '22001';
            end if;
        end if;

        -- What it writes, and on which condition.
        if v_bad is null and v_name in ('put', 'putIfAbsent', 'incr') then
            v_bad := case
                when v_name <> 'incr' and p_values[v_index + 1] is null
                    then 'kv_bad_request: value is required (null is a value)'
                when (coalesce(v_op -> 'ttlSeconds', 'null') <> 'null')
                     = (coalesce(v_op -> 'forever', 'null') = 'true')
                    then 'kv_expiry_not_specified: exactly one of ttlSeconds and forever:true is needed'
                when coalesce(v_op -> 'ttlSeconds', 'null') <> 'null'
                     and (jsonb_typeof(v_op -> 'ttlSeconds') <> 'number'
                          or (v_op -> 'ttlSeconds')::numeric <> trunc((v_op -> 'ttlSeconds')::numeric)
                          or (v_op -> 'ttlSeconds')::numeric not between 1 and c_max_ttl)
                    then 'kv_bad_ttl: ttlSeconds must be a whole number from 1 to ' || c_max_ttl
            end;
        end if;
        if v_bad is null and v_name in ('put', 'putIfAbsent', 'delete', 'incr') then
            v_bad := case
                when jsonb_typeof(v_op -> 'required') not in ('boolean', 'null')
                    then 'kv_bad_request: required must be true or false'
                when v_op ? 'expect'
                     and (jsonb_typeof(v_op -> 'expect') <> 'number'
                          or (v_op -> 'expect')::numeric <> trunc((v_op -> 'expect')::numeric)
                          or (v_op -> 'expect')::numeric not between 0 and 9223372036854775807)
                    then 'kv_bad_expect: expect must be a whole number that is not negative'
                when v_op ? 'expect' and (v_name = 'incr'
                                          or v_name = 'putIfAbsent' and (v_op -> 'expect')::numeric <> 0)
                    then 'kv_bad_expect: ' || v_name || ' takes no expect'
                when v_name = 'incr' and (jsonb_typeof(v_op -> 'delta') is distinct from 'number'
                                          or not queen.kv_is_number_v1((v_op -> 'delta')::text))
                    then 'kv_bad_request: delta must be a number'
                when v_name = 'incr' and (jsonb_typeof(v_op -> 'min') not in ('number', 'null')
                                          or jsonb_typeof(v_op -> 'max') not in ('number', 'null'))
                    then 'kv_bad_request: min and max must be numbers'
            end;
        end if;
        if v_bad is not null then
            raise exception '%: operation %:%', split_part(v_bad, ':', 1), v_index,
                substr(v_bad, position(':' in v_bad) + 1) using errcode = '22023';
        end if;
        if octet_length(p_values[v_index + 1]) > 65536 then
            raise exception 'kv_value_too_large: operation %: the value has % bytes, the limit is 65536',
                v_index, octet_length(p_values[v_index + 1]) using errcode = '22001';
        end if;
    end loop;

    if v_keys > c_max_keys then
        raise exception 'kv_too_many_keys: % keys, the limit is %', v_keys, c_max_keys using errcode = '22023';
    end if;
    if exists (select 1 from jsonb_array_elements(p_ops) as e (op)
               where e.op ->> 'op' in ('put', 'putIfAbsent', 'delete', 'incr')
               group by e.op ->> 'ns', e.op ->> 'key' having count(*) > 1) then
        raise exception 'kv_duplicate_key_in_call: a key is written more than once' using errcode = '22023';
    end if;
end
$$;
