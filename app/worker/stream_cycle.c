/* POST /streams/v1/cycle: state, sink messages and the ack of a batch, all of it or nothing. */
#include "worker/streams.h"

#include "base/logger.h"
#include "pg/result.h"
#include "pg/retry.h"
#include "shm/registry.h"
#include "wire/json_write.h"
#include "worker/stream_sinks.h"
#include "worker/wake.h"

#include <stdlib.h>

enum { CYCLE_LEASE_BYTES = 128, CYCLE_TYPE_BYTES = 64 };

/* The types of SINK_PARAM_TYPES begin with the tenth parameter. */
static const struct pg_statement cycle_statement = {
    .name = "streams_cycle",
    .sql = "select ordinal, status, base_offset, partition_id, dup_index, dup_offset,"
           " error, queue_name, ack_count, lease_released"
           " from queen.streams_cycle_v1($1, $2, $3, $4, $5, $6, $7, $8, $9::text[]::float8[],"
           " $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21)",
    .param_count = 13 + SINK_PARAMS,
    .types = {PG_UUID, PG_BOOL, PG_UUID, PG_UUID, PG_TEXT, PG_TEXT_ARRAY, PG_TEXT_ARRAY,
              PG_TEXT_ARRAY, PG_TEXT_ARRAY, SINK_PARAM_TYPES, PG_BOOL, PG_TEXT, PG_INT4, PG_BOOL}};
enum { CYCLE_ERROR = SINK_COLUMNS, CYCLE_QUEUE, CYCLE_ACK_COUNT, CYCLE_RELEASED };

struct state_op {
    struct slice type, key;
    struct slice value;      /* JSON; p = NULL: a delete */
    struct slice window_end; /* a number as text; p = NULL: the value has none */
};

struct cycle {
    struct pg_job job;
    struct loop_timer timer;
    struct worker *w;
    struct request *r;
    uint64_t deadline_ms;
    struct uuid request_id;
    bool retry; /* an earlier try may have committed */

    struct slice query_id, partition_id; /* as sent */
    struct uuid query_uuid, partition_uuid;
    bool query_known, partition_known; /* it is a UUID */
    struct slice group;
    struct state_op *ops;
    size_t op_count;
    struct stream_sinks sinks;
    bool acks, ok, release;
    struct slice lease;
    bool counted;
    int32_t count;
};

/* The member windowEnd, if it is a number; of several the last counts. */
static struct slice state_window_end(struct json_value value, struct arena *arena)
{
    struct json_value key, member;
    struct slice number = {0}, name;
    struct err ignored;
    if (value.type != JSON_OBJECT)
        return number;
    for (struct json_iter it = json_iterate(value); json_next_member(&it, &key, &member);)
        if (json_string(key, arena, &name, &ignored) && slice_is(name, "windowEnd"))
            number = member.type == JSON_NUMBER ? member.raw : (struct slice){0};
    if (number.p == NULL)
        return number;
    struct buf text = {0}; /* a double: PostgreSQL refuses what is out of its range */
    buf_printf(&text, "%.17g", strtod(arena_cstr(arena, number), NULL));
    number = arena_copy(arena, buf_slice(&text));
    buf_free(&text);
    return number;
}

static bool state_op_parse(struct json_value element, struct arena *arena, struct state_op *op,
                           struct err *err)
{
    struct json_value type, key, value;
    const struct json_field fields[] = {{"type", &type}, {"key", &key}, {"value", &value}};
    if (element.type != JSON_OBJECT)
        return err_set(err, "must be an object, found %s", json_type_name(element.type));
    if (!json_pick(element, fields, 3, err) || !streams_text(type, "type", arena, &op->type, err) ||
        !streams_key(key, arena, &op->key, err))
        return false;
    if (op->type.n == 0)
        return err_set(err, "type is required");
    if (op->type.n > CYCLE_TYPE_BYTES || memchr(op->type.p, 0, op->type.n) != NULL)
        return err_set(err, "type must be upsert or delete");
    if (slice_is(op->type, "delete"))
        return true;
    op->value = value.type == JSON_ABSENT ? SLICE_LITERAL("null") : value.raw;
    op->window_end = state_window_end(value, arena);
    return true;
}

