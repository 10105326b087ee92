-- log_partitions_cleanup_v1: one bounded step of deleting partitions that have long been empty.
--
-- Parameters: p_max_partitions; p_days  idle for so long
-- Returns:    partitions deleted
-- Algorithm:  no segment, no dead letter, no stream state, no live lease, and neither created, written
--             nor consumed from within p_days. A later push creates the name anew, under another id and
--             from offset 0.
-- Tables:     log_partitions, log_consumers (by cascade), log_txns, queen.stream_cycles
--             (delete), log_dlq, queen.stream_state (read)
-- Locks, in order: advisory (try), log_partitions FOR UPDATE SKIP LOCKED ascending by id, their
--             queen.stream_cycles, log_consumers (by cascade): both are idle.
create or replace function queen.log_partitions_cleanup_v1(p_max_partitions int, p_days int)
returns bigint
language plpgsql
as $$
declare
    v_cutoff timestamptz := clock_timestamp() - make_interval(days => p_days);
    v_ids uuid[];
begin
    if not pg_try_advisory_xact_lock(hashtextextended('queen.log_partitions_cleanup', 42)) then
        return 0;
    end if;
    select array_agg(t.id) into v_ids
    from (select p.id
          from (select x.id from queen.log_partitions x
                where x.oldest_live_at is null and x.last_write_at < v_cutoff and x.created_at < v_cutoff
                  and not exists (select 1 from queen.log_dlq d where d.partition_id = x.id)
                  and not exists (select 1 from queen.stream_cycles y
                                  join queen.stream_state s
                                      on s.query_id = y.query_id and s.partition_id = y.partition_id
                                  where y.partition_id = x.id)
                  and not exists (select 1 from queen.log_consumers c
                                  where c.partition_id = x.id
                                    and (c.lease_expires_at >= clock_timestamp() or c.released_at >= v_cutoff
                                         or c.created_at >= v_cutoff))
                order by x.last_write_at
                limit p_max_partitions) as d
          join queen.log_partitions p on p.id = d.id and p.oldest_live_at is null
          order by p.id
          for update of p skip locked) as t;
    if v_ids is null then
        return 0;
    end if;
    delete from queen.log_txns t where t.partition_id = any (v_ids);
    delete from queen.stream_cycles c where c.partition_id = any (v_ids);
    delete from queen.log_partitions p where p.id = any (v_ids);
    return cardinality(v_ids);
end
$$;
