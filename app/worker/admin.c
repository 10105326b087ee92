/* Calls that are one statement. */
#include "worker/admin.h"

#include "base/logger.h"
#include "pg/retry.h"
#include "wire/json_write.h"

void admin_call_init(struct admin_call *call, struct worker *w, struct request *r,
                     struct pg_lane *lane, const struct pg_statement *statement,
                     void (*build)(struct pg_job *, struct pg_params *))
{
    call->w = w;
    call->r = r;
    call->lane = lane;
    call->deadline_ms = loop_now_ms(w->loop) + (uint64_t)w->settings.request_timeout_ms;
    call->job.statement = statement;
    call->job.build = build;
}

struct admin_call *admin_call_new(struct worker *w, struct request *r, struct pg_lane *lane,
                                  const struct pg_statement *statement,
                                  void (*build)(struct pg_job *, struct pg_params *))
{
    struct admin_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    admin_call_init(call, w, r, lane, statement, build);
    return call;
}

static void admin_again(struct loop_timer *timer)
{
    struct admin_call *call = TABLE_OWNER(timer, struct admin_call, timer);
    pg_lane_submit(call->lane, &call->job);
}

static void admin_unavailable(struct request *r, const char *code, const char *text)
{
    struct buf body = {0};
    buf_printf(&body, "{\"error\":\"%s: %s\",\"code\":\"%s\"}", code, text, code);
    request_answer(r, 503, NULL, SLICE_LITERAL("Retry-After: 1\r\n"), &body);
}

/* The option that a refusal names with its first word, for `"invalid"` (contract 2, section 1). */
static struct slice admin_invalid_option(const char *text)
{
    static const char prefix[] = "retentionSinkHold";
    if (strncmp(text, prefix, sizeof prefix - 1) != 0)
        return (struct slice){0};
    return (struct slice){text, strcspn(text, " :")};
}

static void admin_refused(struct admin_call *call, const struct pg_outcome *outcome)
{
    if (memcmp(outcome->sqlstate, "22", 2) != 0) {
        logger_error("admin", "statement %s failed: %s %s", call->job.statement->name,
                     outcome->sqlstate, outcome->text);
        request_answer_error(call->r, 500, "database error %s", outcome->sqlstate);
        return;
    }
    struct buf body = {0};
    struct slice invalid = admin_invalid_option(outcome->text);
    BUF_PUT_LITERAL(&body, "{\"error\":");
    json_write_string(&body, slice_of(outcome->text));
    if (invalid.n > 0) {
        BUF_PUT_LITERAL(&body, ",\"invalid\":");
        json_write_string(&body, invalid);
    }
    buf_putc(&body, '}');
    request_answer(call->r, 400, NULL, (struct slice){0}, &body);
}

static void admin_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    uint64_t now = loop_now_ms(call->w->loop);
    if (outcome->status == PG_DONE) {
        struct buf body = {0};
        int status = call->render(call, outcome->result, &body);
        if (status != 0)
            request_answer(call->r, status, NULL, call->headers, &body);
        else
            buf_free(&body);
        return;
    }
    bool again = pg_outcome_may_pass(outcome) && !(call->once && outcome->status == PG_UNKNOWN);
    if (again && now + PG_RETRY_MS < call->deadline_ms) {
        call->unsettled |= outcome->status == PG_UNKNOWN;
        loop_timer_set(call->w->loop, &call->timer, now + PG_RETRY_MS);
        return;
    }
    if (call->fail != NULL)
        call->fail(call, outcome);
    else if (call->unsettled || outcome->status == PG_UNKNOWN)
        admin_unavailable(call->r, "outcome_unknown",
                          "the change may or may not have applied; send it again");
    else if (outcome->status == PG_NOT_SENT)
        admin_unavailable(call->r, "timeout", "the database is not available");
    else
        admin_refused(call, outcome);
}

void admin_call_start(struct admin_call *call)
{
    call->job.done = admin_done;
    call->job.deadline_ms = call->deadline_ms;
    call->timer.fire = admin_again;
    pg_lane_submit(call->lane, &call->job);
}

void admin_call_next(struct admin_call *call, const struct pg_statement *statement,
                     void (*build)(struct pg_job *, struct pg_params *),
                     int (*render)(struct admin_call *, const PGresult *, struct buf *))
{
    call->unsettled = false;
    call->job.statement = statement;
    call->job.build = build;
    call->render = render;
    admin_call_start(call);
}
