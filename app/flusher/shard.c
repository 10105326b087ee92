/* Flushing a shard: one set-based statement for a batch, its retries, its verdicts. */
#include "flusher/shard.h"

#include "base/logger.h"
#include "pg/result.h"
#include "pg/retry.h"

/* ordinal counts from 1 in input order, whatever the order of execution. */
static const struct pg_statement ack_multi = {
    .name = "ack_multi",
    .sql = "select ordinal::int4, ok, error::text"
           " from queen.log_ack_multi_v1($1::uuid[], $2::text[], $3::int8[], $4::text[],"
           " $5::int4[])",
    .param_count = 5,
    .types = {PG_UUID_ARRAY, PG_TEXT_ARRAY, PG_INT8_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY}};

static struct fold_batch *shard_first(struct shard *s)
{
    return TAILQ_FIRST(&s->batches);
}

void shard_add(struct shard *s, const struct ack_record *record, struct slice group)
{
    struct fold_batch *b = TAILQ_LAST(&s->batches, fold_batch_list);
    bool sealed = b == shard_first(s) && s->sealed;
    s->shared->pending++;
    if (b != NULL && !sealed && fold_add(b, record, group))
        return;
    b = fold_batch_new();
    TAILQ_INSERT_TAIL(&s->batches, b, link);
    if (!fold_add(b, record, group))
        die("an empty batch took no record");
}

/* The rows of the statement that is being built: [*from, *end). */
static void shard_range(struct shard *s, size_t *from, size_t *end)
{
    *from = s->one_by_one ? s->row : 0;
    *end = s->one_by_one ? s->row + 1 : shard_first(s)->count;
}

static void shard_build(struct pg_job *job, struct pg_params *params)
{
    struct shard *s = TABLE_OWNER(job, struct shard, job);
    const struct fold_batch *b = shard_first(s);
    size_t from, end;
    /* Until now records could still join; from here on a repeat must be of the same rows. */
    s->sealed = true;
    shard_range(s, &from, &end);
    pg_array_begin(params, PG_UUID);
    for (size_t i = from; i < end; i++)
        pg_array_uuid(params, &b->rows[i]->partition_id);
    pg_array_end(params);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = from; i < end; i++)
        pg_array_bytes(params, b->rows[i]->group);
    pg_array_end(params);
    pg_array_begin(params, PG_INT8);
    for (size_t i = from; i < end; i++)
        pg_array_int8(params, b->rows[i]->batch_end);
    pg_array_end(params);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = from; i < end; i++) {
        char lease[UUID_TEXT_SIZE];
        uuid_format(&b->rows[i]->lease_id, lease);
        pg_array_bytes(params, (struct slice){lease, UUID_TEXT_SIZE});
    }
    pg_array_end(params);
    pg_array_begin(params, PG_INT4);
    for (size_t i = from; i < end; i++)
        pg_array_int4(params, b->rows[i]->message_count);
    pg_array_end(params);
}

static void shard_answer(const struct fold_waiter *w, enum ack_verdict verdict, void *owner)
{
    struct shard *s = owner;
    s->shared->pending--;
    verdict_send(s->shared->verdicts, w->worker_slot, w->worker_generation, w->ticket, verdict);
}

static void shard_submit(struct shard *s)
{
    s->job.deadline_ms = s->deadline_ms;
    pg_lane_submit(s->shared->lane, &s->job);
}

static void shard_again(struct loop_timer *timer)
{
    shard_submit(TABLE_OWNER(timer, struct shard, again));
}

/* The first batch is answered whole. */
static void shard_finish(struct shard *s)
{
    struct fold_batch *b = shard_first(s);
    TAILQ_REMOVE(&s->batches, b, link);
    fold_batch_free(b);
    s->busy = s->sealed = s->unsettled = s->one_by_one = s->complained = false;
    if (!s->shared->closing)
        s->shared->idle(s->shared->owner);
}

/* In one-by-one mode: on to the next row without an answer. Otherwise, or with none left: done. */
static void shard_next(struct shard *s)
{
    if (s->one_by_one) {
        s->row = fold_unanswered(shard_first(s), s->row);
        if (s->row < shard_first(s)->count) {
            shard_submit(s);
            return;
        }
    }
    shard_finish(s);
}

