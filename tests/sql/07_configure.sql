-- configure_v1: merge and replace, defaults, types, ranges. queue_delete_v1.
begin;
\ir helpers.psql
select no_plan();

create function pg_temp.conf(p_queue text, p_body text) returns jsonb language sql as $$ select queen.configure_v1(p_queue, p_body::jsonb) $$;

select is(pg_temp.conf('q', '{"queue":"q"}') - 'queueId', '{"configured":true,"partitionId":null,"queue":"q","namespace":"","task":"","storage":"segments","options":{
    "leaseTime":300,"retryLimit":3,"retryDelay":1000,"deadLetterQueue":true,"dlqAfterMaxRetries":true,"delayedProcessing":0,"windowBuffer":0,"minPopWaitTime":0,
    "retentionEnabled":false,"retentionSeconds":0,"completedRetentionSeconds":0,"maxWaitTimeSeconds":0,"encryptionEnabled":false,"dedupWindowSeconds":3600,
    "priority":0,"ttl":3600,"maxSize":0,"retentionSinkHold":"","retentionSinkHoldMaxSeconds":604800}}'::jsonb, 'a new queue: the body of the contract, all defaults');
select is((pg_temp.conf('q', '{}') ->> 'queueId')::uuid, (select id from queen.queues where name = 'q'), 'queueId');
select is((select lease_time from queen.queues where name = 'q'), 300, 'stored');
select pg_temp.push('implicit.queue', 'p', '{a}');
select is(pg_temp.conf('implicit.queue', '{"options":{"ttl":5}}') -> 'options' -> 'leaseTime', '60', 'merge keeps what an implicit queue has');
select is(pg_temp.conf('implicit.queue', '{}') ->> 'namespace', 'implicit', 'its namespace, too');

