/* Draining the push spool: batch by batch, each one transaction, with the original transaction and
 * message ids. Duplicates are stripped and the rest is sent again, so that nothing new is lost
 * beside what is known already. */
#include "keeper/spool.h"

#include "base/logger.h"
#include "keeper/spool_batch.h"
#include "keeper/spool_files.h"
#include "pg/result.h"
#include "pg/retry.h"
#include "shm/maintenance.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    LOOK_MS = 200, /* for new records, while there are none */
    FAILED_PAUSE_MS = 500,
    BATCH_RECORDS = 1000,
    BATCH_BYTES = 8 * 1024 * 1024, /* one larger record makes a batch of its own */
    BATCH_SEGMENTS = 256,
    WAKES_MAX = PIPE_BUF / sizeof(struct wake_record),
};

struct spool {
    struct keeper *keeper;
    struct hints *hints;
    const struct maintenance *maintenance;
    struct pg_lane *lane; /* its own: a long drain must hold up nothing else */
    struct segment_packer *packer;
    struct loop_timer timer;
    struct spool_files files;
    struct spool_batch batch;
    struct pg_job store;
    struct batch_segment **sent; /* segments of the statement that runs */
    size_t sent_count;
    bool retry;   /* an earlier try of this batch may have committed */
    bool alone;   /* one segment a transaction: some segment is refused */
    bool failing; /* logged already */
    struct spool_writer failed;
};

static const struct pg_statement store_statement = {
    .name = "spool_store",
    .sql = "select ordinal, status, dup_index"
           " from queen.log_push_multi_v1($1, $2, $3, $4, $5, $6, $7, $8)",
    .param_count = 8,
    .types = {PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY, PG_BYTEA_ARRAY, PG_INT8_ARRAY,
              PG_BYTEA_ARRAY, PG_UUID, PG_BOOL}};
enum { STORE_ORDINAL, STORE_STATUS, STORE_DUP_INDEX };
enum { VERDICT_DUPLICATE = 2 };

static void spool_look_again(struct spool *spool, uint64_t after_ms)
{
    struct loop *loop = spool->keeper->loop;
    loop_timer_set(loop, &spool->timer, loop_now_ms(loop) + after_ms);
}

static void spool_failing(struct spool *spool, const char *why)
{
    if (!spool->failing)
        logger_warn("spool", "cannot drain, still trying: %s", why);
    spool->failing = true;
    spool_look_again(spool, FAILED_PAUSE_MS);
}

/* Takes the oldest records into a batch: exactly those of the journal when it names one. */
static void batch_gather(struct spool *spool)
{
    struct spool_batch *b = &spool->batch;
    struct spool_file *f;
    while ((f = spool_files_peek(&spool->files)) != NULL) {
        if (!spool->files.redo && b->records > 0 &&
            (b->records >= BATCH_RECORDS || b->count >= BATCH_SEGMENTS ||
             b->bytes + f->head.payload.n > BATCH_BYTES))
            return;
        if (!spool_batch_add(b, &f->head))
            return;
        spool_files_take(f);
    }
}

static void batch_wake(struct spool *spool)
{
    struct wake_record records[WAKES_MAX];
    size_t count = 0;
    for (size_t i = 0; i < spool->batch.count; i++) {
        const struct batch_segment *s = spool->batch.segments[i];
        records[count++] =
            (struct wake_record){.queue = table_hash(s->queue, (struct slice){0}),
                                 .partition = table_hash(s->partition, (struct slice){0})};
        if (count == WAKES_MAX) {
            hints_wake(spool->hints, records, count);
            count = 0;
        }
    }
    if (count > 0)
        hints_wake(spool->hints, records, count);
}

/* Sends what is not settled yet; when all is, the batch is over. */
static void batch_send(struct spool *spool)
{
    struct spool_batch *b = &spool->batch;
    spool->sent_count = 0;
    for (size_t i = 0; i < b->count && !(spool->alone && spool->sent_count == 1); i++)
        if (!b->segments[i]->settled)
            spool->sent[spool->sent_count++] = b->segments[i];
    if (spool->sent_count > 0) {
        pg_lane_submit(spool->lane, &spool->store);
        return;
    }
    batch_wake(spool);
    slot_count(&spool->keeper->slot.counters->spool_drained, b->records);
    spool_files_commit(&spool->files);
    spool_batch_clear(b);
    spool->retry = spool->alone = false;
    if (spool->failing)
        logger_info("spool", "draining again");
    spool->failing = false;
    spool_look_again(spool, 0);
}

static void store_build(struct pg_job *job, struct pg_params *params)
{
    struct spool *spool = TABLE_OWNER(job, struct spool, store);
    spool_batch_build(spool->sent, spool->sent_count, spool->packer, params);
    pg_param_uuid(params, &spool->files.batch_id);
    pg_param_bool(params, spool->retry);
}

/* The index counts the items that were sent. */
static void segment_strip(struct batch_segment *s, const PGresult *r, int row)
{
    size_t dups = pg_array_length(r, row, STORE_DUP_INDEX), sent = 0, d = 0;
    for (size_t i = 0; i < s->count && d < dups; i++) {
        if (s->items[i].stored)
            continue;
        if (sent++ == (size_t)pg_array_int(r, row, STORE_DUP_INDEX, d)) {
            s->items[i].stored = true;
            d++;
        }
    }
    if (dups == 0 || d < dups)
        die("log_push_multi_v1 names duplicates that were not sent");
    s->settled = spool_segment_left(s) == 0;
}

