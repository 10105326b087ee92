/* Queues: POST /api/v1/configure and DELETE /api/v1/resources/queues/:queue (contract 2, section
 * 1). SQL validates and merges the options. */
#include "worker/admin.h"

#include "wire/json.h"
#include "wire/json_write.h"

static const struct pg_statement configure_statement = {
    .name = "configure",
    .sql = "select queen.configure_v1($1, $2::jsonb)::text",
    .param_count = 2,
    .types = {PG_TEXT, PG_TEXT}};

static void configure_build(struct pg_job *job, struct pg_params *params)
{
    const struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    pg_param_text(params, call->text[0]);
    pg_param_text(params, call->text[1]);
}

static int configure_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    (void)call;
    buf_put_slice(body, pg_get_bytes(r, 0, 0));
    return 200;
}

void configure_handle(struct worker *w, struct request *r)
{
    struct err err;
    struct json_value body, queue;
    struct slice name;
    const struct json_field fields[] = {{"queue", &queue}};
    bool ok = json_validate(request_body(r), &body, &err);
    if (ok && body.type != JSON_OBJECT)
        ok = err_set(&err, "expected an object, found %s", json_type_name(body.type));
    ok = ok && json_pick(body, fields, 1, &err);
    if (ok && queue.type != JSON_STRING)
        ok = err_set(&err, "queue is required and must be a string");
    ok = ok && json_string(queue, request_arena(r), &name, &err);
    if (!ok) {
        request_answer_error(r, 400, "bad body: %s", err.text);
        return;
    }
    /* The empty name is legal here only (contract 1, section 1.5). */
    int status = name.n == 0 ? 0 : name_check("queue", name, &err);
    if (status != 0) {
        request_answer_error(r, status, "bad body: %s", err.text);
        return;
    }
    struct admin_call *call =
        admin_call_new(w, r, w->admin_lane, &configure_statement, configure_build);
    call->text[0] = name;
    call->text[1] = body.raw;
    call->render = configure_render;
    admin_call_start(call);
}

static const struct pg_statement delete_statement = {.name = "queue_delete",
                                                     .sql = "select queen.queue_delete_v1($1)",
                                                     .param_count = 1,
                                                     .types = {PG_TEXT}};

static void delete_build(struct pg_job *job, struct pg_params *params)
{
    pg_param_text(params, TABLE_OWNER(job, const struct admin_call, job)->text[0]);
}

static int delete_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    /* After an unsettled try the queue is gone either way, and this call has deleted it. */
    bool existed = pg_get_bool(r, 0, 0) || call->unsettled;
    BUF_PUT_LITERAL(body, "{\"deleted\":");
    json_write_bool(body, existed);
    BUF_PUT_LITERAL(body, ",\"queue\":");
    json_write_string(body, call->text[0]);
    BUF_PUT_LITERAL(body, ",\"existed\":");
    json_write_bool(body, existed);
    if (!existed)
        BUF_PUT_LITERAL(body, ",\"message\":\"Queue not found\"");
    buf_putc(body, '}');
    return 200;
}

void queue_handle_delete(struct worker *w, struct request *r, struct slice queue)
{
    struct err err;
    int status = queue.n == 0 ? 0 : name_check("queue", queue, &err);
    if (status != 0) {
        request_answer_error(r, status, "%s", err.text);
        return;
    }
    struct admin_call *call = admin_call_new(w, r, w->admin_lane, &delete_statement, delete_build);
    call->text[0] = queue;
    call->render = delete_render;
    admin_call_start(call);
}
