/* Key/value routes: batches, single keys, and the listings (contract 2, section 5). */
#include "worker/kv.h"

#include "wire/json_write.h"
#include "wire/uri.h"
#include "worker/admin.h"
#include "worker/kv_ops.h"

enum { KV_MAX_OPS = 256, KV_MAX_NAMESPACES = 1000, KV_LIST_BYTES = 4 * 1024 * 1024 };

static const struct pg_statement call_statement = {
    .name = "kv_call",
    .sql = "select index, result from queen.kv_call_v1($1::jsonb, $2)",
    .param_count = 2,
    .types = {PG_TEXT, PG_TEXT_ARRAY}};
enum { CALL_INDEX, CALL_RESULT };

static const struct pg_statement namespaces_statement = {
    .name = "kv_namespaces",
    .sql = "select namespace, keys from queen.kv_namespaces_v1($1)",
    .param_count = 1,
    .types = {PG_INT4}};

static const struct pg_statement list_statement = {
    .name = "kv_list",
    .sql = "select rows, truncated, last_key, bytes"
           " from queen.kv_page_v1($1, $2, $3, $4, $5, $6, $7, now())",
    .param_count = 7,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_INT4, PG_INT8, PG_BOOL, PG_BOOL}};
enum { LIST_ROWS, LIST_TRUNCATED, LIST_LAST_KEY, LIST_BYTES };

/* An admin call with what a key/value call has beside it. */
struct kv_call {
    struct admin_call admin;
    struct kv_ops ops;
    bool single;   /* one key in the path: the answer is the result itself */
    int64_t limit; /* of a listing, as are these: */
    bool keys_only, include_expired;
};

static struct kv_call *kv_call_of(struct admin_call *call)
{
    return TABLE_OWNER(call, struct kv_call, admin);
}

static void kv_fail(struct admin_call *call, const struct pg_outcome *outcome)
{
    struct refusal refusal;
    refusal_from_outcome(&refusal, "kv", outcome, call->unsettled);
    refusal_answer(call->r, &refusal);
}

static struct kv_call *
kv_call_new(struct worker *w, struct request *r, const struct pg_statement *statement,
            void (*build)(struct pg_job *, struct pg_params *),
            int (*render)(struct admin_call *, const PGresult *, struct buf *))
{
    struct kv_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    admin_call_init(&call->admin, w, r, w->kv_lane, statement, build);
    call->admin.render = render;
    call->admin.fail = kv_fail;
    return call;
}

static void kv_refuse_body(struct request *r, const char *text)
{
    struct refusal refusal;
    (void)refusal_set(&refusal, 400, "kv_bad_request", "kv_bad_body", "%s", text);
    refusal_answer(r, &refusal);
}

/* The three single-key routes and the listings take no query string. True when it was refused. */
static bool kv_refuse_query(struct request *r)
{
    struct slice target = request_head(r)->target;
    if (target.n == 0 || memchr(target.p, '?', target.n) == NULL)
        return false;
    struct refusal refusal;
    (void)refusal_set(&refusal, 400, "kv_bad_request", "kv_no_query_string", "%s",
                      "this route takes no query string");
    refusal_answer(r, &refusal);
    return true;
}

static void kv_call_build(struct pg_job *job, struct pg_params *params)
{
    kv_ops_bind(&kv_call_of(TABLE_OWNER(job, struct admin_call, job))->ops, params);
}

/* The precondition that was lost, as kv_apply_v1 tells it. */
static void kv_render_lost(const PGresult *r, struct buf *body)
{
    struct json_value lost, index, reason, version, value;
    const struct json_field fields[] = {
        {"index", &index}, {"reason", &reason}, {"version", &version}, {"value", &value}};
    struct err err;
    if (!json_validate(pg_get_bytes(r, 0, CALL_RESULT), &lost, &err) ||
        !json_pick(lost, fields, 4, &err))
        die("kv_call_v1 tells a lost precondition that cannot be read: %s", err.text);
    BUF_PUT_LITERAL(body, "{\"ok\":false,\"reason\":\"kv_precondition\",\"failedIndex\":");
    buf_put_slice(body, index.raw);
    BUF_PUT_LITERAL(body, ",\"kvReason\":");
    buf_put_slice(body, reason.raw);
    BUF_PUT_LITERAL(body, ",\"version\":");
    buf_put_slice(body, version.raw);
    BUF_PUT_LITERAL(body, ",\"value\":");
    buf_put_slice(body, value.raw);
    buf_putc(body, '}');
}

