/* POST /api/v1/lease/:leaseId/extend (contract 1, section 4; seed "Ack internals", lease renewal).
 */
#include "worker/admin.h"

#include "base/clock.h"
#include "wire/json.h"
#include "wire/json_write.h"

enum { EXTEND_DEFAULT_S = 60, EXTEND_MAX_S = 30 * 86400 };

static const struct pg_statement renew_statement = {
    .name = "renew",
    .sql = "select renewed, expires_at from queen.log_renew_lease_v1($1, $2)",
    .param_count = 2,
    .types = {PG_TEXT, PG_INT4}};

static void lease_build(struct pg_job *job, struct pg_params *params)
{
    const struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    pg_param_text(params, call->text[0]);
    pg_param_int4(params, (int32_t)call->number[0]);
}

static void lease_write(struct buf *body, struct slice lease_id, int32_t renewed,
                        const char *expires /* NULL = none */)
{
    static const char *const keys[] = {"newExpiresAt", "expiresAt", "lease_expires_at"};
    BUF_PUT_LITERAL(body, "{\"leaseId\":");
    json_write_string(body, lease_id);
    BUF_PUT_LITERAL(body, ",\"success\":");
    json_write_bool(body, renewed > 0);
    BUF_PUT_LITERAL(body, ",\"renewed\":");
    buf_put_int(body, renewed);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (expires == NULL)
            buf_printf(body, ",\"%s\":null", keys[i]);
        else
            buf_printf(body, ",\"%s\":\"%s\"", keys[i], expires);
    }
    buf_putc(body, '}');
}

static int lease_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    char expires[CLOCK_ISO_SIZE];
    int32_t renewed = PQntuples(r) == 0 ? 0 : pg_get_int4(r, 0, 0);
    if (renewed > 0)
        clock_iso_utc(pg_get_time_us(r, 0, 1), expires);
    lease_write(body, call->text[0], renewed, renewed > 0 ? expires : NULL);
    return 200;
}

/* Anything that is not a whole number of seconds means the default: the route always answers 200.
 */
static int64_t lease_seconds(struct slice text)
{
    struct err err;
    struct json_value body, seconds;
    const struct json_field fields[] = {{"seconds", &seconds}};
    int64_t n;
    if (!json_validate(text, &body, &err) || body.type != JSON_OBJECT ||
        !json_pick(body, fields, 1, &err) || !json_int64(seconds, &n))
        return EXTEND_DEFAULT_S;
    return n < 1 ? 1 : n > EXTEND_MAX_S ? EXTEND_MAX_S : n;
}

void lease_handle_extend(struct worker *w, struct request *r, struct slice lease_id)
{
    struct uuid id;
    if (!uuid_parse(lease_id, &id)) {
        /* Not one of ours, so unknown; the answer is the same as for an expired one. */
        struct buf body = {0};
        lease_write(&body, lease_id, 0, NULL);
        request_answer(r, 200, NULL, (struct slice){0}, &body);
        return;
    }
    struct admin_call *call = admin_call_new(w, r, w->ack_lane, &renew_statement, lease_build);
    call->text[0] = lease_id;
    call->number[0] = lease_seconds(request_body(r));
    call->render = lease_render;
    admin_call_start(call);
}