static int cycle_parse_ops(struct cycle *c, struct json_value array, struct err *err)
{
    struct arena *arena = request_arena(c->r);
    struct json_value element;
    size_t count = streams_count(array);
    if (json_present(array) && array.type != JSON_ARRAY) {
        (void)err_set(err, "state_ops must be an array, found %s", json_type_name(array.type));
        return 400;
    }
    if (count > STREAMS_MAX_ELEMENTS) {
        (void)err_set(err, "state_ops has %zu elements, the limit is %d", count,
                      STREAMS_MAX_ELEMENTS);
        return 413;
    }
    c->ops = arena_zarray(arena, count, sizeof *c->ops);
    for (struct json_iter it = json_iterate(array); json_next(&it, &element); c->op_count++) {
        if (!state_op_parse(element, arena, &c->ops[c->op_count], err)) {
            (void)err_prefix(err, "state_ops[%zu]", c->op_count);
            return 400;
        }
    }
    return 0;
}

/* The statuses that count as completed are those of the ack routes. */
static bool cycle_status_ok(struct json_value v, struct slice text)
{
    static const char *const completed[] = {"completed", "success", "acked", "ok"};
    if (!json_present(v))
        return true;
    for (size_t i = 0; i < sizeof completed / sizeof *completed; i++)
        if (slice_is(text, completed[i]))
            return true;
    return false;
}

static bool cycle_parse_ack(struct cycle *c, struct json_value ack, struct err *err)
{
    struct json_value lease, status, count;
    const struct json_field fields[] = {
        {"leaseId", &lease}, {"status", &status}, {"count", &count}};
    struct arena *arena = request_arena(c->r);
    struct slice status_text = {0};
    c->lease = SLICE_LITERAL("");
    if (!json_present(ack))
        return true;
    if (ack.type != JSON_OBJECT)
        return err_set(err, "ack must be an object or null, found %s", json_type_name(ack.type));
    if (!json_pick(ack, fields, 3, err) || !streams_text(lease, "leaseId", arena, &c->lease, err) ||
        !streams_text(status, "status", arena, &status_text, err))
        return err_prefix(err, "ack");
    if (c->lease.n > CYCLE_LEASE_BYTES ||
        (c->lease.n > 0 && memchr(c->lease.p, 0, c->lease.n) != NULL))
        c->lease = SLICE_LITERAL(""); /* no lease of ours: refused as a foreign one */
    if (json_present(count)) {
        int64_t n;
        if (!json_int64(count, &n) || n < 0 || n > INT32_MAX)
            return err_set(err, "ack.count must be a whole number from 0 to %d", INT32_MAX);
        c->counted = true;
        c->count = (int32_t)n;
    }
    c->acks = true;
    c->ok = cycle_status_ok(status, status_text);
    return true;
}

/* Returns 0 or the HTTP status of the refusal. */
static int cycle_parse(struct cycle *c, struct err *err)
{
    struct json_value body, query, partition, group, ops, items, ack, release;
    const struct json_field fields[] = {{"query_id", &query},       {"partition_id", &partition},
                                        {"consumer_group", &group}, {"state_ops", &ops},
                                        {"push_items", &items},     {"ack", &ack},
                                        {"release_lease", &release}};
    struct arena *arena = request_arena(c->r);
    if (!streams_body(c->r, &body, err) ||
        !json_pick(body, fields, sizeof fields / sizeof *fields, err) ||
        !streams_text(query, "query_id", arena, &c->query_id, err) ||
        !streams_text(partition, "partition_id", arena, &c->partition_id, err) ||
        !streams_text(group, "consumer_group", arena, &c->group, err))
        return 400;
    if (c->query_id.n == 0 || c->partition_id.n == 0) {
        (void)err_set(err, "%s is required", c->query_id.n == 0 ? "query_id" : "partition_id");
        return 400;
    }
    c->query_known = uuid_parse(c->query_id, &c->query_uuid);
    c->partition_known = uuid_parse(c->partition_id, &c->partition_uuid);
    if (c->group.n == 0)
        c->group = SLICE_LITERAL(QUEUE_MODE_GROUP);
    c->release = true;
    int status = name_check("consumer_group", c->group, err);
    if (status == 0 && (!streams_flag(release, "release_lease", &c->release, err) ||
                        !cycle_parse_ack(c, ack, err)))
        status = 400;
    if (status == 0)
        status = cycle_parse_ops(c, ops, err);
    if (status == 0)
        status = stream_sinks_parse(items, arena, &c->sinks, err);
    return status;
}

