/* Traces: storing and listing. */
#include "worker/traces.h"

#include "wire/json.h"
#include "wire/json_write.h"
#include "wire/uri.h"
#include "worker/admin.h"
#include "worker/listing.h"

enum {
    TRACE_MAX_DATA_BYTES = 1 << 20, /* listings answer up to LISTING_MAX_LIMIT of them at once */
    TRACE_MAX_NAMES = 100,
    TRACES_DEFAULT_LIMIT = 100,
    TRACE_NAMES_DEFAULT_LIMIT = 50,
};

static const struct pg_statement add_statement = {
    .name = "trace_add",
    .sql = "select queen.trace_add_v1($1, $2, $3, $4, $5, $6, $7, $8)",
    .param_count = 8,
    .types = {PG_UUID, PG_UUID, PG_BYTEA, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT_ARRAY}};

static const struct pg_statement message_statement = {
    .name = "traces_of_message",
    .sql = "select id, event_type, data, consumer_group, worker_id, created_at, names"
           " from queen.traces_of_message_v1($1, $2, $3, $4)",
    .param_count = 4,
    .types = {PG_UUID, PG_BYTEA, PG_INT4, PG_INT4}};

static const struct pg_statement by_name_statement = {
    .name = "traces_by_name",
    .sql = "select id, event_type, data, consumer_group, worker_id, created_at, names,"
           " transaction_id, partition_id, queue, partition, total"
           " from queen.traces_by_name_v1($1, $2, $3)",
    .param_count = 3,
    .types = {PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement names_statement = {
    .name = "trace_names",
    .sql = "select total, trace_name, trace_count, message_count, last_seen"
           " from queen.trace_names_v1($1, $2)",
    .param_count = 2,
    .types = {PG_INT4, PG_INT4}};

enum {
    TRACE_ID,
    TRACE_EVENT,
    TRACE_DATA,
    TRACE_GROUP,
    TRACE_WORKER,
    TRACE_CREATED,
    TRACE_NAMES,
    TRACE_TRANSACTION_ID,
    TRACE_PARTITION_ID,
    TRACE_QUEUE,
    TRACE_PARTITION,
    TRACE_TOTAL,
};

enum { NAMES_TOTAL, NAMES_NAME, NAMES_TRACES, NAMES_MESSAGES, NAMES_LAST };

struct traces_call {
    struct admin_call admin;
    struct uuid id, partition_id;
    struct slice transaction_id, group, event, data, worker_id;
    struct slice name;   /* of a listing */
    struct slice *names; /* of a trace */
    size_t name_count;
};

static struct traces_call *traces_of_job(const struct pg_job *job)
{
    return TABLE_OWNER(TABLE_OWNER(job, struct admin_call, job), struct traces_call, admin);
}

static struct traces_call *
traces_call_new(struct worker *w, struct request *r, const struct pg_statement *statement,
                void (*build)(struct pg_job *, struct pg_params *),
                int (*render)(struct admin_call *, const PGresult *, struct buf *))
{
    struct traces_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    admin_call_init(&call->admin, w, r, w->admin_lane, statement, build);
    call->admin.render = render;
    return call;
}

static void add_build(struct pg_job *job, struct pg_params *params)
{
    const struct traces_call *call = traces_of_job(job);
    pg_param_uuid(params, &call->id);
    pg_param_uuid(params, &call->partition_id);
    pg_param_bytea(params, call->transaction_id);
    pg_param_text(params, call->group);
    pg_param_text(params, call->event);
    pg_param_text(params, call->data);
    if (call->worker_id.n > 0)
        pg_param_text(params, call->worker_id);
    else
        pg_param_null(params);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < call->name_count; i++)
        pg_array_bytes(params, call->names[i]);
    pg_array_end(params);
}

static int add_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    (void)r;
    BUF_PUT_LITERAL(body, "{\"success\":true,\"traceId\":");
    json_write_uuid(body, &TABLE_OWNER(admin, struct traces_call, admin)->id);
    buf_putc(body, '}');
    return 201;
}

/* An optional name; absent and null leave *out alone. Returns the HTTP status of the refusal, or 0.
 */
static int trace_read_name(struct arena *arena, const char *field, struct json_value v,
                           struct slice *out, struct err *err)
{
    if (!json_present(v))
        return 0;
    if (v.type != JSON_STRING) {
        (void)err_set(err, "%s must be a string, found %s", field, json_type_name(v.type));
        return 400;
    }
    return json_string(v, arena, out, err) ? name_check(field, *out, err) : 400;
}

