/* One push transaction: parameters, verdicts, duplicates, retries. */
#include "worker/push_fusion.h"

#include "base/logger.h"
#include "pg/result.h"
#include "pg/retry.h"
#include "worker/push_bind.h"
#include "worker/push_spool.h"
#include "worker/wake.h"

#include <stdlib.h>

static const struct pg_statement push_statement = {
    .name = "push",
    .sql = "select ordinal, status, base_offset, dup_index, dup_offset, partition_id"
           " from queen.log_push_multi_v1($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)",
    .param_count = 10,
    .types = {PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY, PG_BYTEA_ARRAY, PG_INT8_ARRAY,
              PG_BYTEA_ARRAY, PG_UUID, PG_BOOL, PG_INT8_ARRAY, PG_UUID_ARRAY}};
enum { PUSH_ORDINAL, PUSH_STATUS, PUSH_BASE, PUSH_DUP_INDEX, PUSH_DUP_OFFSET, PUSH_PARTITION_ID };
enum { VERDICT_QUEUED = 1, VERDICT_DUPLICATE = 2 };

static const struct pg_statement originals_statement = {
    .name = "originals",
    .sql = "select ordinal, base_offset, blob from queen.log_segments_at_v1($1, $2)",
    .param_count = 2,
    .types = {PG_UUID_ARRAY, PG_INT8_ARRAY}};

static void push_flush_build(struct pg_job *job, struct pg_params *params);
static void push_flush_done(struct pg_job *job, const struct pg_outcome *outcome);
static void push_flush_free(struct push_flush *flush);

/* To the spool, which the keeper replays under the same transaction ids. Only what is certainly not
 * stored: with the dedup window off a replay of a stored message would be delivered twice. */
static void push_flush_spool(struct push_flush *flush)
{
    for (size_t i = 0; i < flush->count; i++) {
        push_spool_segment(flush->w, flush->segments[i], PUSH_FAILED);
        push_segment_settled(flush->w, flush->segments[i]);
    }
    push_flush_free(flush);
}

static void push_flush_retry(struct loop_timer *timer)
{
    struct push_flush *flush = TABLE_OWNER(timer, struct push_flush, retry_timer);
    struct worker *w = flush->w;
    /* A refusal stored nothing; while the database is away there is nobody to ask again. */
    if (!flush->retry && !pg_lane_connected(w->push_lane)) {
        if (push_outage(w, flush->segments[0]->since_ms))
            push_flush_spool(flush);
        else
            loop_timer_set(w->loop, timer, loop_now_ms(w->loop) + PG_RETRY_MS);
        return;
    }
    pg_lane_submit(flush->w->push_lane, &flush->job);
}

struct push_flush *push_flush_new(struct worker *w)
{
    struct push_flush *flush = mem_zalloc(sizeof *flush);
    flush->w = w;
    flush->request_id = uuid_v7();
    flush->job.statement = &push_statement;
    flush->job.build = push_flush_build;
    flush->job.done = push_flush_done;
    flush->retry_timer.fire = push_flush_retry;
    fuse_fired(push_fuse(w));
    return flush;
}

static void push_flush_free(struct push_flush *flush)
{
    fuse_ended(push_fuse(flush->w));
    free(flush);
}

void push_flush_submit(struct push_flush *flush)
{
    for (size_t i = 0; i < flush->count; i++)
        if (flush->segments[i]->deadline_ms > flush->deadline_ms)
            flush->deadline_ms = flush->segments[i]->deadline_ms;
    flush->job.deadline_ms = flush->deadline_ms;
    pg_lane_submit(flush->w->push_lane, &flush->job);
}

static struct push_group push_segment_group(const struct push_segment *s)
{
    return (struct push_group){.queue = s->partition->queue,
                               .partition = s->partition->partition,
                               .items = s->items,
                               .count = s->count,
                               .bytes = s->bytes};
}

static void push_flush_build(struct pg_job *job, struct pg_params *params)
{
    struct push_flush *flush = TABLE_OWNER(job, struct push_flush, job);
    struct push_group groups[FLUSH_MAX_SEGMENTS];
    struct dedup_vouch vouches[FLUSH_MAX_SEGMENTS];
    for (size_t i = 0; i < flush->count; i++)
        groups[i] = push_segment_group(flush->segments[i]);
    push_bind(flush->w, groups, flush->count, params, vouches);
    pg_param_uuid(params, &flush->request_id);
    pg_param_bool(params, flush->retry);
    push_bind_vouches(vouches, flush->count, params);
}

/* The duplicates of one segment: their original message ids are read from the log. */
struct push_originals {
    struct pg_job job;
    struct worker *w;
    struct uuid partition_id;
    size_t count;
    struct {
        struct push_item *item;
        int64_t offset;
    } entries[];
};

static void push_originals_build(struct pg_job *job, struct pg_params *params)
{
    struct push_originals *o = TABLE_OWNER(job, struct push_originals, job);
    pg_array_begin(params, PG_UUID);
    for (size_t i = 0; i < o->count; i++)
        pg_array_uuid(params, &o->partition_id);
    pg_array_end(params);
    pg_array_begin(params, PG_INT8);
    for (size_t i = 0; i < o->count; i++)
        pg_array_int8(params, o->entries[i].offset);
    pg_array_end(params);
}