static void kv_render_result(const PGresult *r, int row, struct buf *body)
{
    struct slice result = pg_get_bytes(r, row, CALL_RESULT);
    buf_printf(body, "{\"index\":%d,", (int)pg_get_int4(r, row, CALL_INDEX));
    buf_put(body, result.p + 1, result.n - 1);
}

/* ETag of the key as it is now: found, or written. */
static void kv_set_etag(struct admin_call *call, const PGresult *r)
{
    struct json_value result, op, found, applied, version;
    const struct json_field fields[] = {
        {"op", &op}, {"found", &found}, {"applied", &applied}, {"version", &version}};
    struct err err;
    if (!json_validate(pg_get_bytes(r, 0, CALL_RESULT), &result, &err) ||
        !json_pick(result, fields, 4, &err))
        die("kv_call_v1 gave a result that cannot be read: %s", err.text);
    if (found.type != JSON_TRUE && (applied.type != JSON_TRUE || slice_is(op.raw, "\"delete\"")))
        return;
    struct buf header = {0};
    buf_printf(&header, "ETag: \"%.*s\"\r\n", SLICE_ARGS(version.raw));
    call->headers = arena_copy(request_arena(call->r), buf_slice(&header));
    buf_free(&header);
}

static int kv_call_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    if (PQntuples(r) > 0 && pg_is_null(r, 0, CALL_INDEX)) {
        kv_render_lost(r, body);
        return 200;
    }
    if (kv_call_of(call)->single) {
        kv_set_etag(call, r);
        kv_render_result(r, 0, body);
        return 200;
    }
    BUF_PUT_LITERAL(body, "{\"results\":[");
    for (int row = 0; row < PQntuples(r); row++) {
        if (row > 0)
            buf_putc(body, ',');
        kv_render_result(r, row, body);
    }
    BUF_PUT_LITERAL(body, "]}");
    return 200;
}

/* Sends the operations of a JSON array. */
static void kv_call_start(struct worker *w, struct request *r, struct json_value array, bool single)
{
    struct refusal refusal;
    struct kv_call *call = kv_call_new(w, r, &call_statement, kv_call_build, kv_call_render);
    if (!kv_ops_parse(array, KV_MAX_OPS, request_arena(r), &call->ops, &refusal)) {
        refusal_answer(r, &refusal);
        return;
    }
    call->single = single;
    call->admin.once = call->ops.writes;
    WORKER_COUNT(w, kv_operations, call->ops.count);
    admin_call_start(&call->admin);
}

void kv_handle_batch(struct worker *w, struct request *r)
{
    struct err err;
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
    if (ok)
        kv_call_start(w, r, operations, false);
    else
        kv_refuse_body(r, err.text);
}

/* The one operation of a single-key route, as the batch route would get it. */
static void kv_single_start(struct worker *w, struct request *r, const char *op, struct slice ns,
                            struct slice key, const struct json_field *fields, size_t count)
{
    struct buf text = {0};
    struct json_value array;
    struct err err;
    buf_printf(&text, "[{\"op\":\"%s\",\"ns\":", op);
    json_write_string(&text, ns);
    BUF_PUT_LITERAL(&text, ",\"key\":");
    json_write_string(&text, key);
    for (size_t i = 0; i < count; i++) {
        if (fields[i].out->type == JSON_ABSENT)
            continue;
        buf_printf(&text, ",\"%s\":", fields[i].name);
        buf_put_slice(&text, fields[i].out->raw);
    }
    BUF_PUT_LITERAL(&text, "}]");
    struct slice copy = arena_copy(request_arena(r), buf_slice(&text));
    buf_free(&text);
    if (!json_validate(copy, &array, &err))
        kv_refuse_body(r, err.text);
    else
        kv_call_start(w, r, array, true);
}