/* A string or an array of strings; what is neither is ignored, as existing clients rely on. */
static int trace_read_names(struct arena *arena, struct json_value v, struct traces_call *call,
                            struct err *err)
{
    struct json_value element;
    size_t count = v.type == JSON_STRING;
    for (struct json_iter it = json_iterate(v); v.type == JSON_ARRAY && json_next(&it, &element);)
        count += element.type == JSON_STRING;
    if (count > TRACE_MAX_NAMES) {
        (void)err_set(err, "traceNames has %zu names, the limit is %d", count, TRACE_MAX_NAMES);
        return 413;
    }
    call->names = arena_zarray(arena, count, sizeof *call->names);
    if (v.type == JSON_STRING) {
        call->name_count = 1;
        return trace_read_name(arena, "traceNames", v, &call->names[0], err);
    }
    for (struct json_iter it = json_iterate(v);
         call->name_count < count && json_next(&it, &element);) {
        if (element.type != JSON_STRING)
            continue;
        int status =
            trace_read_name(arena, "traceNames", element, &call->names[call->name_count++], err);
        if (status != 0)
            return status;
    }
    return 0;
}

/* Returns the HTTP status of the refusal, or 0. */
static int trace_read_address(struct arena *arena, struct json_value transaction_id,
                              struct json_value partition_id, struct traces_call *call,
                              struct err *err)
{
    struct slice text = {0};
    if (transaction_id.type != JSON_STRING || partition_id.type != JSON_STRING ||
        transaction_id.raw.n == 2 || partition_id.raw.n == 2) {
        (void)err_set(err, "transactionId and partitionId are required");
        return 400;
    }
    if (!json_string(transaction_id, arena, &call->transaction_id, err) ||
        !json_string(partition_id, arena, &text, err))
        return 400;
    if (call->transaction_id.n > TRANSACTION_ID_MAX_BYTES) {
        (void)err_set(err, "transactionId has %zu bytes, the limit is %d", call->transaction_id.n,
                      TRANSACTION_ID_MAX_BYTES);
        return 413;
    }
    if (uuid_parse(text, &call->partition_id))
        return 0;
    (void)err_set(err, "partitionId is not a UUID, found \"%.*s\"", SLICE_ARGS(text));
    return 400;
}

static int trace_read(struct request *r, struct traces_call *call, struct err *err)
{
    struct arena *arena = request_arena(r);
    struct json_value body, transaction_id, partition_id, data, group, event, names, worker_id;
    const struct json_field fields[] = {{"transactionId", &transaction_id},
                                        {"partitionId", &partition_id},
                                        {"data", &data},
                                        {"consumerGroup", &group},
                                        {"eventType", &event},
                                        {"traceNames", &names},
                                        {"workerId", &worker_id}};
    if (!json_validate(request_body(r), &body, err) ||
        !json_pick(body, fields, sizeof fields / sizeof *fields, err)) {
        (void)err_prefix(err, "bad body");
        return 400;
    }
    int status = trace_read_address(arena, transaction_id, partition_id, call, err);
    if (status != 0)
        return status;
    if (data.type == JSON_ABSENT) {
        (void)err_set(err, "data is required");
        return 400;
    }
    if (data.raw.n > TRACE_MAX_DATA_BYTES) {
        (void)err_set(err, "data has %zu bytes, the limit is %d", data.raw.n, TRACE_MAX_DATA_BYTES);
        return 413;
    }
    call->data = data.raw;
    status = trace_read_name(arena, "consumerGroup", group, &call->group, err);
    if (status == 0)
        status = trace_read_name(arena, "eventType", event, &call->event, err);
    if (status == 0)
        status = trace_read_name(arena, "workerId", worker_id, &call->worker_id, err);
    return status != 0 ? status : trace_read_names(arena, names, call, err);
}

void traces_handle_add(struct worker *w, struct request *r)
{
    struct err err;
    struct traces_call *call = traces_call_new(w, r, &add_statement, add_build, add_render);
    call->group = SLICE_LITERAL(QUEUE_MODE_GROUP);
    call->event = SLICE_LITERAL("info");
    call->id = uuid_v7();
    int status = trace_read(r, call, &err);
    if (status != 0)
        request_answer_error(r, status, "%s", err.text);
    else
        admin_call_start(&call->admin);
}

/* The members that every listing has, without the closing brace. */
static void trace_write(struct buf *body, const PGresult *r, int row)
{
    struct uuid id = pg_get_uuid(r, row, TRACE_ID);
    BUF_PUT_LITERAL(body, "{\"id\":");
    json_write_uuid(body, &id);
    listing_write_text(body, "event_type", r, row, TRACE_EVENT);
    BUF_PUT_LITERAL(body, ",\"data\":");
    buf_put_slice(body, pg_get_bytes(r, row, TRACE_DATA)); /* JSON as it was sent */
    listing_write_text(body, "consumer_group", r, row, TRACE_GROUP);
    listing_write_text(body, "worker_id", r, row, TRACE_WORKER);
    listing_write_time(body, "created_at", r, row, TRACE_CREATED);
    BUF_PUT_LITERAL(body, ",\"trace_names\":");
    buf_put_slice(body, pg_get_bytes(r, row, TRACE_NAMES));
}

static void traces_write_page(struct buf *body, const struct admin_call *admin, int64_t total)
{
    buf_printf(body, "],\"total\":%lld,\"pagination\":{\"limit\":%lld,\"offset\":%lld}}",
               (long long)total, (long long)admin->number[0], (long long)admin->number[1]);
}

