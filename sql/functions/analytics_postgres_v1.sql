-- analytics_postgres_v1: what PostgreSQL says about itself.
--
-- Returns:    the answer of GET /api/v1/analytics/postgres-stats, as text. Other sessions' statements are
--             cut to 200 characters; they carry no values, since every statement has parameters.
-- Tables:     the statistics views
-- Locks:      none
create or replace function queen.analytics_postgres_v1()
returns text
language sql stable
as $$
    with tables as materialized (
        select t.relid, t.relname, t.n_live_tup, t.n_dead_tup, t.n_tup_upd, t.n_tup_hot_upd, t.last_autovacuum,
               t.autovacuum_count, i.heap_blks_read, i.heap_blks_hit, i.idx_blks_read, i.idx_blks_hit
        from pg_stat_user_tables t
        join pg_statio_user_tables i on i.relid = t.relid
        where t.schemaname = 'queen'
    )
    select json_build_object(
        'timestamp', queen.time_text_v1(clock_timestamp())::json,
        'database', current_database(),
        'databaseCache', (select json_build_object(
            'blocksRead', d.blks_read, 'blocksHit', d.blks_hit,
            'hitRatio', round(100.0 * d.blks_hit / nullif(d.blks_hit + d.blks_read, 0), 2), 'commits', d.xact_commit,
            'rollbacks', d.xact_rollback, 'deadlocks', d.deadlocks, 'temporaryBytes', d.temp_bytes, 'connections', d.numbackends)
            from pg_stat_database d where d.datname = current_database()),
        'tableCache', (select coalesce(json_agg(json_build_object(
            'table', t.relname, 'blocksRead', t.heap_blks_read, 'blocksHit', t.heap_blks_hit,
            'hitRatio', round(100.0 * t.heap_blks_hit / nullif(t.heap_blks_hit + t.heap_blks_read, 0), 2)) order by t.relname), '[]') from tables t),
        'indexCache', (select coalesce(json_agg(json_build_object(
            'table', t.relname, 'blocksRead', t.idx_blks_read, 'blocksHit', t.idx_blks_hit,
            'hitRatio', round(100.0 * t.idx_blks_hit / nullif(t.idx_blks_hit + t.idx_blks_read, 0), 2)) order by t.relname), '[]') from tables t),
        'cacheSummary', (select json_build_object(
            'tableHitRatio', round(100.0 * sum(t.heap_blks_hit) / nullif(sum(t.heap_blks_hit + t.heap_blks_read), 0), 2),
            'indexHitRatio', round(100.0 * sum(t.idx_blks_hit) / nullif(sum(t.idx_blks_hit + t.idx_blks_read), 0), 2)) from tables t),
        'deadTuples', (select coalesce(json_agg(json_build_object(
            'table', t.relname, 'live', t.n_live_tup, 'dead', t.n_dead_tup,
            'deadRatio', round(100.0 * t.n_dead_tup / nullif(t.n_live_tup + t.n_dead_tup, 0), 2)) order by t.n_dead_tup desc, t.relname), '[]') from tables t),
        'hotUpdates', (select coalesce(json_agg(json_build_object(
            'table', t.relname, 'updates', t.n_tup_upd, 'hot', t.n_tup_hot_upd,
            'hotRatio', round(100.0 * t.n_tup_hot_upd / nullif(t.n_tup_upd, 0), 2)) order by t.relname), '[]') from tables t),
        'activeQueries', (select coalesce(json_agg(json_build_object(
            'pid', a.pid, 'application', a.application_name, 'state', a.state, 'waitEvent', a.wait_event,
            'seconds', round(extract(epoch from clock_timestamp() - a.query_start), 3), 'query', left(a.query, 200)) order by a.query_start), '[]')
            from (select x.* from pg_stat_activity x
                  where x.datname = current_database() and x.state <> 'idle' and x.pid <> pg_backend_pid()
                  order by x.query_start limit 100) as a),
        'autovacuumStatus', (select coalesce(json_agg(json_build_object(
            'table', t.relname, 'count', t.autovacuum_count, 'last', queen.time_text_v1(t.last_autovacuum)::json) order by t.relname), '[]') from tables t),
        'bufferConfig', (select json_object_agg(s.name, s.setting || coalesce(s.unit, '')) from pg_settings s
                         where s.name in ('shared_buffers', 'effective_cache_size', 'work_mem', 'maintenance_work_mem', 'wal_buffers', 'max_connections')),
        'bufferUsage', (select json_build_object(
            'checkpointBuffers', b.buffers_checkpoint, 'cleanerBuffers', b.buffers_clean, 'backendBuffers', b.buffers_backend,
            'allocated', b.buffers_alloc, 'timedCheckpoints', b.checkpoints_timed, 'requestedCheckpoints', b.checkpoints_req)
            from (select (to_jsonb(x) ->> 'buffers_checkpoint')::bigint as buffers_checkpoint, (to_jsonb(x) ->> 'buffers_clean')::bigint as buffers_clean,
                         (to_jsonb(x) ->> 'buffers_backend')::bigint as buffers_backend, (to_jsonb(x) ->> 'buffers_alloc')::bigint as buffers_alloc,
                         (to_jsonb(x) ->> 'checkpoints_timed')::bigint as checkpoints_timed, (to_jsonb(x) ->> 'checkpoints_req')::bigint as checkpoints_req
                  from pg_stat_bgwriter x) as b),
        'tableSizes', (select coalesce(json_agg(json_build_object(
            'table', t.relname, 'totalBytes', pg_total_relation_size(t.relid), 'tableBytes', pg_table_size(t.relid),
            'indexBytes', pg_indexes_size(t.relid)) order by pg_total_relation_size(t.relid) desc, t.relname), '[]') from tables t))::text;
$$;
