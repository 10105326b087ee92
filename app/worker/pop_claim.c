/* Claims: the waiting calls travel to PostgreSQL together, as many as there are when a connection
 * comes free (pop fusion). SQL decides who gets what. */
#include "worker/pop.h"

#include "base/logger.h"

#include <stdlib.h>

enum { CLAIM_MAX = 64 }; /* calls in one statement */

static const struct pg_statement claim_statement = {
    .name = "claim",
    .sql = "select " POP_COLUMNS
           " from queen.log_pop_multi_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13)",
    .param_count = 13,
    .types = {PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY, PG_INT4_ARRAY,
              PG_INT4_ARRAY, PG_TEXT_ARRAY, PG_BOOL_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY,
              PG_BOOL_ARRAY, PG_INT4_ARRAY, PG_INT4_ARRAY}};

static const struct pg_statement discover_statement = {
    .name = "discover",
    .sql = "select " POP_COLUMNS
           " from queen.log_pop_discover_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
    .param_count = 12,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_INT4, PG_INT4, PG_INT4, PG_TEXT, PG_BOOL, PG_TEXT,
              PG_TEXT, PG_BOOL, PG_INT4}};

struct pop_claim {
    struct pg_job job;
    struct worker *w;
    size_t count;
    struct pop_call *calls[CLAIM_MAX];
};

static struct slice pop_call_lease(const struct pop_call *call)
{
    return (struct slice){call->lease_text, UUID_TEXT_SIZE};
}

#define CLAIM_COLUMN(params, oid, append, value)                                                   \
    do {                                                                                           \
        pg_array_begin(params, oid);                                                               \
        for (size_t i = 0; i < claim->count; i++) {                                                \
            const struct pop_call *call = claim->calls[i];                                         \
            append(params, value);                                                                 \
        }                                                                                          \
        pg_array_end(params);                                                                      \
    } while (0)

static void pop_claim_build(struct pg_job *job, struct pg_params *params)
{
    struct pop_claim *claim = TABLE_OWNER(job, struct pop_claim, job);
    CLAIM_COLUMN(params, PG_TEXT, pg_array_bytes, call->queue);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < claim->count; i++) {
        if (claim->calls[i]->pinned)
            pg_array_bytes(params, claim->calls[i]->partition);
        else
            pg_array_null(params);
    }
    pg_array_end(params);
    CLAIM_COLUMN(params, PG_TEXT, pg_array_bytes, call->group);
    CLAIM_COLUMN(params, PG_INT4, pg_array_int4, call->batch);
    CLAIM_COLUMN(params, PG_INT4, pg_array_int4, call->partitions);
    CLAIM_COLUMN(params, PG_INT4, pg_array_int4, call->lease_seconds);
    CLAIM_COLUMN(params, PG_TEXT, pg_array_bytes, pop_call_lease(call));
    CLAIM_COLUMN(params, PG_BOOL, pg_array_bool, call->auto_ack);
    CLAIM_COLUMN(params, PG_TEXT, pg_array_bytes, call->mode);
    CLAIM_COLUMN(params, PG_TEXT, pg_array_bytes, call->from);
    pg_array_begin(params, PG_BOOL);
    for (size_t i = 0; i < claim->count; i++) {
        if (claim->calls[i]->conflation == POP_UNSAID)
            pg_array_null(params);
        else
            pg_array_bool(params, claim->calls[i]->conflation == POP_YES);
    }
    pg_array_end(params);
    CLAIM_COLUMN(params, PG_INT4, pg_array_int4, pop_park_hold_ms(call));
    CLAIM_COLUMN(params, PG_INT4, pg_array_int4, call->width);
}

static void pop_discover_build(struct pg_job *job, struct pg_params *params)
{
    const struct pop_call *call = TABLE_OWNER(job, struct pop_claim, job)->calls[0];
    pg_param_text(params, call->namespace);
    pg_param_text(params, call->task);
    pg_param_text(params, call->group);
    pg_param_int4(params, call->batch);
    pg_param_int4(params, call->partitions);
    pg_param_int4(params, call->lease_seconds);
    pg_param_text(params, pop_call_lease(call));
    pg_param_bool(params, call->auto_ack);
    pg_param_text(params, call->mode);
    pg_param_text(params, call->from);
    if (call->conflation == POP_UNSAID)
        pg_param_null(params);
    else
        pg_param_bool(params, call->conflation == POP_YES);
    pg_param_int4(params, call->width);
}

static void pop_claim_free(struct pop_claim *claim)
{
    fuse_ended(&claim->w->pop->fuse);
    free(claim);
}

static void pop_claim_retry_alone(struct pop_claim *claim);

static void pop_claim_policy(struct pop_call *call, const PGresult *r, int row)
{
    call->policy = pg_is_null(r, row, POP_CONFLATION)    ? POP_MIXED
                   : pg_get_bool(r, row, POP_CONFLATION) ? POP_CONFLATES
                                                         : POP_PLAIN;
    if (call->set != NULL)
        call->set->policy = call->policy;
}

