/* Timer routes: batches, one timer, a queue's timers (contract 2, section 6). */
#include "worker/timers.h"

#include "base/logger.h"
#include "wire/base64.h"
#include "wire/json_write.h"
#include "wire/uri.h"
#include "worker/admin.h"
#include "worker/timer_ops.h"

enum { TIMERS_DEFAULT_LIMIT = 100, TIMERS_MAX_LIMIT = 1000, TIMERS_PREFIX_BYTES = 128 };

static const struct pg_statement apply_statement = {
    .name = "timers_apply",
    .sql = "select ordinal, status, deliver_at, txn"
           " from queen.log_timers_apply_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, null)"
           " order by ordinal",
    .param_count = TIMER_PARAMS,
    .types = {TIMER_PARAM_TYPES}};
enum { APPLY_ORDINAL, APPLY_STATUS, APPLY_DELIVER_AT, APPLY_TXN };

static const struct pg_statement get_statement = {
    .name = "timers_get",
    .sql = "select timer_key, partition, deliver_at, txn, message_id, attempts, last_error,"
           " created_at, updated_at, blob from queen.log_timers_get_v1($1, $2)",
    .param_count = 2,
    .types = {PG_TEXT, PG_TEXT}};

static const struct pg_statement list_statement = {
    .name = "timers_list",
    .sql = "select timer_key, partition, deliver_at, txn, message_id, attempts, last_error,"
           " created_at, updated_at from queen.log_timers_page_v1($1, $2, $3)",
    .param_count = 3,
    .types = {PG_TEXT, PG_TEXT, PG_INT4}};

static const struct pg_statement count_statement = {.name = "timers_count",
                                                    .sql =
                                                        "select queen.log_timers_count_v1($1, $2)",
                                                    .param_count = 2,
                                                    .types = {PG_TEXT, PG_TEXT}};

enum {
    TIMER_KEY,
    TIMER_PARTITION,
    TIMER_DELIVER_AT,
    TIMER_TXN,
    TIMER_MESSAGE_ID,
    TIMER_ATTEMPTS,
    TIMER_LAST_ERROR,
    TIMER_CREATED_AT,
    TIMER_UPDATED_AT,
    TIMER_BLOB,
};

struct timers_call {
    struct admin_call admin;
    struct timer_ops ops;
    bool single; /* one timer in the path: the answer is the result itself */
};

static struct timers_call *timers_call_of(struct admin_call *call)
{
    return TABLE_OWNER(call, struct timers_call, admin);
}

static void timers_fail(struct admin_call *call, const struct pg_outcome *outcome)
{
    struct refusal refusal;
    refusal_from_outcome(&refusal, "timers", outcome, call->unsettled);
    refusal_answer(call->r, &refusal);
}

static void timers_refuse(struct request *r, const char *reason, const char *text)
{
    struct refusal refusal;
    (void)refusal_set(&refusal, 400, "timers_bad_request", reason, "%s", text);
    refusal_answer(r, &refusal);
}

static struct timers_call *
timers_call_new(struct worker *w, struct request *r, const struct pg_statement *statement,
                void (*build)(struct pg_job *, struct pg_params *),
                int (*render)(struct admin_call *, const PGresult *, struct buf *))
{
    struct timers_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    admin_call_init(&call->admin, w, r, w->kv_lane, statement, build);
    call->admin.render = render;
    call->admin.fail = timers_fail;
    return call;
}

static void apply_build(struct pg_job *job, struct pg_params *params)
{
    struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    timer_ops_bind(call->w, &timers_call_of(call)->ops, params);
}

static int apply_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    struct timers_call *timers = timers_call_of(call);
    if ((size_t)PQntuples(r) != timers->ops.count)
        die("log_timers_apply_v1 gave %d results for %zu operations", PQntuples(r),
            timers->ops.count);
    if (!timers->single)
        BUF_PUT_LITERAL(body, "{\"results\":[");
    for (int row = 0; row < PQntuples(r); row++) {
        bool due = !pg_is_null(r, row, APPLY_DELIVER_AT), txn = !pg_is_null(r, row, APPLY_TXN);
        if (row > 0)
            buf_putc(body, ',');
        buf_putc(body, '{');
        timer_op_write(&timers->ops.list[row], pg_get_bytes(r, row, APPLY_STATUS),
                       due ? pg_get_time_us(r, row, APPLY_DELIVER_AT) : 0,
                       txn ? pg_get_bytes(r, row, APPLY_TXN) : (struct slice){0}, body);
        buf_putc(body, '}');
    }
    if (!timers->single)
        BUF_PUT_LITERAL(body, "]}");
    timer_ops_tell_keeper(call->w, &timers->ops);
    return 200;
}

