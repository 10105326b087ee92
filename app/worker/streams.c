/* Stream queries and their state: registering, reading (contract 2, section 7). */
#include "worker/streams.h"

#include "wire/json_write.h"
#include "worker/admin.h"

#include <stdlib.h>

enum { STATE_MAX_BYTES = 64 * 1024 * 1024 }; /* of keys and values in one answer */

static const struct pg_statement register_statement = {
    .name = "streams_register",
    .sql = "select query_id, fresh, reset, mismatch"
           " from queen.streams_register_v1($1, $2, $3, $4, $5)",
    .param_count = 5,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_BOOL}};
enum { REGISTER_ID, REGISTER_FRESH, REGISTER_RESET, REGISTER_MISMATCH };

static const struct pg_statement state_statement = {
    .name = "streams_state_get",
    .sql = "select key, value, updated_at"
           " from queen.streams_state_get_v1($1, $2, $3, $4, $5::text::float8, $6, $7)",
    .param_count = 7,
    .types = {PG_UUID, PG_UUID, PG_TEXT_ARRAY, PG_TEXT, PG_TEXT, PG_INT4, PG_INT8}};
enum { STATE_KEY, STATE_VALUE, STATE_UPDATED_AT };

bool streams_text(struct json_value v, const char *field, struct arena *arena, struct slice *out,
                  struct err *err)
{
    if (!json_present(v))
        return true;
    if (v.type != JSON_STRING)
        return err_set(err, "%s must be a string, found %s", field, json_type_name(v.type));
    return json_string(v, arena, out, err) || err_prefix(err, "%s", field);
}

bool streams_flag(struct json_value v, const char *field, bool *out, struct err *err)
{
    if (!json_present(v))
        return true;
    *out = v.type == JSON_TRUE;
    return *out || v.type == JSON_FALSE ||
           err_set(err, "%s must be true or false, found %s", field, json_type_name(v.type));
}

bool streams_key(struct json_value v, struct arena *arena, struct slice *out, struct err *err)
{
    if (v.type != JSON_STRING)
        return err_set(err, "key must be a string, found %s",
                       v.type == JSON_ABSENT ? "nothing" : json_type_name(v.type));
    if (!json_string(v, arena, out, err))
        return err_prefix(err, "key");
    if (out->n > STREAMS_KEY_BYTES)
        return err_set(err, "key has %zu bytes, the limit is %d", out->n, STREAMS_KEY_BYTES);
    if (out->n > 0 && memchr(out->p, 0, out->n) != NULL)
        return err_set(err, "key holds a NUL character, which is not allowed");
    return true;
}

bool streams_body(struct request *r, struct json_value *out, struct err *err)
{
    if (!json_validate(request_body(r), out, err))
        return err_prefix(err, "bad body");
    return out->type == JSON_OBJECT || err_set(err, "request body must be a JSON object");
}

size_t streams_count(struct json_value array)
{
    size_t n = 0;
    struct json_value element;
    for (struct json_iter it = json_iterate(array); json_next(&it, &element);)
        n++;
    return n;
}

struct register_call {
    struct admin_call admin;
    struct slice name, source, sink, hash; /* sink.p = NULL: none */
    bool reset;
};

static void register_build(struct pg_job *job, struct pg_params *params)
{
    const struct register_call *call =
        TABLE_OWNER(TABLE_OWNER(job, struct admin_call, job), struct register_call, admin);
    pg_param_text(params, call->name);
    pg_param_text(params, call->source);
    if (call->sink.p == NULL)
        pg_param_null(params);
    else
        pg_param_text(params, call->sink);
    pg_param_text(params, call->hash);
    pg_param_bool(params, call->reset);
}

