-- log_txn_find_v1: where transaction hashes stand in a partition.
--
-- Parameters: p_partition_id  the partition
--             p_hashes        16-byte hashes
--             p_from, p_to    offsets to look in, inclusive; p_to NULL = no upper end
--             p_since         only rows with created_at >= it; NULL = all
-- Returns:    per distinct hash that occurs, its lowest offset in the range
-- Algorithm:  the rows that can hold the range are one range of the primary key (it starts at the row
--             that covers p_from). One or two hashes are searched for in the packed bytes (80 ns an
--             offset and hash), more are hash-joined with the unpacked ones (200 ns an offset).
-- Tables:     log_txns (read)
-- Locks:      none; the caller's snapshot counts
create or replace function queen.log_txn_find_v1(p_partition_id uuid, p_hashes bytea[], p_from bigint,
                                                 p_to bigint, p_since timestamptz)
returns table (hash bytea, found bigint)
language plpgsql stable
set enable_seqscan = off
set enable_hashjoin = on
set plan_cache_mode = force_generic_plan
set jit = off
as $$
#variable_conflict use_column
declare
    c_few constant int := 2;
    v_to constant bigint := coalesce(p_to, 9223372036854775807);
    v_since constant timestamptz := coalesce(p_since, '-infinity');
    v_first bigint;
begin
    select t.base_offset into v_first
    from queen.log_txns t
    where t.partition_id = p_partition_id and t.base_offset <= p_from
    order by t.base_offset desc
    limit 1;
    v_first := coalesce(v_first, p_from);

    if cardinality(p_hashes) <= c_few then
        return query
        select h.hash, o.found
        from (select distinct u.hash from unnest(p_hashes) as u (hash)) as h
        cross join lateral (
            select x.start + (x.place - 1) / 16 as found
            from (
                select s.start, position(h.hash in s.part) as place
                from queen.log_txns t
                cross join lateral (
                    select greatest(t.base_offset, p_from) as start,
                           case when t.base_offset >= p_from then t.hashes
                                else substring(t.hashes from (16 * (p_from - t.base_offset) + 1)::int)
                           end as part
                ) as s
                where t.partition_id = p_partition_id and t.base_offset >= v_first
                  and t.base_offset <= v_to and t.end_offset >= p_from and t.created_at >= v_since
                order by t.base_offset
            ) as x
            where x.place % 16 = 1
            limit 1
        ) as o
        where o.found <= v_to;
    else
        return query
        select o.hash, min(o.place)
        from (
            select substring(t.hashes from 16 * k.i + 1 for 16) as hash, t.base_offset + k.i as place
            from queen.log_txns t
            cross join lateral generate_series(0, (t.end_offset - t.base_offset)::int) as k (i)
            where t.partition_id = p_partition_id and t.base_offset >= v_first
              and t.base_offset <= v_to and t.end_offset >= p_from and t.created_at >= v_since
        ) as o
        join (select distinct u.hash from unnest(p_hashes) as u (hash)) as h on h.hash = o.hash
        where o.place between p_from and v_to
        group by o.hash;
    end if;
end
$$;