void timers_handle_batch(struct worker *w, struct request *r)
{
    struct err err;
    struct refusal refusal;
    struct json_value body, operations;
    const struct json_field fields[] = {{"operations", &operations}};
    bool ok = json_validate(request_body(r), &body, &err);
    if (ok && body.type == JSON_ARRAY)
        operations = body;
    else if (ok && body.type == JSON_OBJECT)
        ok = json_pick(body, fields, 1, &err);
    else if (ok)
        ok = err_set(&err, "expected an array or an object, found %s", json_type_name(body.type));
    if (ok && operations.type != JSON_ARRAY)
        ok = err_set(&err, "operations is required and must be an array");
    if (!ok) {
        timers_refuse(r, "timers_bad_body", err.text);
        return;
    }
    struct timers_call *call = timers_call_new(w, r, &apply_statement, apply_build, apply_render);
    if (!timer_ops_parse(w, operations, false, request_arena(r), &call->ops, &refusal)) {
        refusal_answer(r, &refusal);
        return;
    }
    call->admin.once = true;
    WORKER_COUNT(w, timer_operations, call->ops.count);
    admin_call_start(&call->admin);
}

/* Names in the path. True when they were refused. */
static bool timers_refuse_path(struct request *r, struct slice queue, const struct slice *key)
{
    struct err err;
    int status = name_check("queue", queue, &err);
    if (status == 0 && key != NULL)
        status = name_check("timerKey", *key, &err);
    if (status == 0)
        return false;
    struct refusal refusal;
    (void)refusal_set(&refusal, status, status == 413 ? "payload_too_large" : "timers_bad_request",
                      "timers_bad_op", "%s", err.text);
    refusal_answer(r, &refusal);
    return true;
}

void timers_handle_cancel(struct worker *w, struct request *r, struct slice queue, struct slice key)
{
    struct err err;
    struct slice path, query, txn = {0};
    if (timers_refuse_path(r, queue, &key))
        return;
    uri_split(request_head(r)->target, &path, &query);
    if (!uri_param_text(query, "txn", request_arena(r), &txn, &err)) {
        timers_refuse(r, "timers_bad_op", err.text);
        return;
    }
    struct timers_call *call = timers_call_new(w, r, &apply_statement, apply_build, apply_render);
    call->ops.count = 1;
    call->ops.list = arena_zarray(request_arena(r), 1, sizeof *call->ops.list);
    call->ops.list[0] = (struct timer_op){
        .cancel = true, .name = SLICE_LITERAL("cancel"), .queue = queue, .key = key, .txn = txn};
    call->single = true;
    call->admin.once = true;
    admin_call_start(&call->admin);
}

static void timers_write_name(struct buf *body, const char *key, struct slice text)
{
    buf_printf(body, "\"%s\":", key);
    json_write_string(body, text);
}

static void timers_write_row(struct buf *body, struct slice queue, const PGresult *r, int row)
{
    struct uuid id = pg_get_uuid(r, row, TIMER_MESSAGE_ID);
    timers_write_name(body, "queue", queue);
    buf_putc(body, ',');
    timers_write_name(body, "timerKey", pg_get_bytes(r, row, TIMER_KEY));
    buf_putc(body, ',');
    timers_write_name(body, "partition", pg_get_bytes(r, row, TIMER_PARTITION));
    BUF_PUT_LITERAL(body, ",\"deliverAt\":");
    json_write_time(body, pg_get_time_us(r, row, TIMER_DELIVER_AT));
    buf_putc(body, ',');
    timers_write_name(body, "txn", pg_get_bytes(r, row, TIMER_TXN));
    BUF_PUT_LITERAL(body, ",\"messageId\":");
    json_write_uuid(body, &id);
    BUF_PUT_LITERAL(body, ",\"payloadZstd\":false,\"encrypted\":false,\"producerSub\":null");
    buf_printf(body, ",\"attempts\":%d,\"lastError\":", (int)pg_get_int4(r, row, TIMER_ATTEMPTS));
    if (pg_is_null(r, row, TIMER_LAST_ERROR))
        BUF_PUT_LITERAL(body, "null");
    else
        json_write_string(body, pg_get_bytes(r, row, TIMER_LAST_ERROR));
    BUF_PUT_LITERAL(body, ",\"claimed\":false,\"createdAt\":");
    json_write_time(body, pg_get_time_us(r, row, TIMER_CREATED_AT));
    BUF_PUT_LITERAL(body, ",\"updatedAt\":");
    json_write_time(body, pg_get_time_us(r, row, TIMER_UPDATED_AT));
}

static void get_build(struct pg_job *job, struct pg_params *params)
{
    const struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    pg_param_text(params, call->text[0]);
    pg_param_text(params, call->text[1]);
}

static void get_write_payload(struct worker *w, const PGresult *r, struct buf *body)
{
    struct err err;
    struct frame frame;
    size_t at = 0;
    BUF_PUT_LITERAL(body, ",\"payload\":");
    if (!segment_unpack(w->unpacker, pg_get_bytes(r, 0, TIMER_BLOB), &w->frames, &err) ||
        !frame_read(buf_slice(&w->frames), &at, &frame)) {
        logger_error("timers", "the message of a timer cannot be read");
        BUF_PUT_LITERAL(body, "null");
        return;
    }
    buf_putc(body, '"');
    base64_encode(frame.payload, body);
    buf_putc(body, '"');
}

