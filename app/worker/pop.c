/* The pop routes: parameters, the life of a call, its answers (contract 1, section 2). */
#include "worker/pop.h"

#include "base/clock.h"
#include "pg/retry.h"
#include "shm/maintenance.h"
#include "wire/json_write.h"
#include "wire/uri.h"

#include <stdlib.h>

enum {
    POP_MAX_BATCH = 10000,
    POP_MAX_PARTITIONS = 1000,
    POP_NO_CONNECTION_MS = 5000, /* how long a pop without wait waits for a database connection */
    POP_RETURN_TRIES = 5,
    POP_MARGIN_MS = 250, /* contract 1, section 2.7: no claim so close to the caller's deadline */
};

enum {
    POP_DEFAULT_BATCH = 200,
    POP_DEFAULT_PARTITIONS = 1,
    POP_MAX_WIDTH = 64, /* contract 1, section 2.5: partitions of a conflating pop */
};

#define POP_LEFT_OUT INT64_MIN

struct pop_params {
    int64_t batch, partitions, lease_seconds, timeout;
    bool wait, auto_ack, autopilot;
    enum pop_wish conflation;
    struct slice group, mode, from, namespace, task;
};

/* Three values on the wire: absent is not false (data-plane detail, section 19). */
static bool pop_read_wish(struct slice query, const char *name, struct arena *arena,
                          enum pop_wish *wish, struct err *err)
{
    struct slice text;
    bool found, yes = false;
    if (!uri_param(query, name, arena, &text, &found, err) ||
        !uri_param_bool(query, name, &yes, err))
        return false;
    *wish = !found ? POP_UNSAID : yes ? POP_YES : POP_NO;
    return true;
}

static bool pop_read_params(struct worker *w, struct request *r, struct pop_params *p,
                            struct err *err)
{
    struct slice path, q;
    struct arena *arena = request_arena(r);
    uri_split(request_head(r)->target, &path, &q);
    *p = (struct pop_params){.batch = POP_LEFT_OUT,
                             .partitions = POP_LEFT_OUT,
                             .timeout = w->settings.pop_default_timeout_ms,
                             .group = SLICE_LITERAL(QUEUE_MODE_GROUP),
                             .mode = slice_of(w->settings.default_subscription_mode)};
    return uri_param_int(q, "batch", &p->batch, err) &&
           uri_param_int(q, "partitions", &p->partitions, err) &&
           uri_param_int(q, "leaseSeconds", &p->lease_seconds, err) &&
           uri_param_int(q, "timeout", &p->timeout, err) &&
           uri_param_bool(q, "wait", &p->wait, err) &&
           uri_param_bool(q, "autoAck", &p->auto_ack, err) &&
           uri_param_bool(q, "autopilot", &p->autopilot, err) &&
           pop_read_wish(q, "conflation", arena, &p->conflation, err) &&
           uri_param_text(q, "consumerGroup", arena, &p->group, err) &&
           uri_param_text(q, "subscriptionMode", arena, &p->mode, err) &&
           uri_param_text(q, "subscriptionFrom", arena, &p->from, err) &&
           uri_param_text(q, "namespace", arena, &p->namespace, err) &&
           uri_param_text(q, "task", arena, &p->task, err);
}

/* Anything that is not a spelling of "new" means all (data-plane detail, section 12.1). */
static struct slice pop_normal_mode(struct slice mode)
{
    static const char *const fresh[] = {"new", "new-only", "new_only", "newonly"};
    while (mode.n > 0 && mode.p[0] == ' ') {
        mode.p++;
        mode.n--;
    }
    while (mode.n > 0 && mode.p[mode.n - 1] == ' ')
        mode.n--;
    for (size_t i = 0; i < sizeof fresh / sizeof *fresh; i++)
        if (mode.n == strlen(fresh[i]) && strncasecmp(mode.p, fresh[i], mode.n) == 0)
            return SLICE_LITERAL("new");
    return SLICE_LITERAL("all");
}

static int32_t pop_clamp(int64_t v, int64_t min, int64_t max)
{
    return (int32_t)(v < min ? min : v > max ? max : v);
}

static struct slice pop_keep(char **at, struct slice s)
{
    struct slice kept = {*at, s.n};
    if (s.n > 0)
        memcpy(*at, s.p, s.n);
    *at += s.n;
    return kept;
}

