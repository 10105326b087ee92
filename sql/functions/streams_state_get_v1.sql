-- streams_state_get_v1: state of a query on one partition, in the byte order of the keys.
--
-- Parameters: p_query_id, p_partition_id
--             p_keys        only these keys; NULL = all
--             p_prefix      only keys that begin so, literally; '' = all
--             p_ripe        only values whose number windowEnd is at or below it; NULL = all
--             p_max_rows, p_max_bytes (of keys and values)
-- Returns:    key, value, updated_at
-- Raises:     54000 when there is more: part of a state would pass for all of it
-- Algorithm:  the keys by the primary key, or the ripe ones by their index, or one range of the primary
--             key up to the first key beyond the prefix.
-- Tables:     queen.stream_state (read)
-- Locks:      none
create or replace function queen.streams_state_get_v1(p_query_id uuid, p_partition_id uuid, p_keys text[],
                                                      p_prefix text, p_ripe double precision,
                                                      p_max_rows int, p_max_bytes bigint)
returns table (key text, value text, updated_at timestamptz)
language plpgsql stable
set enable_seqscan = off
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
    v_rows refcursor;
    v_row record;
    v_count int := 0;
    v_bytes bigint := 0;
begin
    if p_keys is not null then
        open v_rows for
            select s.* from (select distinct u.key collate "C" as key from unnest(p_keys) as u (key)) as k
            join queen.stream_state s
                on s.query_id = p_query_id and s.partition_id = p_partition_id and s.key = k.key
            order by s.key;
    elsif p_ripe is not null then
        open v_rows for
            select s.* from queen.stream_state s
            where s.query_id = p_query_id and s.partition_id = p_partition_id and s.window_end <= p_ripe
            order by s.key;
    else
        open v_rows for
            select s.* from queen.stream_state s
            where s.query_id = p_query_id and s.partition_id = p_partition_id and s.key >= p_prefix
            order by s.key;
    end if;
    loop
        fetch v_rows into v_row;
        exit when not found;
        if not starts_with(v_row.key, p_prefix) then
            exit when p_keys is null and p_ripe is null;
            continue;
        end if;
        continue when p_ripe is not null and (v_row.window_end <= p_ripe) is not true;
        v_count := v_count + 1;
        v_bytes := v_bytes + octet_length(v_row.key) + octet_length(v_row.value);
        if v_count > p_max_rows or v_bytes > p_max_bytes then
            raise exception 'the state has more than % rows or % bytes: ask for a part of it by keys, key_prefix or ripe_at_or_before',
                p_max_rows, p_max_bytes using errcode = '54000';
        end if;
        key := v_row.key;
        value := v_row.value;
        updated_at := v_row.updated_at;
        return next;
    end loop;
    close v_rows;
end
$$;