static void pop_claim_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct pop_claim *claim = TABLE_OWNER(job, struct pop_claim, job);
    if (outcome->status == PG_REFUSED && claim->count > 1) {
        pop_claim_retry_alone(claim);
        pop_claim_free(claim);
        return;
    }
    if (outcome->status != PG_DONE) {
        logger_warn("pop", "claim of %zu pops failed: %s", claim->count, outcome->text);
        for (size_t i = 0; i < claim->count; i++)
            pop_call_failed(claim->calls[i]);
        pop_claim_free(claim);
        return;
    }
    const PGresult *r = outcome->result;
    WORKER_COUNT(claim->w, pop_commits, 1);
    int row = 0, rows = PQntuples(r);
    for (size_t i = 0; i < claim->count; i++) {
        int first = row;
        while (row < rows && pg_get_int4(r, row, POP_CLAIM) == (int32_t)i + 1)
            row++;
        if (row > first)
            pop_claim_policy(claim->calls[i], r, first);
        if (row > first && !pg_is_null(r, first, POP_PARTITION_ID))
            pop_call_deliver(claim->calls[i], r, first, row);
        else if (row > first && !pg_is_null(r, first, POP_RETRY_MS))
            pop_call_empty(claim->calls[i], pg_get_int4(r, first, POP_RETRY_MS),
                           pg_get_bool(r, first, POP_HELD));
        else
            pop_call_empty(claim->calls[i], -1, false);
    }
    if (row != rows)
        die("log_pop_multi_v1 answered %d rows, %d of them out of order", rows, rows - row);
    pop_claim_free(claim);
}

static struct pop_claim *pop_claim_new(struct worker *w, bool discovery)
{
    struct pop_claim *claim = mem_zalloc(sizeof *claim);
    claim->w = w;
    claim->job.statement = discovery ? &discover_statement : &claim_statement;
    claim->job.build = discovery ? pop_discover_build : pop_claim_build;
    claim->job.done = pop_claim_done;
    fuse_fired(&w->pop->fuse);
    return claim;
}

static void pop_claim_add(struct pop_claim *claim, struct pop_call *call)
{
    call->state = POP_CLAIMING;
    call->looked = true;
    if (call->set != NULL)
        call->set->again = false; /* this look sees every wake-up so far */
    claim->calls[claim->count++] = call;
}

/* One call that SQL refuses must not fail its neighbours. */
static void pop_claim_retry_alone(struct pop_claim *claim)
{
    for (size_t i = 0; i < claim->count; i++) {
        struct pop_claim *alone = pop_claim_new(claim->w, false);
        pop_claim_add(alone, claim->calls[i]);
        WORKER_COUNT(claim->w, pop_claims, 1);
        pg_lane_submit(claim->w->pop_lane, &alone->job);
    }
}

/* A call that looked before and waited for a connection until its caller's deadline is near: it
 * goes back to its set, which lets another look. */
static bool pop_claim_too_late(struct pop_call *call)
{
    if (!call->wait || !call->looked || loop_now_ms(call->w->loop) < call->claim_until_ms)
        return false;
    pop_park_call(call, true);
    pop_park_unprobed(call->set);
    return true;
}

static void pop_claim_fire(struct loop_task *task)
{
    struct pop_engine *engine = TABLE_OWNER(task, struct pop_engine, claim_task);
    struct pop_call *call;
    while (!TAILQ_EMPTY(&engine->queued) && fuse_may_fire(&engine->fuse)) {
        bool discovery = TAILQ_FIRST(&engine->queued)->discovery;
        struct pop_claim *claim = pop_claim_new(engine->w, discovery);
        while ((call = TAILQ_FIRST(&engine->queued)) != NULL && call->discovery == discovery &&
               claim->count < (discovery ? 1 : CLAIM_MAX)) {
            TAILQ_REMOVE(&engine->queued, call, link);
            if (!pop_claim_too_late(call))
                pop_claim_add(claim, call);
        }
        WORKER_COUNT(engine->w, pop_claims, claim->count);
        if (claim->count > 0)
            pg_lane_submit(engine->w->pop_lane, &claim->job);
        else
            pop_claim_free(claim);
    }
}

void pop_call_claim(struct pop_call *call)
{
    struct pop_engine *engine = call->w->pop;
    call->state = POP_QUEUED;
    TAILQ_INSERT_TAIL(&engine->queued, call, link);
    if (call->set != NULL)
        call->set->probing++;
    loop_task_queue(engine->w->loop, &engine->claim_task);
}

void pop_call_unclaim(struct pop_call *call)
{
    TAILQ_REMOVE(&call->w->pop->queued, call, link);
    call->state = POP_IDLE;
    if (call->set != NULL)
        pop_park_unprobed(call->set);
}

void pop_lane_idle(void *owner)
{
    struct worker *w = owner;
    if (!TAILQ_EMPTY(&w->pop->queued))
        loop_task_queue(w->loop, &w->pop->claim_task);
}

void pop_engine_start(struct worker *w)
{
    struct pop_engine *engine = mem_zalloc(sizeof *engine);
    engine->w = w;
    TAILQ_INIT(&engine->queued);
    engine->claim_task.run = pop_claim_fire;
    fuse_init(&engine->fuse, w, &w->pop_lane, &engine->claim_task);
    pop_sets_init(engine);
    w->pop = engine;
}

void pop_engine_stop(struct worker *w)
{
    loop_task_cancel(w->loop, &w->pop->claim_task);
    fuse_stop(&w->pop->fuse);
    table_free(&w->pop->sets);
    table_free(&w->pop->gates);
    free(w->pop);
    w->pop = NULL;
}