static int register_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    const struct register_call *call = TABLE_OWNER(admin, struct register_call, admin);
    struct uuid id = pg_get_uuid(r, 0, REGISTER_ID);
    bool mismatch = pg_get_bool(r, 0, REGISTER_MISMATCH);
    BUF_PUT_LITERAL(body, "{\"success\":");
    json_write_bool(body, !mismatch);
    BUF_PUT_LITERAL(body, ",\"query_id\":");
    json_write_uuid(body, &id);
    BUF_PUT_LITERAL(body, ",\"name\":");
    json_write_string(body, call->name);
    if (mismatch) {
        struct buf text = {0};
        BUF_PUT_LITERAL(&text, "config_hash mismatch: operator chain changed for queryId '");
        buf_put_slice(&text, call->name);
        BUF_PUT_LITERAL(&text, "'. Pass reset:true to wipe existing state, or use a new queryId.");
        BUF_PUT_LITERAL(body, ",\"error\":");
        json_write_string(body, buf_slice(&text));
        buf_free(&text);
        buf_putc(body, '}');
        return 409;
    }
    BUF_PUT_LITERAL(body, ",\"config_hash\":");
    json_write_string(body, call->hash);
    BUF_PUT_LITERAL(body, ",\"fresh\":");
    json_write_bool(body, pg_get_bool(r, 0, REGISTER_FRESH));
    BUF_PUT_LITERAL(body, ",\"reset\":");
    json_write_bool(body, pg_get_bool(r, 0, REGISTER_RESET));
    buf_putc(body, '}');
    return 200;
}

/* A name that must be there. Returns 0 or the HTTP status. */
static int register_name(struct json_value v, const char *field, struct arena *arena,
                         struct slice *out, struct err *err)
{
    struct err why;
    if (v.type != JSON_STRING || v.raw.n == 2) {
        (void)err_set(err, "%s is required", field);
        return 400;
    }
    if (!json_string(v, arena, out, &why)) {
        (void)err_set(err, "%s: %s", field, why.text);
        return 400;
    }
    return name_check(field, *out, err);
}

static int register_parse(struct register_call *call, struct err *err)
{
    struct json_value body, name, source, sink, hash, reset;
    const struct json_field fields[] = {{"name", &name},
                                        {"source_queue", &source},
                                        {"sink_queue", &sink},
                                        {"config_hash", &hash},
                                        {"reset", &reset}};
    struct arena *arena = request_arena(call->admin.r);
    if (!streams_body(call->admin.r, &body, err) ||
        !json_pick(body, fields, sizeof fields / sizeof *fields, err))
        return 400;
    int status = register_name(name, "name", arena, &call->name, err);
    if (status == 0)
        status = register_name(source, "source_queue", arena, &call->source, err);
    if (status == 0)
        status = register_name(hash, "config_hash", arena, &call->hash, err);
    if (status == 0 && json_present(sink) && !slice_is(sink.raw, "\"\""))
        status = register_name(sink, "sink_queue", arena, &call->sink, err);
    if (status == 0 && !streams_flag(reset, "reset", &call->reset, err))
        status = 400;
    return status;
}

void streams_handle_register(struct worker *w, struct request *r)
{
    struct err err;
    struct register_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    admin_call_init(&call->admin, w, r, w->streams_lane, &register_statement, register_build);
    call->admin.render = register_render;
    int status = register_parse(call, &err);
    if (status != 0)
        request_answer_error(r, status, "%s", err.text);
    else
        admin_call_start(&call->admin);
}

struct state_call {
    struct admin_call admin;
    struct uuid query_id, partition_id;
    struct slice *keys; /* NULL = all */
    size_t key_count;
    struct slice prefix;
    struct slice ripe; /* a number as text; p = NULL: all */
};

static void state_build(struct pg_job *job, struct pg_params *params)
{
    const struct state_call *call =
        TABLE_OWNER(TABLE_OWNER(job, struct admin_call, job), struct state_call, admin);
    pg_param_uuid(params, &call->query_id);
    pg_param_uuid(params, &call->partition_id);
    if (call->keys == NULL) {
        pg_param_null(params);
    } else {
        pg_array_begin(params, PG_TEXT);
        for (size_t i = 0; i < call->key_count; i++)
            pg_array_bytes(params, call->keys[i]);
        pg_array_end(params);
    }
    pg_param_text(params, call->prefix);
    if (call->ripe.p == NULL)
        pg_param_null(params);
    else
        pg_param_text(params, call->ripe);
    pg_param_int4(params, STREAMS_MAX_ELEMENTS);
    pg_param_int8(params, STATE_MAX_BYTES);
}

static int state_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    (void)admin;
    BUF_PUT_LITERAL(body, "{\"success\":true,\"rows\":[");
    for (int row = 0; row < PQntuples(r); row++) {
        if (row > 0)
            buf_putc(body, ',');
        BUF_PUT_LITERAL(body, "{\"key\":");
        json_write_string(body, pg_get_bytes(r, row, STATE_KEY));
        BUF_PUT_LITERAL(body, ",\"value\":");
        buf_put_slice(body, pg_get_bytes(r, row, STATE_VALUE));
        BUF_PUT_LITERAL(body, ",\"updated_at\":");
        json_write_time(body, pg_get_time_us(r, row, STATE_UPDATED_AT));
        buf_putc(body, '}');
    }
    BUF_PUT_LITERAL(body, "]}");
    return 200;
}

