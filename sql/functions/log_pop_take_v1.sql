-- log_pop_take_v1: picks and locks the cursor rows for the claims of a call.
--
-- Parameters: what is wanted, a target a number from 1 on:
--             p_targets, p_queue_ids       aligned: the queues of each target
--             p_partitions, p_groups       by target: partition name (NULL = any), group
--             by claim: p_claim_targets, p_budgets (messages), p_max_partitions
-- Returns:    (claim, partition), for each claim in the order of serving
-- Algorithm:  one statement lists the candidates of all targets, oldest claimable first. They are dealt
--             out in memory: to the first claim of a target until its budget or its partitions are spent,
--             then to the next. One statement locks what was dealt, no more than the claims need,
--             passing over rows that another call holds or has just leased; for those there is another
--             round. What a locked row really gives is read by log_pop_serve_v1, under the lock.
-- Tables:     those of log_pop_pending_v1 (read)
-- Locks, in order: log_consumers FOR UPDATE SKIP LOCKED: never waits.
create or replace function queen.log_pop_take_v1(p_targets int[], p_queue_ids uuid[], p_partitions text[],
                                                 p_groups text[], p_claim_targets int[], p_budgets int[],
                                                 p_max_partitions int[])
returns table (claim int, partition_id uuid)
language plpgsql
as $$
#variable_conflict use_column
declare
    c_spare constant int := 32;     -- candidates beyond the need: others may hold the first ones
    v_now constant timestamptz := clock_timestamp();
    v_claims int[];         -- claim numbers, target after target
    v_targets int[];        -- candidates: target, partition, messages for sure
    v_ids uuid[];
    v_sure bigint[];
    v_next int[];           -- by target: its next candidate, and its last
    v_last int[];
    v_turn int[];           -- by target: place in v_claims of the claim that is served, and of the last one
    v_end int[];
    v_left bigint[];        -- by target: what that claim still wants, in messages and partitions
    v_parts int[];
    v_dealt int[];
    v_taken text[] := '{}'; -- cursor rows, when there are several targets: two may want the same one
    v_key text;
    v_place int;
    v_need_left bigint;
    v_need_parts int;
    v_target int;
    v_row record;
begin
    select array_agg(c.ord::int order by c.target, c.ord) into v_claims
    from unnest(p_claim_targets) with ordinality as c (target, ord)
    where c.target is not null;

    select array_agg(k.target order by k.target, k.claimable_at, k.partition_id),
           array_agg(k.partition_id order by k.target, k.claimable_at, k.partition_id),
           array_agg(k.sure order by k.target, k.claimable_at, k.partition_id)
    into v_targets, v_ids, v_sure
    from (select t.target, k.*
          from (select s.target, array_agg(s.queue_id) as queue_ids
                from unnest(p_targets, p_queue_ids) as s (target, queue_id)
                group by s.target) as t
          join (select c.target, sum(c.max_partitions) as want
                from unnest(p_claim_targets, p_max_partitions) as c (target, max_partitions)
                group by c.target) as n on n.target = t.target
          cross join lateral (
              select x.partition_id, x.sure, x.claimable_at
              from queen.log_pop_pending_v1(t.queue_ids, p_partitions[t.target], p_groups[t.target], v_now) as x
              where x.claimable_at < v_now
              order by x.claimable_at, x.partition_id
              limit n.want + c_spare) as k) as k;

    for i in 1 .. coalesce(cardinality(v_targets), 0) loop
        v_target := v_targets[i];
        v_last[v_target] := i;
        if v_next[v_target] is null then
            v_next[v_target] := i;
        end if;
    end loop;
    for i in 1 .. coalesce(cardinality(v_claims), 0) loop
        v_target := p_claim_targets[v_claims[i]];
        v_end[v_target] := i;
        if v_turn[v_target] is null then
            v_turn[v_target] := i;
            v_left[v_target] := p_budgets[v_claims[i]];
            v_parts[v_target] := p_max_partitions[v_claims[i]];
        end if;
    end loop;

    loop
        v_dealt := '{}';
        for t in 1 .. coalesce(array_upper(v_next, 1), 0) loop
            v_place := v_turn[t];
            v_need_left := v_left[t];
            v_need_parts := v_parts[t];
            while v_place <= v_end[t] and v_next[t] <= v_last[t] loop
                v_dealt[cardinality(v_dealt) + 1] := v_next[t];
                v_need_left := v_need_left - v_sure[v_next[t]];
                v_need_parts := v_need_parts - 1;
                v_next[t] := v_next[t] + 1;
                if v_need_left <= 0 or v_need_parts <= 0 then
                    v_place := v_place + 1;
                    v_need_left := p_budgets[v_claims[v_place]];
                    v_need_parts := p_max_partitions[v_claims[v_place]];
                end if;
            end loop;
        end loop;
        exit when v_dealt = '{}';

        for v_row in
            select d.candidate, v_targets[d.candidate] as target
            from unnest(v_dealt) with ordinality as d (candidate, ord)
            cross join lateral (
                select 1 from queen.log_consumers x
                where x.partition_id = v_ids[d.candidate] and x.consumer_group = p_groups[v_targets[d.candidate]]
                  and (x.batch_end is null or x.lease_expires_at < v_now)
                limit 1
                for update skip locked) as c
            order by d.ord
        loop
            v_target := v_row.target;
            if cardinality(p_groups) > 1 then
                v_key := v_ids[v_row.candidate] || p_groups[v_target];
                continue when v_key = any (v_taken);
                v_taken[cardinality(v_taken) + 1] := v_key;
            end if;
            claim := v_claims[v_turn[v_target]];
            partition_id := v_ids[v_row.candidate];
            return next;
            v_left[v_target] := v_left[v_target] - v_sure[v_row.candidate];
            v_parts[v_target] := v_parts[v_target] - 1;
            if v_left[v_target] <= 0 or v_parts[v_target] <= 0 then
                v_turn[v_target] := v_turn[v_target] + 1;
                v_left[v_target] := p_budgets[v_claims[v_turn[v_target]]];
                v_parts[v_target] := p_max_partitions[v_claims[v_turn[v_target]]];
            end if;
        end loop;
    end loop;
end
$$;