static bool traces_read_page(struct traces_call *call, int64_t default_limit)
{
    struct admin_call *admin = &call->admin;
    struct slice path, query;
    uri_split(request_head(admin->r)->target, &path, &query);
    return listing_read_page(admin->r, query, default_limit, &admin->number[0], &admin->number[1]);
}

static void message_build(struct pg_job *job, struct pg_params *params)
{
    const struct traces_call *call = traces_of_job(job);
    pg_param_uuid(params, &call->partition_id);
    pg_param_bytea(params, call->transaction_id);
    pg_param_int4(params, (int32_t)call->admin.number[0]);
    pg_param_int4(params, (int32_t)call->admin.number[1]);
}

static int message_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    (void)admin;
    BUF_PUT_LITERAL(body, "{\"traces\":[");
    for (int row = 0; row < PQntuples(r); row++) {
        if (row > 0)
            buf_putc(body, ',');
        trace_write(body, r, row);
        buf_putc(body, '}');
    }
    BUF_PUT_LITERAL(body, "]}");
    return 200;
}

void traces_handle_message(struct worker *w, struct request *r, struct slice partition_id,
                           struct slice transaction_id)
{
    struct traces_call *call =
        traces_call_new(w, r, &message_statement, message_build, message_render);
    call->transaction_id = transaction_id;
    if (!uuid_parse(partition_id, &call->partition_id))
        request_answer_error(r, 400, "partitionId is not a UUID, found \"%.*s\"",
                             SLICE_ARGS(partition_id));
    else if (traces_read_page(call, LISTING_MAX_LIMIT))
        admin_call_start(&call->admin);
}

static void by_name_build(struct pg_job *job, struct pg_params *params)
{
    const struct traces_call *call = traces_of_job(job);
    pg_param_text(params, call->name);
    pg_param_int4(params, (int32_t)call->admin.number[0]);
    pg_param_int4(params, (int32_t)call->admin.number[1]);
}

static int by_name_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    BUF_PUT_LITERAL(body, "{\"traces\":[");
    for (int row = 0; row < PQntuples(r) && !pg_is_null(r, row, TRACE_ID); row++) {
        struct uuid partition_id = pg_get_uuid(r, row, TRACE_PARTITION_ID);
        if (row > 0)
            buf_putc(body, ',');
        trace_write(body, r, row);
        listing_write_text(body, "transaction_id", r, row, TRACE_TRANSACTION_ID);
        BUF_PUT_LITERAL(body, ",\"partition_id\":");
        json_write_uuid(body, &partition_id);
        listing_write_text(body, "queue_name", r, row, TRACE_QUEUE);
        listing_write_text(body, "partition_name", r, row, TRACE_PARTITION);
        BUF_PUT_LITERAL(body, ",\"message_payload\":null}");
    }
    traces_write_page(body, admin, pg_get_int8(r, 0, TRACE_TOTAL));
    return 200;
}

void traces_handle_by_name(struct worker *w, struct request *r, struct slice name)
{
    struct err err;
    struct traces_call *call =
        traces_call_new(w, r, &by_name_statement, by_name_build, by_name_render);
    int status = name_check("traceName", name, &err);
    call->name = name;
    call->admin.lane = w->report_lane;
    if (status != 0)
        request_answer_error(r, status, "%s", err.text);
    else if (traces_read_page(call, TRACES_DEFAULT_LIMIT))
        admin_call_start(&call->admin);
}

static void names_build(struct pg_job *job, struct pg_params *params)
{
    const struct traces_call *call = traces_of_job(job);
    pg_param_int4(params, (int32_t)call->admin.number[0]);
    pg_param_int4(params, (int32_t)call->admin.number[1]);
}

static int names_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    BUF_PUT_LITERAL(body, "{\"trace_names\":[");
    for (int row = 0; row < PQntuples(r) && !pg_is_null(r, row, NAMES_NAME); row++) {
        if (row > 0)
            buf_putc(body, ',');
        BUF_PUT_LITERAL(body, "{\"trace_name\":");
        json_write_string(body, pg_get_bytes(r, row, NAMES_NAME));
        buf_printf(body, ",\"trace_count\":%lld,\"message_count\":%lld",
                   (long long)pg_get_int8(r, row, NAMES_TRACES),
                   (long long)pg_get_int8(r, row, NAMES_MESSAGES));
        listing_write_time(body, "last_seen", r, row, NAMES_LAST);
        buf_putc(body, '}');
    }
    traces_write_page(body, admin, pg_get_int8(r, 0, NAMES_TOTAL));
    return 200;
}

void traces_handle_names(struct worker *w, struct request *r)
{
    struct traces_call *call = traces_call_new(w, r, &names_statement, names_build, names_render);
    call->admin.lane = w->report_lane;
    if (traces_read_page(call, TRACE_NAMES_DEFAULT_LIMIT))
        admin_call_start(&call->admin);
}