static void pop_set_size(struct pop_call *call, const struct pop_params *p)
{
    int64_t batch = p->batch == POP_LEFT_OUT ? POP_DEFAULT_BATCH : p->batch;
    int64_t partitions = p->partitions == POP_LEFT_OUT ? POP_DEFAULT_PARTITIONS : p->partitions;
    call->batch = pop_clamp(batch, 1, POP_MAX_BATCH);
    call->partitions =
        partitions <= 0 ? POP_MAX_PARTITIONS : pop_clamp(partitions, 1, POP_MAX_PARTITIONS);
    call->width = p->partitions == POP_LEFT_OUT ? pop_clamp(batch, 1, POP_MAX_WIDTH)
                                                : pop_clamp(call->partitions, 1, POP_MAX_WIDTH);
}

static void pop_deadline(struct loop_timer *timer);

static struct pop_call *pop_call_new(struct worker *w, struct request *r,
                                     const struct pop_params *p, struct slice queue,
                                     struct slice partition)
{
    struct slice mode = pop_normal_mode(p->mode);
    size_t bytes = queue.n + partition.n + p->group.n + p->from.n + p->namespace.n + p->task.n;
    struct pop_call *call = mem_zalloc(sizeof *call + bytes);
    char *at = call->text;
    call->w = w;
    call->r = r;
    call->wait = p->wait;
    call->auto_ack = p->auto_ack;
    call->conflation = p->conflation;
    pop_set_size(call, p);
    call->lease_seconds = pop_clamp(p->lease_seconds, 0, INT32_MAX);
    call->queue = pop_keep(&at, queue);
    call->partition = pop_keep(&at, partition);
    call->group = pop_keep(&at, p->group);
    call->from = pop_keep(&at, p->from);
    call->namespace = pop_keep(&at, p->namespace);
    call->task = pop_keep(&at, p->task);
    call->mode = mode;
    call->lease_id = uuid_v7();
    uuid_format(&call->lease_id, call->lease_text);
    uint64_t now = loop_now_ms(w->loop);
    uint64_t timeout = p->timeout < 0 ? 0 : (uint64_t)p->timeout;
    if (timeout > (uint64_t)w->settings.pop_max_timeout_ms)
        timeout = (uint64_t)w->settings.pop_max_timeout_ms;
    uint64_t margin = timeout / 4 < POP_MARGIN_MS ? timeout / 4 : POP_MARGIN_MS;
    if (!p->wait)
        timeout = POP_NO_CONNECTION_MS;
    call->deadline_ms = now + timeout;
    call->claim_until_ms = call->deadline_ms - margin;
    call->deadline_timer.fire = pop_deadline;
    return call;
}

/* The client left while its call was queued or parked: nothing was claimed for it. While the claim
 * is on its way the call lives on, to hand back what it brings. */
static void pop_gone(struct request *r)
{
    struct pop_call *call = request_state(r);
    WORKER_COUNT(call->w, pop_gone, 1);
    call->r = NULL;
    if (call->state != POP_CLAIMING)
        pop_call_free(call);
}

static void pop_start(struct worker *w, struct request *r, bool wait, struct pop_call *call)
{
    request_set_state(r, call);
    request_park(r, pop_gone);
    loop_timer_set(w->loop, &call->deadline_timer, call->deadline_ms);
    if (!wait) {
        pop_call_claim(call);
        return;
    }
    /* Counted before the first claim looks: whoever commits work after that look sees the gauge. */
    w->pop->waiting++;
    atomic_store(&w->slot.counters->pop_parked, w->pop->waiting);
    pop_park_join(call);
    if (pop_park_known_empty(call))
        pop_park_call(call, false);
    else
        pop_call_claim(call);
}

static void pop_refuse(struct request *r, int status, const char *text)
{
    struct buf body = {0};
    BUF_PUT_LITERAL(&body, "{\"success\":false,\"error\":");
    json_write_string(&body, slice_of(text));
    BUF_PUT_LITERAL(&body, ",\"messages\":[]}");
    request_answer(r, status, NULL, (struct slice){0}, &body);
}