static void store_committed(struct spool *spool, const PGresult *r)
{
    for (int row = 0; row < PQntuples(r); row++) {
        size_t i = (size_t)pg_get_int4(r, row, STORE_ORDINAL) - 1;
        if (i >= spool->sent_count)
            die("log_push_multi_v1 answered ordinal %zu of %zu", i + 1, spool->sent_count);
        if (pg_get_int4(r, row, STORE_STATUS) == VERDICT_DUPLICATE)
            segment_strip(spool->sent[i], r, row);
        else
            spool->sent[i]->settled = true;
    }
    batch_send(spool);
}

/* PostgreSQL will never take this segment: it must not hold up the others. */
static void segment_put_aside(struct spool *spool, struct batch_segment *s, const char *why)
{
    struct buf records = {0};
    struct err err;
    spool_segment_records(s, &records);
    bool ok = spool_writer_append(&spool->failed, &records, &err);
    spool_writer_close(&spool->failed);
    buf_free(&records);
    if (!ok) {
        spool_failing(spool, err.text);
        return;
    }
    logger_error("spool", "%zu messages of queue \"%.*s\" were refused and put aside in %s: %s",
                 spool_segment_left(s), SLICE_ARGS(s->queue), spool->failed.dir, why);
    s->settled = true;
    batch_send(spool);
}

static void store_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct spool *spool = TABLE_OWNER(job, struct spool, store);
    if (outcome->status == PG_DONE) {
        store_committed(spool, outcome->result);
        return;
    }
    if (spool->keeper->stopping)
        return;
    spool->retry |= outcome->status == PG_UNKNOWN;
    if (outcome->status != PG_REFUSED || pg_outcome_may_pass(outcome)) {
        spool_failing(spool, outcome->text);
    } else if (spool->sent_count > 1) {
        spool->alone = true;
        batch_send(spool);
    } else {
        segment_put_aside(spool, spool->sent[0], outcome->text);
    }
}

static void spool_show(struct spool *spool)
{
    struct slot_counters *c = spool->keeper->slot.counters;
    struct spool_counts counts;
    spool_files_count(&spool->files, &counts);
    atomic_store(&c->spool_pending, counts.pending);
    atomic_store(&c->spool_pending_bytes, counts.pending_bytes);
    atomic_store(&c->spool_failed_files, counts.failed_files);
    atomic_store(&c->spool_failed_bytes, counts.failed_bytes);
}

/* Begins the next batch, if there is anything to send. */
static void spool_next_batch(struct spool *spool)
{
    struct err err;
    spool->retry = spool->files.redo;
    batch_gather(spool);
    if (spool->batch.count == 0) {
        if (spool->files.redo)
            spool_files_commit(&spool->files);
        if (!spool_files_save(&spool->files, &err))
            spool_failing(spool, err.text);
        return;
    }
    spool->sent = mem_realloc(spool->sent, spool->batch.count * sizeof(struct batch_segment *));
    /* A full disk must not keep the spool from being emptied: without the journal, a crash now
     * leaves it to the dedup windows to tell what is stored. */
    if (!spool_files_plan(&spool->files, &err))
        logger_warn("spool", "draining without a journal: %s", err.text);
    batch_send(spool);
}

static void spool_tick(struct loop_timer *timer)
{
    struct spool *spool = TABLE_OWNER(timer, struct spool, timer);
    spool_look_again(spool, LOOK_MS);
    if (!spool_files_lock(&spool->files))
        return;
    spool_files_scan(&spool->files);
    spool_show(spool);
    if (spool->store.state != PG_JOB_IDLE || !maintenance_known(spool->maintenance) ||
        maintenance_is_on(spool->keeper->shm, MAINTENANCE_PUSH))
        return;
    if (spool->batch.count > 0)
        batch_send(spool); /* the one that failed */
    else
        spool_next_batch(spool);
}

struct spool *spool_new(struct keeper *keeper, struct hints *hints,
                        const struct maintenance *maintenance, struct err *err)
{
    char dir[PATH_MAX], failed[PATH_MAX + 16];
    struct spool *spool = mem_zalloc(sizeof *spool);
    spool_path(&keeper->settings, dir, sizeof dir);
    (void)snprintf(failed, sizeof failed, "%s/failed", dir);
    if (!spool_files_open(&spool->files, dir, err) ||
        !spool_writer_open(&spool->failed, failed, err)) {
        free(spool);
        return NULL;
    }
    spool->keeper = keeper;
    spool->hints = hints;
    spool->maintenance = maintenance;
    spool->packer = segment_packer_new((int)keeper->settings.zstd_level);
    spool->store =
        (struct pg_job){.statement = &store_statement, .build = store_build, .done = store_done};
    struct pg_lane_config lane = {.name = "spool",
                                  .conninfo = keeper->settings.database_url,
                                  .connections = 1,
                                  .statement_timeout_ms =
                                      (uint64_t)keeper->settings.statement_timeout_ms};
    spool->lane = pg_lane_new(keeper->loop, &lane);
    spool->timer.fire = spool_tick;
    spool_look_again(spool, 0);
    return spool;
}

void spool_free(struct spool *spool)
{
    pg_lane_free(spool->lane);
    loop_timer_cancel(spool->keeper->loop, &spool->timer);
    spool_batch_clear(&spool->batch);
    spool_files_close(&spool->files);
    segment_packer_free(spool->packer);
    free(spool->sent);
    free(spool);
}