/* One array with a value per state operation. */
#define OP_ARRAY(put)                                                                              \
    do {                                                                                           \
        pg_array_begin(params, PG_TEXT);                                                           \
        for (size_t i = 0; i < c->op_count; i++) {                                                 \
            const struct state_op *op = &c->ops[i];                                                \
            put;                                                                                   \
        }                                                                                          \
        pg_array_end(params);                                                                      \
    } while (0)

static void op_text(struct pg_params *params, struct slice text)
{
    if (text.p == NULL)
        pg_array_null(params);
    else
        pg_array_bytes(params, text);
}

static void cycle_build(struct pg_job *job, struct pg_params *params)
{
    struct cycle *c = TABLE_OWNER(job, struct cycle, job);
    pg_param_uuid(params, &c->request_id);
    pg_param_bool(params, c->retry);
    if (c->query_known)
        pg_param_uuid(params, &c->query_uuid);
    else
        pg_param_null(params);
    if (c->partition_known)
        pg_param_uuid(params, &c->partition_uuid);
    else
        pg_param_null(params);
    pg_param_text(params, c->group);
    OP_ARRAY(pg_array_bytes(params, op->type));
    OP_ARRAY(pg_array_bytes(params, op->key));
    OP_ARRAY(op_text(params, op->value));
    OP_ARRAY(op_text(params, op->window_end));
    stream_sinks_bind(c->w, &c->sinks, params);
    if (c->acks)
        pg_param_bool(params, c->ok);
    else
        pg_param_null(params);
    pg_param_text(params, c->lease);
    if (c->counted)
        pg_param_int4(params, c->count);
    else
        pg_param_null(params);
    pg_param_bool(params, c->release);
}

static void cycle_again(struct loop_timer *timer)
{
    struct cycle *c = TABLE_OWNER(timer, struct cycle, timer);
    pg_lane_submit(c->w->streams_lane, &c->job);
}

static void cycle_unavailable(struct request *r, const char *code, const char *text)
{
    struct buf body = {0};
    buf_printf(&body, "{\"error\":\"%s: %s\",\"code\":\"%s\"}", code, text, code);
    request_answer(r, 503, NULL, SLICE_LITERAL("Retry-After: 1\r\n"), &body);
}

static void cycle_give_up(struct cycle *c, const struct pg_outcome *outcome)
{
    if (c->retry || outcome->status == PG_UNKNOWN) {
        cycle_unavailable(c->r, "outcome_unknown", "the cycle may or may not have been committed");
    } else if (outcome->status == PG_NOT_SENT) {
        cycle_unavailable(c->r, "timeout", "the database is not available");
    } else {
        logger_error("streams", "cycle failed: %s %s", outcome->sqlstate, outcome->text);
        request_answer_error(c->r, 500, "cycle failed: %s", outcome->sqlstate);
    }
}

/* What the cursor's release makes claimable, and the registry's entry, which is of no use now. */
static void cycle_released(struct cycle *c, struct slice queue)
{
    const struct slice none = {0};
    struct uuid lease;
    if (uuid_parse(c->lease, &lease))
        registry_drop(c->w->shm, &c->partition_uuid, c->group, &lease);
    wake_send(c->w, table_hash(queue, none), 0, table_hash(c->group, none));
}

static void cycle_write_ack(const struct cycle *c, const PGresult *r, int row, struct buf *body)
{
    if (!c->acks) {
        BUF_PUT_LITERAL(body, "null");
        return;
    }
    BUF_PUT_LITERAL(body, "{\"success\":true,\"count\":");
    buf_put_int(body, pg_get_int4(r, row, CYCLE_ACK_COUNT));
    BUF_PUT_LITERAL(body, ",\"lease_released\":");
    json_write_bool(body, pg_get_bool(r, row, CYCLE_RELEASED));
    BUF_PUT_LITERAL(body, ",\"dlq\":false}");
}

