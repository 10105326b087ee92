/* Filing a dead letter: SQL kept the lease and named the poison's offset; only the worker can open
 * the segment. Reads the frame, then log_dlq_head_v1 files it, moves the cursor past it and
 * releases the lease. A worker that dies in between leaves the lease: the ack is sent again. */
#include "worker/ack.h"

#include "base/logger.h"
#include "pg/result.h"

static const struct pg_statement read_statement = {
    .name = "poison",
    .sql = "select base_offset, blob"
           " from queen.log_segments_at_v1(array[$1], array[$2])",
    .param_count = 2,
    .types = {PG_UUID, PG_INT8}};

static const struct pg_statement file_statement = {
    .name = "dead_letter",
    .sql = "select coalesce((r->>'ok')::boolean, false), coalesce((r->>'filed')::boolean, false)"
           " from queen.log_dlq_head_v1($1, $2, $3, $4, $5, $6, $7, $8) as r",
    .param_count = 8,
    .types = {PG_UUID, PG_TEXT, PG_TEXT, PG_INT8, PG_UUID, PG_BYTEA, PG_BYTEA, PG_TEXT}};

/* The nack of the poison itself wins, then the first reason given (contract 1, section 3). */
struct slice ack_dead_letter_reason(struct ack_item *const *items, size_t count)
{
    struct slice reason = SLICE_LITERAL("Retries exhausted");
    bool have = false;
    for (size_t i = 0; i < count; i++) {
        const struct ack_item *item = items[i];
        if (item->status == ACK_COMPLETED || item->reason.n == 0)
            continue;
        if (item->dlq || !have)
            reason = item->reason;
        have = true;
        if (item->dlq)
            break;
    }
    const char *nul = memchr(reason.p, 0, reason.n);
    if (nul != NULL)
        reason.n = (size_t)(nul - reason.p); /* a text column cannot hold it */
    return reason;
}

static void dead_letter_file_build(struct pg_job *job, struct pg_params *params)
{
    const struct ack_group *g = TABLE_OWNER(job, struct ack_group, job);
    pg_param_uuid(params, &g->partition_id);
    pg_param_text(params, g->request->consumer_group);
    pg_param_text(params, g->lease_text);
    pg_param_int8(params, g->poison.offset);
    if (g->poison.readable) {
        pg_param_uuid(params, &g->poison.message_id);
        pg_param_bytea(params, g->poison.transaction_id);
        pg_param_bytea(params, g->poison.payload);
    } else {
        pg_param_null(params);
        pg_param_null(params);
        pg_param_null(params);
    }
    pg_param_text(params, ack_dead_letter_reason(g->items, g->count));
}

static void dead_letter_file_start(struct ack_group *g);

static void dead_letter_file_again(struct loop_timer *timer)
{
    dead_letter_file_start(TABLE_OWNER(timer, struct ack_group, timer));
}

static void dead_letter_file_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct ack_group *g = TABLE_OWNER(job, struct ack_group, job);
    if (outcome->status != PG_DONE) {
        ack_group_retry(g, outcome, dead_letter_file_again, SLICE_LITERAL("dlq rejected"));
        return;
    }
    /* Not ok, but filed: an earlier try whose answer was lost did it. */
    bool filed = g->unsettled && pg_get_bool(outcome->result, 0, 1);
    if (!pg_get_bool(outcome->result, 0, 0) && !filed) {
        ack_group_fail(g, SLICE_LITERAL("dlq rejected"));
        return;
    }
    WORKER_COUNT(g->request->w, ack_dead_letters, 1);
    ack_group_wake(g);
    ack_group_done(g);
}

static void dead_letter_file_start(struct ack_group *g)
{
    g->job = (struct pg_job){.statement = &file_statement,
                             .build = dead_letter_file_build,
                             .done = dead_letter_file_done,
                             .deadline_ms = g->request->deadline_ms};
    pg_lane_submit(g->request->w->ack_lane, &g->job);
}

static void dead_letter_read_frame(struct ack_group *g, const PGresult *r)
{
    struct worker *w = g->request->w;
    struct arena *arena = request_arena(g->request->r);
    struct err err;
    struct frame frame;
    if (PQntuples(r) == 0)
        return; /* retention took it: filed without payload, so that it does not redeliver for ever
                 */
    if (!segment_read_frame(w->unpacker, pg_get_bytes(r, 0, 1),
                            g->poison.offset - pg_get_int8(r, 0, 0), &w->frames, &frame, &err)) {
        logger_error("ack", "poison message cannot be read: %s", err.text);
        return;
    }
    g->poison.readable = true;
    g->poison.message_id = frame.message_id;
    g->poison.transaction_id = arena_copy(arena, frame.transaction_id);
    g->poison.payload = arena_copy(arena, frame.payload);
}

static void dead_letter_read_again(struct loop_timer *timer)
{
    ack_dead_letter_start(TABLE_OWNER(timer, struct ack_group, timer));
}

static void dead_letter_read_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct ack_group *g = TABLE_OWNER(job, struct ack_group, job);
    if (outcome->status != PG_DONE) {
        ack_group_retry(g, outcome, dead_letter_read_again, SLICE_LITERAL("dlq rejected"));
        return;
    }
    dead_letter_read_frame(g, outcome->result);
    g->unsettled = false; /* reading changes nothing; from here on only the filing counts */
    dead_letter_file_start(g);
}

static void dead_letter_read_build(struct pg_job *job, struct pg_params *params)
{
    const struct ack_group *g = TABLE_OWNER(job, struct ack_group, job);
    pg_param_uuid(params, &g->partition_id);
    pg_param_int8(params, g->poison.offset);
}

void ack_dead_letter_start(struct ack_group *g)
{
    g->job = (struct pg_job){.statement = &read_statement,
                             .build = dead_letter_read_build,
                             .done = dead_letter_read_done,
                             .deadline_ms = g->request->deadline_ms};
    pg_lane_submit(g->request->w->ack_lane, &g->job);
}