-- Merge
select is(pg_temp.conf('q', '{"namespace":"n","task":"t","options":{"leaseTime":7,"deadLetterQueue":false,"retentionSinkHold":"x.Y_z-9"}}')
          #- '{options,ttl}' ->> 'namespace', 'n', 'namespace and task beside the options');
select is(pg_temp.conf('q', '{"options":{"retryLimit":1}}') -> 'options' -> 'leaseTime', '7', 'an absent key keeps its value');
select is(pg_temp.conf('q', '{"options":{"leaseTime":null,"deadLetterQueue":null,"retentionSinkHold":null},"namespace":null}') - 'options', pg_temp.conf('q', '{}') - 'options', 'null');
select is(pg_temp.rows($$select lease_time, dead_letter_queue, retention_sink_hold, namespace, task, retry_limit from queen.queues where name = 'q'$$), '(300,t,"","",t,1)', 'null restores the default, the rest stays');
select is(pg_temp.conf('top', '{"queue":"x","leaseTime":9,"windowBuffer":4,"namespace":"n","mode":"merge","nonsense":1}') -> 'options' -> 'leaseTime', '9', 'options at top level');
select is((select name || window_buffer from queen.queues where window_buffer = 4), 'top4', 'the name is the parameter');
select is(pg_temp.conf('top', '{"leaseTime":8,"options":{"ttl":1}}') -> 'options' -> 'leaseTime', '9', 'but not beside an options object');
select is(pg_temp.conf('top', '{"options":null,"leaseTime":8}') -> 'options' -> 'leaseTime', '8', 'options null counts as absent');

-- Replace
select is(pg_temp.conf('top', '{"mode":"replace","options":{"ttl":3}}') -> 'options', pg_temp.conf('plain', '{"options":{"ttl":3}}') -> 'options', 'replace starts from the defaults');
select is(pg_temp.conf('top', '{}') ->> 'namespace', '', 'also for the namespace');
select is(pg_temp.conf('', '{"options":{"ttl":3}}') ->> 'queue', '', 'the empty name');

-- Clamps
select is(pg_temp.conf('c', '{"options":{"minPopWaitTime":70000,"dedupWindowSeconds":-5}}') -> 'options' -> 'minPopWaitTime', '60000', 'clamped from above');
select is((select min_pop_wait_time || ' ' || dedup_window_seconds from queen.queues where name = 'c'), '60000 0', 'and from below');
select is(pg_temp.conf('c', '{"options":{"minPopWaitTime":-1}}') -> 'options' -> 'minPopWaitTime', '0', 'minPopWaitTime');
select is(pg_temp.conf('c', '{"options":{"leaseTime":"60","deadLetterQueue":"false","retentionEnabled":1}}') -> 'options' @> '{"leaseTime":60,"deadLetterQueue":false,"retentionEnabled":true}', true, 'numbers and booleans as text');
select is(pg_temp.conf('c', '{"options":{"ttl":3.0e2}}') -> 'options' -> 'ttl', '300', 'a whole number however written');

-- Refusals: 22023, the option first, nothing written
select matches(pg_temp.raises(format($$select queen.configure_v1('bad', %L)$$, body)), '^22023 ' || option || ' ', body)
from (values ('{"mode":"Merge"}', 'mode'), ('{"mode":""}', 'mode'), ('{"mode":1}', 'mode'), ('{"mode":{}}', 'mode'),
             ('{"options":[1]}', 'options'), ('{"options":"x"}', 'options'),
             ('{"options":{"leaseTime":"abc"}}', 'leaseTime'), ('{"options":{"leaseTime":60.5}}', 'leaseTime'), ('{"options":{"leaseTime":true}}', 'leaseTime'),
             ('{"options":{"retryLimit":{}}}', 'retryLimit'), ('{"options":{"ttl":1e30}}', 'ttl'), ('{"options":{"ttl":2147483648}}', 'ttl'),
             ('{"options":{"deadLetterQueue":"maybe"}}', 'deadLetterQueue'), ('{"options":{"deadLetterQueue":[]}}', 'deadLetterQueue'),
             ('{"namespace":5}', 'namespace'), ('{"options":{"retentionSinkHold":"a b"}}', 'retentionSinkHold'),
             ('{"options":{"retentionSinkHold":"' || repeat('x', 65) || '"}}', 'retentionSinkHold'), ('{"options":{"retentionSinkHold":5}}', 'retentionSinkHold'),
             ('{"options":{"retentionSinkHoldMaxSeconds":59}}', 'retentionSinkHoldMaxSeconds'), ('{"options":{"retentionSinkHoldMaxSeconds":31536001}}', 'retentionSinkHoldMaxSeconds')) as v (body, option);
select is((select count(*) from queen.queues where name = 'bad'), 0::bigint, 'no queue was made');
select lives_ok($$select queen.configure_v1('edge', '{"options":{"retentionSinkHoldMaxSeconds":60,"retentionSinkHold":""}}')$$, 'the lowest value');
select matches(pg_temp.raises($$select queen.configure_v1('edge', '{"options":{"ttl":9,"retentionSinkHoldMaxSeconds":59}}')$$), 'found.*59', 'the message says what was found');
select is((select ttl from queen.queues where name = 'edge'), 3600, 'and nothing of the call is written');

-- Deleting
select is(queen.queue_delete_v1('never'), false, 'an unknown queue');
select pg_temp.push('d', x, '{a,b}') from unnest('{x,y}'::text[]) x;
select pg_temp.push('kept', 'x', '{a}');
select pg_temp.pop(q, 'w', 9, 9) from unnest('{d,kept}'::text[]) q;
select pg_temp.file('d', 'w', 0, 'broken', 'g', 'x'), pg_temp.file('kept', 'w', 0, 'broken', 'g', 'x');
create temp table ids as select id as part from queen.log_partitions where queue_id = (select id from queen.queues where name = 'd');
select is((select count(*) from ids), 2::bigint, 'two partitions');
select is(queen.queue_delete_v1('d'), true, 'it existed');
select is((select string_agg(t || '=' || n, ' ') from (values
    ('queues', (select count(*) from queen.queues where name = 'd')), ('partitions', (select count(*) from queen.log_partitions join ids on part = id)),
    ('segments', (select count(*) from queen.log_segments join ids on part = partition_id)), ('txns', (select count(*) from queen.log_txns join ids on part = partition_id)),
    ('consumers', (select count(*) from queen.log_consumers join ids on part = partition_id)), ('dlq', (select count(*) from queen.log_dlq join ids on part = partition_id))) v (t, n)),
    'queues=0 partitions=0 segments=0 txns=0 consumers=0 dlq=0', 'nothing is left');
select is(pg_temp.pop('kept', 'v', 1, 1, 'h'), 'x:a', 'other queues are not touched');
select is((select count(*) from queen.log_dlq), 1::bigint, 'nor their dead letters');
select is(queen.queue_delete_v1('d'), false, 'gone');
select is(pg_temp.push('d', 'x', '{a}'), 'queued 0', 'a new life');
select is(pg_temp.pop('d', 'w'), 'x:a', 'starts over');

select * from finish();
rollback;