/* A key that is no UTF-8 or empty names nothing. True when the path was refused. */
static bool kv_refuse_path(struct request *r, struct slice ns, struct slice key)
{
    struct refusal refusal;
    struct err err;
    if (kv_refuse_query(r))
        return true;
    int status = ns.n == 0 ? 400 : name_check("ns", ns, &err);
    if (status != 0) {
        (void)refusal_set(&refusal, 400, "kv_bad_request", "kv_bad_namespace", "%s",
                          "ns must be 1 to 64 of A-Z a-z 0-9 . _ -");
    } else if ((status = name_check("key", key, &err)) != 0) {
        bool large = status == 413;
        (void)refusal_set(&refusal, status, large ? "payload_too_large" : "kv_bad_request",
                          large ? "kv_key_too_large" : "kv_bad_key", "%s", err.text);
    } else {
        return false;
    }
    refusal_answer(r, &refusal);
    return true;
}

void kv_handle_get(struct worker *w, struct request *r, struct slice ns, struct slice key)
{
    if (!kv_refuse_path(r, ns, key))
        kv_single_start(w, r, "get", ns, key, NULL, 0);
}

/* PUT and DELETE: the body holds what the path does not. */
static void kv_single_write(struct worker *w, struct request *r, const char *op, struct slice ns,
                            struct slice key, bool body_is_optional)
{
    struct json_value value, ttl, forever, expect, required, in_op, in_ns, in_namespace, in_key;
    const struct json_field fields[] = {
        {"value", &value},   {"ttlSeconds", &ttl},         {"forever", &forever},
        {"expect", &expect}, {"required", &required},      {"op", &in_op},
        {"ns", &in_ns},      {"namespace", &in_namespace}, {"key", &in_key}};
    enum { PASSED_ON = 5, FIELDS = sizeof fields / sizeof *fields };
    struct json_value body = {JSON_OBJECT, SLICE_LITERAL("{}")};
    struct slice text = request_body(r);
    struct err err;
    if (kv_refuse_path(r, ns, key))
        return;
    bool ok = (body_is_optional && text.n == 0) || json_validate(text, &body, &err);
    if (ok && body_is_optional && body.type == JSON_NULL)
        body = (struct json_value){JSON_OBJECT, SLICE_LITERAL("{}")};
    if (ok && body.type != JSON_OBJECT)
        ok = err_set(&err, "expected an object, found %s", json_type_name(body.type));
    ok = ok && json_pick(body, fields, FIELDS, &err);
    if (!ok) {
        kv_refuse_body(r, err.text);
        return;
    }
    for (size_t i = PASSED_ON; i < FIELDS; i++) {
        if (fields[i].out->type != JSON_ABSENT) {
            struct refusal refusal;
            (void)refusal_set(&refusal, 400, "kv_bad_request", "kv_field_in_path",
                              "%s stands in the path, not in the body", fields[i].name);
            refusal_answer(r, &refusal);
            return;
        }
    }
    kv_single_start(w, r, op, ns, key, fields, PASSED_ON);
}

void kv_handle_put(struct worker *w, struct request *r, struct slice ns, struct slice key)
{
    kv_single_write(w, r, "put", ns, key, false);
}

void kv_handle_delete(struct worker *w, struct request *r, struct slice ns, struct slice key)
{
    kv_single_write(w, r, "delete", ns, key, true);
}

static void namespaces_build(struct pg_job *job, struct pg_params *params)
{
    (void)job;
    pg_param_int4(params, KV_MAX_NAMESPACES);
}

static int namespaces_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    (void)call;
    BUF_PUT_LITERAL(body, "{\"namespaces\":[");
    for (int row = 0; row < PQntuples(r); row++) {
        if (row > 0)
            buf_putc(body, ',');
        BUF_PUT_LITERAL(body, "{\"namespace\":");
        json_write_string(body, pg_get_bytes(r, row, 0));
        BUF_PUT_LITERAL(body, ",\"keys\":");
        buf_put_int(body, pg_get_int8(r, row, 1));
        buf_putc(body, '}');
    }
    BUF_PUT_LITERAL(body, "]}");
    return 200;
}

void kv_handle_namespaces(struct worker *w, struct request *r)
{
    if (kv_refuse_query(r))
        return;
    struct kv_call *call =
        kv_call_new(w, r, &namespaces_statement, namespaces_build, namespaces_render);
    call->admin.lane = w->admin_lane;
    admin_call_start(&call->admin);
}

static void list_build(struct pg_job *job, struct pg_params *params)
{
    const struct kv_call *call = kv_call_of(TABLE_OWNER(job, struct admin_call, job));
    for (int i = 0; i < 3; i++)
        pg_param_text(params, call->admin.text[i]);
    pg_param_int4(params, (int32_t)call->limit);
    pg_param_int8(params, KV_LIST_BYTES);
    pg_param_bool(params, call->keys_only);
    pg_param_bool(params, call->include_expired);
}

