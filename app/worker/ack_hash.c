/* The hash path: log_ack_by_hash_v1 decides, this file maps its answer back to the items (seed "Ack
 * internals", "The two honesty guarantees"). */
#include "worker/ack.h"

#include "base/logger.h"
#include "pg/result.h"
#include "pg/retry.h"
#include "shm/registry.h"
#include "wire/hex.h"
#include "wire/json.h"

#include <stdlib.h>

static const struct pg_statement hash_statement = {
    .name = "ack_by_hash",
    .sql = "select queen.log_ack_by_hash_v1($1, $2, $3, $4, $5),"
           " (select q.name from queen.log_partitions p join queen.queues q on q.id = p.queue_id"
           "   where p.id = $1)",
    .param_count = 5,
    .types = {PG_UUID, PG_TEXT, PG_TEXT, PG_BYTEA_ARRAY, PG_TEXT_ARRAY}};

static void ack_hash_build(struct pg_job *job, struct pg_params *params)
{
    static const char *const words[] = {[ACK_COMPLETED] = "completed",
                                        [ACK_FAILED] = "failed",
                                        [ACK_RETRY] = "retry",
                                        [ACK_DLQ] = "dlq"};
    const struct ack_group *g = TABLE_OWNER(job, struct ack_group, job);
    pg_param_uuid(params, &g->partition_id);
    pg_param_text(params, g->request->consumer_group);
    pg_param_text(params, g->lease_text);
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < g->count; i++)
        pg_array_bytes(params,
                       (struct slice){(const char *)g->items[i]->hash.bytes, TXN_HASH_SIZE});
    pg_array_end(params);
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < g->count; i++)
        pg_array_bytes(params, slice_of(words[g->items[i]->status]));
    pg_array_end(params);
}

/* A JSON array of 32-digit hex tokens as sorted hashes, to search in. */
struct ack_tokens {
    struct txn_hash *hashes;
    size_t count;
};

static struct ack_tokens ack_read_tokens(struct ack_group *g, struct json_value list)
{
    struct ack_tokens t = {0};
    struct json_value token;
    if (list.type != JSON_ARRAY)
        return t;
    t.hashes = arena_alloc(request_arena(g->request->r), list.raw.n / 2);
    struct json_iter it = json_iterate(list);
    while (json_next(&it, &token)) {
        if (token.raw.n == 2 * TXN_HASH_SIZE + 2 &&
            hex_decode((struct slice){token.raw.p + 1, 2 * TXN_HASH_SIZE}, t.hashes[t.count].bytes))
            t.count++;
    }
    qsort(t.hashes, t.count, sizeof *t.hashes, txn_hash_compare);
    return t;
}

static bool ack_tokens_have(const struct ack_tokens *t, const struct txn_hash *hash)
{
    return t->count > 0 &&
           bsearch(hash, t->hashes, t->count, sizeof *t->hashes, txn_hash_compare) != NULL;
}

struct ack_hash_answer {
    struct json_value ok, error, released, dlq, off, noop, stale, unresolved, dead, conflated;
};

static bool ack_hash_read(struct slice text, struct ack_hash_answer *a, struct err *err)
{
    struct json_value whole;
    const struct json_field fields[] = {{"ok", &a->ok},
                                        {"error", &a->error},
                                        {"leaseReleased", &a->released},
                                        {"dlq", &a->dlq},
                                        {"off", &a->off},
                                        {"noopHashes", &a->noop},
                                        {"staleHashes", &a->stale},
                                        {"unresolvedHashes", &a->unresolved},
                                        {"dlqHashes", &a->dead},
                                        {"conflated", &a->conflated}};
    return json_validate(text, &whole, err) &&
           json_pick(whole, fields, sizeof fields / sizeof *fields, err);
}

static void ack_hash_verdicts(struct ack_group *g, const struct ack_hash_answer *a)
{
    struct ack_tokens noop = ack_read_tokens(g, a->noop), stale = ack_read_tokens(g, a->stale);
    struct ack_tokens unresolved = ack_read_tokens(g, a->unresolved);
    struct ack_tokens dead = ack_read_tokens(g, a->dead);
    bool released = a->released.type == JSON_TRUE || a->dlq.type == JSON_TRUE;
    for (size_t i = 0; i < g->count; i++) {
        struct ack_item *item = g->items[i];
        if (ack_tokens_have(&unresolved, &item->hash)) {
            item->error = ACK_UNRESOLVABLE;
        } else if (item->status != ACK_COMPLETED && ack_tokens_have(&stale, &item->hash)) {
            item->error = SLICE_LITERAL("already committed: the cursor moved past this message "
                                        "before this ack");
        } else {
            item->success = true;
            item->noop = item->status == ACK_COMPLETED && ack_tokens_have(&noop, &item->hash);
            item->lease_released = released;
            item->dlq = ack_tokens_have(&dead, &item->hash);
        }
    }
}

static void ack_hash_refused(struct ack_group *g, struct json_value error)
{
    struct slice text = SLICE_LITERAL("ack rejected");
    struct err err;
    if (error.type == JSON_STRING && !json_string(error, request_arena(g->request->r), &text, &err))
        text = SLICE_LITERAL("ack rejected");
    /* The decoded text may point into the result, which goes with the job. */
    ack_group_fail(g, arena_copy(request_arena(g->request->r), text));
}

static void ack_hash_again(struct loop_timer *timer)
{
    ack_hash_start(TABLE_OWNER(timer, struct ack_group, timer));
}

static void ack_hash_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct ack_group *g = TABLE_OWNER(job, struct ack_group, job);
    struct ack_hash_answer a;
    struct err err;
    if (outcome->status != PG_DONE) {
        ack_group_retry(g, outcome, ack_hash_again, SLICE_LITERAL("ack failed in the database"));
        return;
    }
    if (!ack_hash_read(pg_get_jsonb(outcome->result, 0, 0), &a, &err))
        die("log_ack_by_hash_v1 answered something else than its JSON: %s", err.text);
    if (a.ok.type != JSON_TRUE) {
        ack_hash_refused(g, a.error);
        return;
    }
    if (!pg_is_null(outcome->result, 0, 1))
        g->queue = table_hash(pg_get_bytes(outcome->result, 0, 1), (struct slice){0});
    ack_hash_verdicts(g, &a);
    int64_t conflated;
    if (json_int64(a.conflated, &conflated) && conflated >= 0 && conflated <= INT32_MAX)
        g->conflated = (int32_t)conflated;
    if (a.dlq.type == JSON_TRUE && json_int64(a.off, &g->poison.offset)) {
        ack_dead_letter_start(g);
        return;
    }
    if (a.released.type == JSON_TRUE)
        ack_group_wake(g);
    ack_group_done(g);
}

void ack_hash_start(struct ack_group *g)
{
    struct worker *w = g->request->w;
    WORKER_COUNT(w, ack_hash, 1);
    g->conflated = -1;
    if (w->settings.ack_registry)
        registry_drop(w->shm, &g->partition_id, g->request->consumer_group,
                      g->lease_is_uuid ? &g->lease_id : NULL);
    g->job = (struct pg_job){.statement = &hash_statement,
                             .build = ack_hash_build,
                             .done = ack_hash_done,
                             .deadline_ms = g->request->deadline_ms};
    pg_lane_submit(w->ack_lane, &g->job);
}