static void shard_answer_range(struct shard *s, enum ack_verdict verdict)
{
    size_t from, end;
    shard_range(s, &from, &end);
    for (size_t i = from; i < end; i++)
        (void)fold_answer_row(shard_first(s), i, verdict, shard_answer, s);
}

static void shard_committed(struct shard *s, const PGresult *r)
{
    struct shard_shared *shared = s->shared;
    struct fold_batch *b = shard_first(s);
    size_t from, end;
    shard_range(s, &from, &end);
    uint64_t advanced = 0;
    for (int i = 0; i < PQntuples(r); i++) {
        int32_t ordinal = pg_get_int4(r, i, 0);
        bool ok = !pg_is_null(r, i, 1) && pg_get_bool(r, i, 1);
        if (ordinal < 1 || (size_t)ordinal > end - from)
            continue;
        advanced += ok;
        if (!ok && !pg_is_null(r, i, 2))
            logger_debug("ack-fusion", "row refused: %.*s", SLICE_ARGS(pg_get_bytes(r, i, 2)));
        (void)fold_answer_row(b, from + (size_t)ordinal - 1, ok ? ACK_COMMITTED : ACK_REJECTED,
                              shard_answer, s);
    }
    /* A row that the statement says nothing about: its worker asks for itself. */
    shard_answer_range(s, ACK_UNKNOWN);
    shared->commits++;
    shared->rows += advanced;
    slot_count(&shared->counters->flusher_commits, 1);
    slot_count(&shared->counters->flusher_rows, advanced);
    shard_next(s);
}

/* Once a batch: tries are 50 ms apart, and an outage is not to fill the log. */
static void shard_complain(struct shard *s, const struct pg_outcome *outcome)
{
    if (!s->complained)
        logger_warn("ack-fusion", "flush of %zu rows: %s%s%s", shard_first(s)->count,
                    outcome->sqlstate, *outcome->sqlstate ? " " : "", outcome->text);
    s->complained = true;
}

static bool shard_try_again(struct shard *s, const struct pg_outcome *outcome)
{
    uint64_t at = loop_now_ms(s->shared->loop) + PG_RETRY_MS;
    if (s->shared->closing || !pg_outcome_may_pass(outcome) || at >= s->deadline_ms)
        return false;
    loop_timer_set(s->shared->loop, &s->again, at);
    return true;
}

static void shard_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct shard *s = TABLE_OWNER(job, struct shard, job);
    if (outcome->status == PG_DONE) {
        shard_committed(s, outcome->result);
        return;
    }
    s->unsettled |= outcome->status == PG_UNKNOWN;
    slot_count(&s->shared->counters->flusher_errors, 1);
    shard_complain(s, outcome);
    if (shard_try_again(s, outcome))
        return;
    if (outcome->status == PG_REFUSED && !s->one_by_one && shard_first(s)->count > 1 &&
        !s->shared->closing && loop_now_ms(s->shared->loop) < s->deadline_ms) {
        /* One bad row must not fail its neighbours. */
        s->one_by_one = true;
        s->row = 0;
        shard_submit(s);
        return;
    }
    /* "Nothing happened" is only said when no try of these rows can have committed. */
    enum ack_verdict verdict = s->unsettled ? ACK_UNKNOWN : ACK_FLUSH_ERROR;
    if (outcome->status == PG_REFUSED)
        shard_answer_range(s, verdict);
    else
        (void)fold_answer_rest(shard_first(s), verdict, shard_answer, s);
    shard_next(s);
}

void shard_init(struct shard *s, struct shard_shared *shared)
{
    *s = (struct shard){.shared = shared,
                        .job = {.statement = &ack_multi, .build = shard_build, .done = shard_done},
                        .again = {.fire = shard_again}};
    TAILQ_INIT(&s->batches);
}

void shard_flush(struct shard *s)
{
    if (s->busy || shard_first(s) == NULL)
        return;
    s->busy = true;
    s->deadline_ms = loop_now_ms(s->shared->loop) + s->shared->patience_ms;
    shard_submit(s);
}

void shard_close(struct shard *s)
{
    loop_timer_cancel(s->shared->loop, &s->again);
    while (shard_first(s) != NULL) {
        (void)fold_answer_rest(shard_first(s), s->unsettled ? ACK_UNKNOWN : ACK_FLUSH_ERROR,
                               shard_answer, s);
        shard_finish(s);
    }
}
