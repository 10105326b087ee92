/* The fast path: a recognised whole batch becomes one positional advance, through the flusher or by
 * this worker itself. PostgreSQL revalidates the lease either way, so a stale entry of the registry
 * is refused there and the group takes the hash path. */
#include "worker/ack.h"

#include "base/logger.h"
#include "pg/result.h"
#include "pg/retry.h"
#include "shm/registry.h"

static bool ack_recognise(struct ack_group *g)
{
    struct worker *w = g->request->w;
    if (!g->all_completed || !g->lease_is_uuid || !w->settings.ack_registry)
        return false;
    struct txn_hash *hashes = arena_alloc(request_arena(g->request->r), g->count * sizeof *hashes);
    for (size_t i = 0; i < g->count; i++)
        hashes[i] = g->items[i]->hash;
    size_t distinct;
    struct txn_hash fingerprint = txn_hash_fingerprint(hashes, g->count, &distinct);
    struct registry_batch batch;
    if (!registry_take(w->shm, &g->partition_id, g->request->consumer_group, &g->lease_id,
                       &fingerprint, &batch))
        return false;
    g->batch_end = batch.batch_end;
    g->message_count = batch.message_count;
    g->conflated = batch.conflated;
    g->queue = batch.queue;
    return true;
}

void ack_group_start(struct ack_group *g)
{
    struct worker *w = g->request->w;
    if (ack_recognise(g)) {
        WORKER_COUNT(w, ack_registry_hits, 1);
        if (!w->settings.ack_fusion || !ack_pipe_send(g))
            ack_positional_start(g);
        return;
    }
    WORKER_COUNT(w, ack_registry_misses, 1);
    ack_hash_start(g);
}

static const struct pg_statement positional_statement = {
    .name = "ack_at",
    .sql = "select coalesce((r->>'ok')::boolean, false)"
           " from queen.log_ack_at_v1($1, $2, $3, $4, true, $5) as r",
    .param_count = 5,
    .types = {PG_UUID, PG_TEXT, PG_TEXT, PG_INT8, PG_INT4}};

static void ack_positional_build(struct pg_job *job, struct pg_params *params)
{
    const struct ack_group *g = TABLE_OWNER(job, struct ack_group, job);
    char lease[UUID_TEXT_SIZE];
    uuid_format(&g->lease_id, lease);
    pg_param_uuid(params, &g->partition_id);
    pg_param_text(params, g->request->consumer_group);
    pg_param_text(params, (struct slice){lease, UUID_TEXT_SIZE});
    pg_param_int8(params, g->batch_end);
    pg_param_int4(params, (int32_t)g->message_count);
}

static void ack_positional_again(struct loop_timer *timer)
{
    ack_positional_start(TABLE_OWNER(timer, struct ack_group, timer));
}

static void ack_positional_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct ack_group *g = TABLE_OWNER(job, struct ack_group, job);
    if (outcome->status != PG_DONE) {
        ack_group_retry(g, outcome, ack_positional_again, ACK_FLUSH_FAILED);
        return;
    }
    if (PQntuples(outcome->result) == 1 && pg_get_bool(outcome->result, 0, 0)) {
        WORKER_COUNT(g->request->w, ack_positional, 1);
        ack_group_committed(g);
        return;
    }
    WORKER_COUNT(g->request->w, ack_rejected, 1);
    ack_hash_start(g);
}

void ack_positional_start(struct ack_group *g)
{
    g->job = (struct pg_job){.statement = &positional_statement,
                             .build = ack_positional_build,
                             .done = ack_positional_done,
                             .deadline_ms = g->request->deadline_ms};
    pg_lane_submit(g->request->w->ack_lane, &g->job);
}

void ack_group_retry(struct ack_group *g, const struct pg_outcome *outcome,
                     void (*again)(struct loop_timer *timer), struct slice refused)
{
    struct worker *w = g->request->w;
    uint64_t now = loop_now_ms(w->loop);
    if (pg_outcome_may_pass(outcome) && now + PG_RETRY_MS < g->request->deadline_ms) {
        g->unsettled |= outcome->status == PG_UNKNOWN;
        g->timer.fire = again;
        loop_timer_set(w->loop, &g->timer, now + PG_RETRY_MS);
        return;
    }
    /* Contract 1, section 3: an outcome that is genuinely unknown is said to be so. */
    if (g->unsettled || outcome->status == PG_UNKNOWN) {
        g->request->unknown = true;
        ack_group_done(g);
        return;
    }
    if (outcome->status == PG_REFUSED)
        logger_error("ack", "%s failed: %s %s", g->job.statement->name, outcome->sqlstate,
                     outcome->text);
    ack_group_fail(g, outcome->status == PG_NOT_SENT ? ACK_DATABASE_AWAY : refused);
}