/* True when the request was answered. */
static bool pop_refused(struct worker *w, struct request *r, struct pop_params *p)
{
    struct err err;
    WORKER_COUNT(w, pop_requests, 1);
    if (!pop_read_params(w, r, p, &err)) {
        request_answer_error(r, 400, "%s", err.text);
        return true;
    }
    int status = name_check("consumerGroup", p->group, &err);
    if (status != 0) {
        request_answer_error(r, status, "%s", err.text);
        return true;
    }
    if (p->conflation == POP_YES && slice_is(p->group, QUEUE_MODE_GROUP)) {
        pop_refuse(r, 400,
                   "conflation requires consumerGroup: queue mode is a shared cursor with no group "
                   "identity to hang a delivery policy on");
        return true;
    }
    if (p->conflation == POP_YES && p->auto_ack) {
        pop_refuse(r, 400,
                   "conflation cannot be combined with autoAck: auto-ack commits at delivery with "
                   "no lease, so a failed handler loses the tail and the at-least-once guarantee "
                   "conflation exists to provide degrades to at-most-once");
        return true;
    }
    if (maintenance_is_on(w->shm, MAINTENANCE_POP)) {
        /* An answer without the key would tell a conflating client that the server is too old. */
        struct buf body = {0};
        if (p->conflation == POP_YES)
            BUF_PUT_LITERAL(&body, "{\"messages\":[],\"paused\":true,\"conflation\":true}");
        WORKER_COUNT(w, pop_empty, 1);
        request_answer(r, body.n > 0 ? 200 : 204, NULL, (struct slice){0}, &body);
        return true;
    }
    return false;
}

void pop_handle_queue(struct worker *w, struct request *r, struct slice queue)
{
    struct pop_params p;
    struct err err;
    int status = name_check("queue", queue, &err);
    if (status != 0) {
        request_answer_error(r, status, "%s", err.text);
        return;
    }
    if (pop_refused(w, r, &p))
        return;
    struct pop_call *call = pop_call_new(w, r, &p, queue, (struct slice){0});
    if (p.autopilot && !slice_is(p.group, QUEUE_MODE_GROUP)) {
        if (p.batch == POP_LEFT_OUT)
            call->batch = 0;
        if (p.partitions == POP_LEFT_OUT)
            call->partitions = 0;
    }
    pop_start(w, r, p.wait, call);
}

void pop_handle_partition(struct worker *w, struct request *r, struct slice queue,
                          struct slice partition)
{
    struct pop_params p;
    struct err err;
    int status = name_check("queue", queue, &err);
    if (status == 0)
        status = name_check("partition", partition, &err);
    if (status != 0) {
        request_answer_error(r, status, "%s", err.text);
        return;
    }
    if (pop_refused(w, r, &p))
        return;
    struct pop_call *call = pop_call_new(w, r, &p, queue, partition);
    call->pinned = true;
    pop_start(w, r, p.wait, call);
}

void pop_handle_discovery(struct worker *w, struct request *r)
{
    struct pop_params p;
    if (pop_refused(w, r, &p))
        return;
    if (p.namespace.n == 0 && p.task.n == 0) {
        pop_refuse(r, 400, "namespace or task is required");
        return;
    }
    struct err err;
    int status = p.namespace.n == 0 ? 0 : name_check("namespace", p.namespace, &err);
    if (status == 0 && p.task.n > 0)
        status = name_check("task", p.task, &err);
    if (status != 0) {
        request_answer_error(r, status, "%s", err.text);
        return;
    }
    struct pop_call *call = pop_call_new(w, r, &p, (struct slice){0}, (struct slice){0});
    call->discovery = true;
    pop_start(w, r, p.wait, call);
}

void pop_call_free(struct pop_call *call)
{
    struct worker *w = call->w;
    loop_timer_cancel(w->loop, &call->deadline_timer);
    if (call->state == POP_QUEUED)
        pop_call_unclaim(call);
    if (call->wait) {
        pop_park_leave(call);
        w->pop->waiting--;
        atomic_store(&w->slot.counters->pop_parked, w->pop->waiting);
    }
    free(call);
}

void pop_call_answer_empty(struct pop_call *call)
{
    struct buf body = {0};
    WORKER_COUNT(call->w, pop_empty, 1);
    if (call->r != NULL)
        request_answer(call->r, pop_render_empty(call, &body) ? 200 : 204, NULL, (struct slice){0},
                       &body);
    pop_call_free(call);
}

/* An outage must not end consumers (data-plane detail, T17): who waits is held until the deadline
 * and answered 204, who does not gets a text that clients take as a reason to try again. */
static void pop_answer_unavailable(struct pop_call *call)
{
    if (call->r != NULL) {
        struct buf body = {0};
        BUF_PUT_LITERAL(&body, "{\"error\":\"timeout: the database is not available\","
                               "\"code\":\"timeout\"}");
        request_answer(call->r, 503, NULL, SLICE_LITERAL("Retry-After: 1\r\n"), &body);
    }
    pop_call_free(call);
}