static int list_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    (void)call;
    bool truncated = pg_get_bool(r, 0, LIST_TRUNCATED);
    BUF_PUT_LITERAL(body, "{\"rows\":");
    buf_put_slice(body, pg_get_bytes(r, 0, LIST_ROWS));
    BUF_PUT_LITERAL(body, ",\"truncated\":");
    json_write_bool(body, truncated);
    BUF_PUT_LITERAL(body, ",\"nextAfter\":");
    if (truncated)
        json_write_string(body, pg_get_bytes(r, 0, LIST_LAST_KEY));
    else
        BUF_PUT_LITERAL(body, "null");
    BUF_PUT_LITERAL(body, ",\"bytes\":");
    buf_put_int(body, pg_get_int8(r, 0, LIST_BYTES));
    buf_putc(body, '}');
    return 200;
}

static bool list_text(struct json_value v, const char *name, struct arena *arena, struct slice *out,
                      struct err *err)
{
    *out = (struct slice){"", 0};
    if (!json_present(v))
        return true;
    if (v.type != JSON_STRING)
        return err_set(err, "%s must be a string, found %s", name, json_type_name(v.type));
    if (!json_string(v, arena, out, err))
        return err_prefix(err, "%s", name);
    return out->n == 0 || memchr(out->p, 0, out->n) == NULL ||
           err_set(err, "%s holds a NUL character, which is not allowed", name);
}

static bool list_flag(struct json_value v, const char *name, bool *out, struct err *err)
{
    *out = v.type == JSON_TRUE;
    return !json_present(v) || v.type == JSON_TRUE || v.type == JSON_FALSE ||
           err_set(err, "%s must be true or false, found %s", name, json_type_name(v.type));
}

static bool list_parse(struct kv_call *call, struct err *err)
{
    struct json_value body, ns, prefix, after, limit, keys_only, expired;
    const struct json_field fields[] = {{"namespace", &ns},       {"prefix", &prefix},
                                        {"after", &after},        {"limit", &limit},
                                        {"keysOnly", &keys_only}, {"includeExpired", &expired}};
    struct arena *arena = request_arena(call->admin.r);
    if (!json_validate(request_body(call->admin.r), &body, err))
        return false;
    if (body.type != JSON_OBJECT)
        return err_set(err, "expected an object, found %s", json_type_name(body.type));
    if (!json_pick(body, fields, sizeof fields / sizeof *fields, err) ||
        !list_text(ns, "namespace", arena, &call->admin.text[0], err) ||
        !list_text(prefix, "prefix", arena, &call->admin.text[1], err) ||
        !list_text(after, "after", arena, &call->admin.text[2], err) ||
        !list_flag(keys_only, "keysOnly", &call->keys_only, err) ||
        !list_flag(expired, "includeExpired", &call->include_expired, err))
        return false;
    call->limit = 100;
    if (json_present(limit) && !json_int64(limit, &call->limit))
        return err_set(err, "limit must be a whole number");
    call->limit = call->limit < 1 ? 1 : call->limit > 1000 ? 1000 : call->limit;
    return true;
}

static bool list_namespace_is_valid(struct slice ns)
{
    if (ns.n < 1 || ns.n > 64)
        return false;
    for (size_t i = 0; i < ns.n; i++) {
        char c = ns.p[i];
        if (!((c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ||
              c == '.' || c == '_' || c == '-'))
            return false;
    }
    return true;
}

void kv_handle_list(struct worker *w, struct request *r)
{
    struct err err;
    if (kv_refuse_query(r))
        return;
    struct kv_call *call = kv_call_new(w, r, &list_statement, list_build, list_render);
    call->admin.lane = w->admin_lane;
    if (!list_parse(call, &err)) {
        kv_refuse_body(r, err.text);
    } else if (!list_namespace_is_valid(call->admin.text[0])) {
        struct refusal refusal;
        (void)refusal_set(&refusal, 400, "kv_bad_request", "kv_bad_namespace", "%s",
                          "namespace must be 1 to 64 of A-Z a-z 0-9 . _ -");
        refusal_answer(r, &refusal);
    } else {
        admin_call_start(&call->admin);
    }
}