/* row: the one about the whole cycle. A failed one reports nothing as done, since nothing was. */
static void cycle_answer(struct cycle *c, const PGresult *r, int row)
{
    struct buf body = {0};
    bool failed = !pg_is_null(r, row, CYCLE_ERROR), known = !pg_is_null(r, row, CYCLE_QUEUE);
    BUF_PUT_LITERAL(&body, "{\"success\":");
    json_write_bool(&body, !failed);
    BUF_PUT_LITERAL(&body, ",\"query_id\":");
    json_write_string(&body, c->query_id);
    BUF_PUT_LITERAL(&body, ",\"partition_id\":");
    json_write_string(&body, c->partition_id);
    BUF_PUT_LITERAL(&body, ",\"queueName\":");
    if (known)
        json_write_string(&body, pg_get_bytes(r, row, CYCLE_QUEUE));
    else
        BUF_PUT_LITERAL(&body, "null");
    BUF_PUT_LITERAL(&body, ",\"state_ops_applied\":");
    buf_put_int(&body, failed ? 0 : (int64_t)c->op_count);
    BUF_PUT_LITERAL(&body, ",\"push_results\":");
    if (failed) {
        BUF_PUT_LITERAL(&body, "[],\"ack_result\":null,\"error\":");
        json_write_string(&body, pg_get_bytes(r, row, CYCLE_ERROR));
    } else {
        stream_sinks_committed(c->w, &c->sinks, r);
        stream_sinks_write(&c->sinks, &body);
        BUF_PUT_LITERAL(&body, ",\"ack_result\":");
        cycle_write_ack(c, r, row, &body);
        if (pg_get_bool(r, row, CYCLE_RELEASED))
            cycle_released(c, pg_get_bytes(r, row, CYCLE_QUEUE));
    }
    buf_putc(&body, '}');
    request_answer(c->r, 200, NULL, (struct slice){0}, &body);
}

static void cycle_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct cycle *c = TABLE_OWNER(job, struct cycle, job);
    uint64_t now = loop_now_ms(c->w->loop);
    if (outcome->status == PG_DONE) {
        const PGresult *r = outcome->result;
        int row = PQntuples(r) - 1;
        if (row < 0 || !pg_is_null(r, row, SINK_ORDINAL))
            die("streams_cycle_v1 did not say how the cycle ended");
        if (!pg_is_null(r, row, CYCLE_ERROR) &&
            slice_is(pg_get_bytes(r, row, CYCLE_ERROR), "duplicates") &&
            stream_sinks_duplicates(&c->sinks, r)) {
            stream_sinks_group(&c->sinks, request_arena(c->r));
            pg_lane_submit(c->w->streams_lane, &c->job);
            return;
        }
        cycle_answer(c, r, row);
        return;
    }
    c->retry |= outcome->status == PG_UNKNOWN;
    if (pg_outcome_may_pass(outcome) && now + PG_RETRY_MS < c->deadline_ms)
        loop_timer_set(c->w->loop, &c->timer, now + PG_RETRY_MS);
    else
        cycle_give_up(c, outcome);
}

void streams_handle_cycle(struct worker *w, struct request *r)
{
    struct err err;
    struct cycle *c = arena_zarray(request_arena(r), 1, sizeof *c);
    c->w = w;
    c->r = r;
    int status = cycle_parse(c, &err);
    if (status != 0) {
        request_answer_error(r, status, "%s", err.text);
        return;
    }
    WORKER_COUNT(w, stream_cycles, 1);
    stream_sinks_group(&c->sinks, request_arena(r));
    c->request_id = uuid_v7();
    c->deadline_ms = loop_now_ms(w->loop) + (uint64_t)w->settings.request_timeout_ms;
    c->job.statement = &cycle_statement;
    c->job.build = cycle_build;
    c->job.done = cycle_done;
    c->job.deadline_ms = c->deadline_ms;
    c->timer.fire = cycle_again;
    pg_lane_submit(w->streams_lane, &c->job);
}