static void state_fail(struct admin_call *call, const struct pg_outcome *outcome)
{
    if (strcmp(outcome->sqlstate, "54000") == 0)
        request_answer_error(call->r, 413, "%s", outcome->text);
    else if (outcome->status == PG_REFUSED)
        request_answer_error(call->r, 500, "state get failed: %s", outcome->sqlstate);
    else
        request_answer_error(call->r, 503, "timeout: the database is not available");
}

static bool state_parse_keys(struct state_call *call, struct json_value keys, struct err *err)
{
    struct arena *arena = request_arena(call->admin.r);
    struct json_value element;
    size_t count = streams_count(keys);
    if (json_present(keys) && keys.type != JSON_ARRAY)
        return err_set(err, "keys must be an array, found %s", json_type_name(keys.type));
    if (count > STREAMS_MAX_ELEMENTS)
        return err_set(err, "keys has %zu elements, the limit is %d", count, STREAMS_MAX_ELEMENTS);
    if (count == 0)
        return true;
    call->keys = arena_zarray(arena, count, sizeof *call->keys);
    for (struct json_iter it = json_iterate(keys); json_next(&it, &element); call->key_count++)
        if (!streams_key(element, arena, &call->keys[call->key_count], err))
            return err_prefix(err, "keys[%zu]", call->key_count);
    return true;
}

/* Numbers beyond the range of a double are infinite, as in stored values. */
static bool state_parse_ripe(struct state_call *call, struct json_value ripe, struct err *err)
{
    if (!json_present(ripe))
        return true;
    if (ripe.type != JSON_NUMBER)
        return err_set(err, "ripe_at_or_before must be a number, found %s",
                       json_type_name(ripe.type));
    struct arena *arena = request_arena(call->admin.r);
    struct buf text = {0};
    buf_printf(&text, "%.17g", strtod(arena_cstr(arena, ripe.raw), NULL));
    call->ripe = arena_copy(arena, buf_slice(&text));
    buf_free(&text);
    return true;
}

/* *known: both ids are UUIDs; others name nothing, so there is no state. */
static bool state_parse(struct state_call *call, bool *known, struct err *err)
{
    struct json_value body, query, partition, keys, prefix, ripe;
    const struct json_field fields[] = {{"query_id", &query},
                                        {"partition_id", &partition},
                                        {"keys", &keys},
                                        {"key_prefix", &prefix},
                                        {"ripe_at_or_before", &ripe}};
    struct arena *arena = request_arena(call->admin.r);
    struct slice query_id = {0}, partition_id = {0};
    if (!streams_body(call->admin.r, &body, err) ||
        !json_pick(body, fields, sizeof fields / sizeof *fields, err) ||
        !streams_text(query, "query_id", arena, &query_id, err) ||
        !streams_text(partition, "partition_id", arena, &partition_id, err))
        return false;
    if (query_id.n == 0 || partition_id.n == 0)
        return err_set(err, "%s is required", query_id.n == 0 ? "query_id" : "partition_id");
    *known = uuid_parse(query_id, &call->query_id) && uuid_parse(partition_id, &call->partition_id);
    call->prefix = SLICE_LITERAL("");
    if (json_present(prefix) && !streams_key(prefix, arena, &call->prefix, err))
        return err_prefix(err, "key_prefix");
    return state_parse_keys(call, keys, err) && state_parse_ripe(call, ripe, err);
}

void streams_handle_state_get(struct worker *w, struct request *r)
{
    struct err err;
    bool known = false;
    struct state_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    admin_call_init(&call->admin, w, r, w->streams_lane, &state_statement, state_build);
    call->admin.render = state_render;
    call->admin.fail = state_fail;
    if (!state_parse(call, &known, &err)) {
        request_answer_error(r, 400, "%s", err.text);
    } else if (!known) {
        struct buf body = {0};
        BUF_PUT_LITERAL(&body, "{\"success\":true,\"rows\":[]}");
        request_answer(r, 200, NULL, (struct slice){0}, &body);
    } else {
        admin_call_start(&call->admin);
    }
}
