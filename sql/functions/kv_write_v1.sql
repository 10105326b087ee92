-- kv_write_v1: decides and does one put, putIfAbsent, delete or incr.
--
-- Parameters: p_op     the operation, checked by kv_check_v1
--             p_value  the JSON to store (put, putIfAbsent)
--             p_now    the call's instant: expiry is judged by it
-- Returns:    applied; value and version of the key: what was written or deleted, else what is there
--             (NULL and 0 for nothing); reason when not applied: exists, absent, version, limit, type
-- Algorithm:  lock the row, decide, write. A missing row is inserted; whoever finds that another one
--             was faster decides again. A version is taken while the key is held, so that versions of a
--             key grow also across its deletion: after an insert, which takes the key and a version in
--             one step, a number that is no longer the sequence's last is replaced.
-- Tables:     kv (read, insert, update, delete)
-- Locks:      the key's row, or its unique index entry
create or replace function queen.kv_write_v1(p_op jsonb, p_value text, p_now timestamptz,
                                             out applied boolean, out value text, out version bigint,
                                             out reason text)
language plpgsql
as $$
#variable_conflict use_column
declare
    v_name text := p_op ->> 'op';
    v_ns text := p_op ->> 'ns';
    v_key text := p_op ->> 'key';
    v_expect bigint := case when v_name = 'putIfAbsent' then 0 else (p_op -> 'expect')::numeric end;
    v_expires timestamptz :=
        p_now + make_interval(secs => case when jsonb_typeof(p_op -> 'ttlSeconds') = 'number'
                                           then (p_op -> 'ttlSeconds')::float8 end);
    v_new text;
    v_number numeric;
    v_row queen.kv%rowtype;
    v_there boolean;
    v_live boolean;
    v_version bigint;
begin
    loop
        select * into v_row from queen.kv k where k.namespace = v_ns and k.key = v_key for update;
        v_there := found;
        v_live := v_there and (v_row.expires_at is null or v_row.expires_at > p_now);

        reason := case
            when v_expect = 0 and v_live then 'exists'
            when v_expect > 0 and not v_live then 'absent'
            when v_expect > 0 and v_row.version <> v_expect then 'version'
            when v_name = 'delete' and v_expect is null and not v_live then 'absent'
            when v_name = 'incr' and v_live and not queen.kv_is_number_v1(v_row.value) then 'type'
        end;
        v_new := p_value;
        if v_name = 'incr' and reason is null then
            v_number := (p_op -> 'delta')::numeric + case when v_live then v_row.value::numeric else 0 end;
            v_new := trim_scale(v_number)::text;
            if jsonb_typeof(p_op -> 'min') = 'number' and v_number < (p_op -> 'min')::numeric
               or jsonb_typeof(p_op -> 'max') = 'number' and v_number > (p_op -> 'max')::numeric then
                reason := 'limit';
            end if;
        end if;

        applied := reason is null;
        if not applied or v_name = 'delete' then
            value := case when v_live then v_row.value end;
            version := case when v_live then v_row.version else 0 end;
            if applied and v_live then
                delete from queen.kv k where k.namespace = v_ns and k.key = v_key;
            end if;
            return;
        end if;

        value := v_new;
        if v_there then
            update queen.kv k
            set value = v_new,
                version = nextval('queen.kv_version_seq'),
                expires_at = case when v_name = 'incr' and v_live then k.expires_at else v_expires end,
                created_at = case when v_live then k.created_at else p_now end,
                updated_at = p_now
            where k.namespace = v_ns and k.key = v_key
            returning k.version into version;
            return;
        end if;
        insert into queen.kv as k (namespace, key, value, version, expires_at, created_at, updated_at)
        values (v_ns, v_key, v_new, nextval('queen.kv_version_seq'), v_expires, p_now, p_now)
        on conflict do nothing
        returning k.version into v_version;
        if v_version is not null then
            if v_version <> (select s.last_value from queen.kv_version_seq s) then
                update queen.kv k set version = nextval('queen.kv_version_seq')
                where k.namespace = v_ns and k.key = v_key
                returning k.version into v_version;
            end if;
            version := v_version;
            return;
        end if;
    end loop;
end
$$;