static void pop_deadline(struct loop_timer *timer)
{
    struct pop_call *call = TABLE_OWNER(timer, struct pop_call, deadline_timer);
    if (call->state == POP_CLAIMING)
        return; /* answered with what the claim brings */
    if (call->wait)
        pop_call_answer_empty(call);
    else
        pop_answer_unavailable(call);
}

void pop_call_empty(struct pop_call *call, int64_t retry_after_ms, bool held)
{
    struct pop_set *set = call->set;
    bool leaves = call->r == NULL || !call->wait || call->w->stopping ||
                  maintenance_is_on(call->w->shm, MAINTENANCE_POP) ||
                  loop_now_ms(call->w->loop) >= call->deadline_ms;
    call->state = POP_IDLE;
    if (!leaves)
        pop_park_call(call, true);
    if (set != NULL)
        pop_park_probed(set, retry_after_ms, held); /* may send the call to look again */
    if (leaves)
        pop_call_answer_empty(call);
}

void pop_call_failed(struct pop_call *call)
{
    if (call->wait) {
        /* Its lease id may hold something that nobody was told of, which must run out: the next
         * claim is another lease. */
        call->lease_id = uuid_v7();
        uuid_format(&call->lease_id, call->lease_text);
        pop_call_empty(call, call->w->settings.fallback_poll_ms, false);
        return;
    }
    call->state = POP_IDLE;
    pop_answer_unavailable(call);
}

static const struct pg_statement pop_return_statement = {
    .name = "pop_return",
    .sql = "select count(queen.log_ack_at_v1(pid, $2, $3, null, false, 0))"
           " from (select p as pid from unnest($1) as p order by p offset 0) as t",
    .param_count = 3,
    .types = {PG_UUID_ARRAY, PG_TEXT, PG_TEXT}};

/* Hands back leases that nobody will answer for: the client left while the claim was made. */
struct pop_return {
    struct pg_job job;
    struct worker *w;
    struct slice group;
    char lease_text[UUID_TEXT_SIZE];
    int tries;
    size_t count;
    struct uuid *partitions;
    char text[];
};

static void pop_return_build(struct pg_job *job, struct pg_params *params)
{
    struct pop_return *back = TABLE_OWNER(job, struct pop_return, job);
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < back->count; i++)
        pg_array_uuid(params, &back->partitions[i]);
    pg_array_end(params);
    pg_param_text(params, back->group);
    pg_param_text(params, (struct slice){back->lease_text, UUID_TEXT_SIZE});
}

static void pop_return_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct pop_return *back = TABLE_OWNER(job, struct pop_return, job);
    if (pg_outcome_may_pass(outcome) && back->tries++ < POP_RETURN_TRIES) {
        pg_lane_submit(back->w->ack_lane, &back->job);
        return;
    }
    if (outcome->status == PG_DONE)
        pop_wake(back->w, 0, 0, table_hash(back->group, (struct slice){0}));
    free(back->partitions);
    free(back);
}

static void pop_return_leases(struct pop_call *call, const PGresult *r, int first, int last)
{
    struct pop_return *back = mem_zalloc(sizeof *back + call->group.n);
    back->w = call->w;
    memcpy(back->text, call->group.p, call->group.n);
    back->group = (struct slice){back->text, call->group.n};
    memcpy(back->lease_text, call->lease_text, UUID_TEXT_SIZE);
    back->partitions = mem_alloc((size_t)(last - first) * sizeof *back->partitions);
    for (int row = first; row < last; row++) {
        struct uuid id = pg_get_uuid(r, row, POP_PARTITION_ID);
        if (back->count == 0 || !uuid_equal(&back->partitions[back->count - 1], &id))
            back->partitions[back->count++] = id;
    }
    back->job.statement = &pop_return_statement;
    back->job.build = pop_return_build;
    back->job.done = pop_return_done;
    pg_lane_submit(call->w->ack_lane, &back->job);
}

void pop_call_deliver(struct pop_call *call, const PGresult *r, int first, int last)
{
    call->state = POP_IDLE;
    if (call->set != NULL)
        pop_park_served(call->set);
    if (call->r == NULL) {
        if (!call->auto_ack)
            pop_return_leases(call, r, first, last);
        pop_call_free(call);
        return;
    }
    struct buf body = {0};
    size_t messages = pop_render(call, r, first, last, &body);
    WORKER_COUNT(call->w, pop_messages, messages);
    request_answer(call->r, 200, NULL, (struct slice){0}, &body);
    pop_call_free(call);
}