static int get_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    if (PQntuples(r) == 0) {
        BUF_PUT_LITERAL(body, "{\"found\":false,");
        timers_write_name(body, "queue", call->text[0]);
        buf_putc(body, ',');
        timers_write_name(body, "timerKey", call->text[1]);
    } else {
        BUF_PUT_LITERAL(body, "{\"found\":true,");
        timers_write_row(body, call->text[0], r, 0);
        get_write_payload(call->w, r, body);
    }
    buf_putc(body, '}');
    return 200;
}

void timers_handle_get(struct worker *w, struct request *r, struct slice queue, struct slice key)
{
    if (timers_refuse_path(r, queue, &key))
        return;
    struct timers_call *call = timers_call_new(w, r, &get_statement, get_build, get_render);
    call->admin.text[0] = queue;
    call->admin.text[1] = key;
    admin_call_start(&call->admin);
}

static void list_build(struct pg_job *job, struct pg_params *params)
{
    const struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    pg_param_text(params, call->text[0]);
    pg_param_text(params, call->text[1]);
    pg_param_int4(params, (int32_t)call->number[0] + 1); /* one more: is there a next page? */
}

static int list_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    int count = PQntuples(r);
    bool truncated = count > call->number[0];
    if (truncated)
        count--;
    BUF_PUT_LITERAL(body, "{\"rows\":[");
    for (int row = 0; row < count; row++) {
        if (row > 0)
            buf_putc(body, ',');
        buf_putc(body, '{');
        timers_write_row(body, call->text[0], r, row);
        buf_putc(body, '}');
    }
    BUF_PUT_LITERAL(body, "],\"truncated\":");
    json_write_bool(body, truncated);
    BUF_PUT_LITERAL(body, ",\"nextAfter\":");
    if (truncated)
        json_write_string(body, pg_get_bytes(r, count - 1, TIMER_KEY));
    else
        BUF_PUT_LITERAL(body, "null");
    buf_putc(body, '}');
    return 200;
}

static int count_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    (void)call;
    BUF_PUT_LITERAL(body, "{\"count\":");
    buf_put_int(body, pg_get_int8(r, 0, 0));
    buf_putc(body, '}');
    return 200;
}

/* ?mode=count&prefix= */
static void timers_count(struct worker *w, struct request *r, struct slice queue,
                         struct slice prefix)
{
    if (prefix.n == 0) {
        timers_refuse(r, "timers_count_prefix_required", "prefix is required and not empty");
    } else if (prefix.n > TIMERS_PREFIX_BYTES) {
        timers_refuse(r, "timers_count_prefix_too_long", "the prefix has more than 128 bytes");
    } else {
        struct timers_call *call = timers_call_new(w, r, &count_statement, get_build, count_render);
        call->admin.lane = w->admin_lane;
        call->admin.text[0] = queue;
        call->admin.text[1] = prefix;
        admin_call_start(&call->admin);
    }
}

void timers_handle_list(struct worker *w, struct request *r, struct slice queue)
{
    struct err err;
    struct slice path, query, mode = SLICE_LITERAL("list"), prefix = {0}, after = {0}, number = {0};
    struct arena *arena = request_arena(r);
    int64_t limit = TIMERS_DEFAULT_LIMIT;
    if (timers_refuse_path(r, queue, NULL))
        return;
    uri_split(request_head(r)->target, &path, &query);
    bool ok = uri_param_text(query, "mode", arena, &mode, &err) &&
              uri_param_text(query, "prefix", arena, &prefix, &err) &&
              uri_param_text(query, "after", arena, &after, &err) &&
              uri_param_text(query, "limit", arena, &number, &err);
    if (!ok) {
        timers_refuse(r, "timers_bad_op", err.text);
    } else if (slice_is(mode, "count")) {
        if (after.p != NULL || number.p != NULL)
            timers_refuse(r, "timers_count_page_parameters", "a count takes no after and no limit");
        else if (prefix.n > 0 && name_check("prefix", prefix, &err) == 400)
            timers_refuse(r, "timers_count_prefix_invalid", err.text);
        else
            timers_count(w, r, queue, prefix);
    } else if (!slice_is(mode, "list")) {
        timers_refuse(r, "timers_read_mode_unknown", "mode must be list or count");
    } else if (!uri_param_int(query, "limit", &limit, &err) ||
               (after.n > 0 && name_check("after", after, &err) != 0)) {
        timers_refuse(r, "timers_bad_op", err.text);
    } else {
        struct timers_call *call = timers_call_new(w, r, &list_statement, list_build, list_render);
        call->admin.text[0] = queue;
        call->admin.text[1] = after;
        call->admin.number[0] = limit < 1 ? 1 : limit > TIMERS_MAX_LIMIT ? TIMERS_MAX_LIMIT : limit;
        admin_call_start(&call->admin);
    }
}