static void push_originals_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct push_originals *o = TABLE_OWNER(job, struct push_originals, job);
    /* Contract 1, section 1.2: all zero when the original's segment is gone or unreadable. */
    for (size_t i = 0; i < o->count; i++)
        o->entries[i].item->message_id = (struct uuid){{0}};
    if (outcome->status == PG_DONE) {
        for (int row = 0; row < PQntuples(outcome->result); row++) {
            size_t i = (size_t)pg_get_int4(outcome->result, row, 0) - 1;
            struct frame frame;
            struct err err;
            if (i >= o->count)
                continue;
            int64_t index = o->entries[i].offset - pg_get_int8(outcome->result, row, 1);
            if (segment_read_frame(o->w->unpacker, pg_get_bytes(outcome->result, row, 2), index,
                                   &o->w->frames, &frame, &err))
                o->entries[i].item->message_id = frame.message_id;
            else
                logger_error("push", "original of a duplicate: %s", err.text);
        }
    } else {
        logger_warn("push", "cannot read the originals of %zu duplicates: %s", o->count,
                    outcome->text);
    }
    for (size_t i = 0; i < o->count; i++)
        push_item_settle(o->entries[i].item, PUSH_DUPLICATE);
    free(o);
}

/* Splits a segment with duplicates: those are looked up, the rest is pushed again. */
static void push_segment_duplicates(struct worker *w, struct push_segment *s, const PGresult *r,
                                    int row)
{
    size_t dups = pg_array_length(r, row, PUSH_DUP_INDEX);
    struct push_originals *o = mem_zalloc(sizeof *o + dups * sizeof o->entries[0]);
    o->w = w;
    o->partition_id = pg_get_uuid(r, row, PUSH_PARTITION_ID);
    o->job.statement = &originals_statement;
    o->job.build = push_originals_build;
    o->job.done = push_originals_done;
    for (size_t i = 0; i < dups; i++) {
        size_t index = (size_t)pg_array_int(r, row, PUSH_DUP_INDEX, i);
        if (index >= s->count || s->items[index] == NULL)
            continue;
        o->entries[o->count].item = s->items[index];
        o->entries[o->count++].offset = pg_array_int(r, row, PUSH_DUP_OFFSET, i);
        s->items[index] = NULL;
    }
    if (o->count == 0) {
        free(o);
        push_segment_fail(s, PUSH_FAILED, "the duplicate verdict names no item");
        push_segment_settled(w, s);
        return;
    }
    size_t left = 0;
    for (size_t i = 0; i < s->count; i++)
        if (s->items[i] != NULL)
            s->items[left++] = s->items[i];
    s->count = left;
    if (left > 0)
        push_segment_again(w, s);
    else
        push_segment_settled(w, s);
    pg_lane_submit(w->admin_lane, &o->job);
}

static void push_flush_verdicts(struct push_flush *flush, const PGresult *r)
{
    struct worker *w = flush->w;
    WORKER_COUNT(w, push_commits, 1);
    for (int row = 0; row < PQntuples(r); row++) {
        size_t i = (size_t)pg_get_int4(r, row, PUSH_ORDINAL) - 1;
        struct push_segment *s = i < flush->count ? flush->segments[i] : NULL;
        if (s == NULL)
            die("log_push_multi_v1 answered ordinal %zu of %zu", i + 1, flush->count);
        flush->segments[i] = NULL;
        if (pg_get_int4(r, row, PUSH_STATUS) == VERDICT_DUPLICATE) {
            push_segment_duplicates(w, s, r, row);
            continue;
        }
        WORKER_COUNT(w, push_segments, 1);
        struct push_group group = push_segment_group(s);
        struct uuid partition_id = pg_get_uuid(r, row, PUSH_PARTITION_ID);
        push_note(w, &group, &partition_id, pg_get_int8(r, row, PUSH_BASE));
        wake_send(w, table_hash(s->partition->queue, (struct slice){0}),
                  table_hash(s->partition->partition, (struct slice){0}), 0);
        for (size_t k = 0; k < s->count; k++)
            push_item_settle(s->items[k], PUSH_QUEUED);
        push_segment_settled(w, s);
    }
    for (size_t i = 0; i < flush->count; i++)
        if (flush->segments[i] != NULL)
            die("log_push_multi_v1 gave no verdict for ordinal %zu", i + 1);
    push_flush_free(flush);
}

/* One bad segment must not fail its neighbours: each is tried in a transaction of its own. */
static void push_flush_split(struct push_flush *flush)
{
    for (size_t i = 0; i < flush->count; i++) {
        struct push_flush *one = push_flush_new(flush->w);
        one->request_id = flush->request_id;
        one->retry = flush->retry;
        one->segments[one->count++] = flush->segments[i];
        push_flush_submit(one);
    }
    push_flush_free(flush);
}

static void push_flush_give_up(struct push_flush *flush, const char *why)
{
    for (size_t i = 0; i < flush->count; i++) {
        push_segment_fail(flush->segments[i], flush->retry ? PUSH_UNKNOWN : PUSH_FAILED, why);
        push_segment_settled(flush->w, flush->segments[i]);
    }
    push_flush_free(flush);
}

static void push_flush_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct push_flush *flush = TABLE_OWNER(job, struct push_flush, job);
    uint64_t now = loop_now_ms(flush->w->loop);
    if (outcome->status == PG_DONE) {
        push_flush_verdicts(flush, outcome->result);
        return;
    }
    if (outcome->status == PG_UNKNOWN)
        flush->retry = true;
    bool may_pass = pg_outcome_may_pass(outcome);
    if (may_pass && now + PG_RETRY_MS < flush->deadline_ms) {
        loop_timer_set(flush->w->loop, &flush->retry_timer, now + PG_RETRY_MS);
        return;
    }
    if (outcome->status == PG_REFUSED && !may_pass && flush->count > 1) {
        push_flush_split(flush);
        return;
    }
    logger_warn("push", "flush of %zu segments failed: %s", flush->count, outcome->text);
    if (!flush->retry && (outcome->status != PG_REFUSED || may_pass)) {
        push_flush_spool(flush);
        return;
    }
    push_flush_give_up(flush, outcome->text);
}
