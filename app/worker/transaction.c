/* POST /api/v1/transaction: one statement, tried again under the same request id until its outcome
 * is certain or the deadline passes. A transaction that dead-letters runs twice: the first run says
 * which messages, rolled back; this worker reads them, for only it can open a segment; the second
 * run files them with everything else (contract 1, sections 5 and 7). */
#include "worker/transaction.h"

#include "base/logger.h"
#include "pg/result.h"
#include "pg/retry.h"
#include "wire/hex.h"
#include "worker/push.h"

#include <stdio.h>

enum { TXN_LEASES_TRIED = 8 }; /* in the registry, for a cursor whose acks carry none */

static const struct pg_statement read_statement = {
    .name = "transaction_dead_letters",
    .sql = "select ordinal, base_offset, blob from queen.log_segments_at_v1($1, $2)",
    .param_count = 2,
    .types = {PG_UUID_ARRAY, PG_INT8_ARRAY}};
enum { READ_ORDINAL, READ_BASE, READ_BLOB };

static void run(struct transaction *t);
static void read_dead_letters(struct transaction *t);

/* An acked whole batch that this host delivered: SQL may take it by position. */
static void recognise(struct transaction *t, struct txn_cursor *c)
{
    struct worker *w = t->w;
    size_t distinct, tried = 0;
    if (!c->all_completed)
        return;
    struct txn_hash *hashes = arena_alloc(request_arena(t->r), c->count * sizeof *hashes);
    for (size_t i = 0; i < c->count; i++)
        hashes[i] = c->acks[i]->hash;
    struct txn_hash fingerprint = txn_hash_fingerprint(hashes, c->count, &distinct);
    const struct slice *leases = c->lease.n > 0 ? &c->lease : t->leases;
    size_t count = c->lease.n > 0 ? 1 : t->lease_count;
    for (size_t i = 0; i < count && tried < TXN_LEASES_TRIED && !c->recognised; i++) {
        struct uuid lease;
        if (!uuid_parse(leases[i], &lease))
            continue;
        tried++;
        c->recognised =
            registry_take(w->shm, &c->partition_id, c->group, &lease, &fingerprint, &c->batch);
    }
}

static void answer_unavailable(struct transaction *t, const char *code, const char *text)
{
    struct buf body = {0};
    buf_printf(&body, "{\"error\":\"%s: %s\",\"code\":\"%s\"}", code, text, code);
    request_answer(t->r, 503, NULL, SLICE_LITERAL("Retry-After: 1\r\n"), &body);
}

/* A statement did not get done: once more, or the end. */
static void failed(struct transaction *t, const struct pg_outcome *outcome,
                   void (*again)(struct loop_timer *timer))
{
    struct worker *w = t->w;
    uint64_t now = loop_now_ms(w->loop);
    if (pg_outcome_may_pass(outcome) && now + PG_RETRY_MS < t->deadline_ms) {
        t->timer.fire = again;
        loop_timer_set(w->loop, &t->timer, now + PG_RETRY_MS);
        return;
    }
    struct txn_refusal refusal = {.status = 200, .reason = "db_error"};
    (void)err_set(&refusal.text, "%s", outcome->text);
    if (t->retry && outcome->status != PG_REFUSED) {
        answer_unavailable(t, "outcome_unknown",
                           "the transaction may or may not have been committed");
    } else if (outcome->status != PG_REFUSED) {
        answer_unavailable(t, "timeout", "the database is not available; nothing was done");
    } else if (memcmp(outcome->sqlstate, "22", 2) == 0) {
        bool large = strcmp(outcome->sqlstate, "22001") == 0;
        refusal.status = large ? 413 : 400;
        (void)snprintf(refusal.reason, sizeof refusal.reason, "%s",
                       large ? "payload_too_large" : "bad_request");
        transaction_refuse(t, &refusal, (struct slice){0});
    } else if (strcmp(outcome->sqlstate, "QS001") == 0) {
        /* Switched off: not for a client to wait for inside a transaction. */
        refusal.status = 403;
        (void)snprintf(refusal.reason, sizeof refusal.reason, "%.*s",
                       (int)strcspn(outcome->text, ":"), outcome->text);
        transaction_refuse(t, &refusal, (struct slice){0});
    } else {
        if (strcmp(outcome->sqlstate, "QT000") == 0)
            (void)snprintf(refusal.reason, sizeof refusal.reason, "misaligned");
        logger_error("transaction", "failed: %s %s", outcome->sqlstate, outcome->text);
        transaction_refuse(t, &refusal, (struct slice){0});
    }
}

static void add_dead_letter(struct transaction *t, size_t cursor, int64_t offset,
                            const struct txn_hash *hash)
{
    const struct txn_cursor *c = t->cursors[cursor];
    if (t->dead_count == t->dead_cap) {
        size_t cap = t->dead_cap == 0 ? 8 : 2 * t->dead_cap;
        struct txn_dead_letter *grown = arena_alloc(request_arena(t->r), cap * sizeof *grown);
        if (t->dead_count > 0)
            memcpy(grown, t->dead_letters, t->dead_count * sizeof *grown);
        t->dead_letters = grown;
        t->dead_cap = cap;
    }
    for (size_t i = 0; i < c->count; i++)
        c->acks[i]->dlq = memcmp(&c->acks[i]->hash, hash, sizeof *hash) == 0;
    t->dead_letters[t->dead_count++] = (struct txn_dead_letter){
        .cursor = cursor, .offset = offset, .reason = ack_dead_letter_reason(c->acks, c->count)};
}

/* detail: what log_transaction_acks_v1 says with QT003. What was read before stays: the state may
 * have changed so that another message is the poison, for one cursor of several. */
static void need_dead_letters(struct transaction *t, struct slice detail)
{
    struct json_value list, element, ack, off, hex;
    const struct json_field fields[] = {{"ack", &ack}, {"off", &off}, {"hash", &hex}};
    struct txn_hash hash;
    struct slice text;
    struct err err;
    int64_t cursor, offset;
    t->dead_read = t->dead_count;
    if (!json_validate(detail, &list, &err))
        die("log_transaction_acks_v1 asks for dead letters with something else than JSON: %s",
            err.text);
    for (struct json_iter it = json_iterate(list); json_next(&it, &element);) {
        if (!json_pick(element, fields, 3, &err) || !json_int64(ack, &cursor) ||
            !json_int64(off, &offset) || cursor < 0 || (size_t)cursor >= t->cursor_count ||
            !json_string(hex, request_arena(t->r), &text, &err) || text.n != 2 * TXN_HASH_SIZE ||
            !hex_decode(text, hash.bytes))
            die("log_transaction_acks_v1 asks for a dead letter that cannot be read");
        add_dead_letter(t, (size_t)cursor, offset, &hash);
    }
    read_dead_letters(t);
}

static void read_again(struct loop_timer *timer)
{
    read_dead_letters(TABLE_OWNER(timer, struct transaction, timer));
}

static void read_build(struct pg_job *job, struct pg_params *params)
{
    const struct transaction *t = TABLE_OWNER(job, struct transaction, job);
    pg_array_begin(params, PG_UUID);
    for (size_t i = t->dead_read; i < t->dead_count; i++)
        pg_array_uuid(params, &t->cursors[t->dead_letters[i].cursor]->partition_id);
    pg_array_end(params);
    pg_array_begin(params, PG_INT8);
    for (size_t i = t->dead_read; i < t->dead_count; i++)
        pg_array_int8(params, t->dead_letters[i].offset);
    pg_array_end(params);
}

/* A message that is gone or unreadable is filed without payload, so that it does not redeliver for
 * ever. */
static void read_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct transaction *t = TABLE_OWNER(job, struct transaction, job);
    struct arena *arena = request_arena(t->r);
    struct worker *w = t->w;
    if (outcome->status != PG_DONE) {
        failed(t, outcome, read_again);
        return;
    }
    for (int row = 0; row < PQntuples(outcome->result); row++) {
        size_t at = t->dead_read + (size_t)pg_get_int4(outcome->result, row, READ_ORDINAL) - 1;
        struct txn_dead_letter *d = at < t->dead_count ? &t->dead_letters[at] : NULL;
        struct frame frame;
        struct err err;
        if (d == NULL)
            continue;
        d->readable = segment_read_frame(w->unpacker, pg_get_bytes(outcome->result, row, READ_BLOB),
                                         d->offset - pg_get_int8(outcome->result, row, READ_BASE),
                                         &w->frames, &frame, &err);
        if (!d->readable) {
            logger_error("transaction", "poison message cannot be read: %s", err.text);
            continue;
        }
        d->message_id = frame.message_id;
        d->transaction_id = arena_copy(arena, frame.transaction_id);
        d->payload = arena_copy(arena, frame.payload);
    }
    run(t);
}

static void read_dead_letters(struct transaction *t)
{
    t->job = (struct pg_job){.statement = &read_statement,
                             .build = read_build,
                             .done = read_done,
                             .deadline_ms = t->deadline_ms};
    pg_lane_submit(t->w->transaction_lane, &t->job);
}

static void run_again(struct loop_timer *timer)
{
    run(TABLE_OWNER(timer, struct transaction, timer));
}

static void run_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct transaction *t = TABLE_OWNER(job, struct transaction, job);
    const PGresult *r = outcome->result;
    if (outcome->status == PG_UNKNOWN)
        t->retry = true;
    if (outcome->status != PG_DONE) {
        failed(t, outcome, run_again);
        return;
    }
    if (!pg_is_null(r, 0, TXN_OUTCOME)) {
        transaction_committed(t, pg_get_bytes(r, 0, TXN_OUTCOME));
        return;
    }
    struct slice state = pg_get_bytes(r, 0, TXN_STATE), detail = pg_get_bytes(r, 0, TXN_DETAIL);
    if (slice_is(state, "QT003"))
        need_dead_letters(t, detail);
    else
        transaction_refused(t, state, pg_get_bytes(r, 0, TXN_ERROR), detail);
}

static void run(struct transaction *t)
{
    t->job = (struct pg_job){.statement = &transaction_statement,
                             .build = transaction_build,
                             .done = run_done,
                             .deadline_ms = t->deadline_ms};
    pg_lane_submit(t->w->transaction_lane, &t->job);
}

void transaction_handle(struct worker *w, struct request *r)
{
    struct transaction *t = arena_zarray(request_arena(r), 1, sizeof *t);
    struct txn_refusal refusal;
    t->w = w;
    t->r = r;
    t->id = uuid_v7();
    t->deadline_ms = loop_now_ms(w->loop) + (uint64_t)w->settings.request_timeout_ms;
    WORKER_COUNT(w, transactions, 1);
    if (!transaction_parse(t, &refusal)) {
        transaction_refuse(t, &refusal, (struct slice){0});
    } else if (t->hopeless.text.p != NULL) {
        refusal = (struct txn_refusal){.status = 200, .reason = "ack_rejected"};
        (void)err_set(&refusal.text, "operation %zu: %.*s", t->hopeless.index,
                      SLICE_ARGS(t->hopeless.text));
        transaction_refuse(t, &refusal, (struct slice){0});
    } else if (t->entry_count + t->kv.count + t->timers.count == 0) {
        transaction_committed(t, SLICE_LITERAL("{}"));
    } else {
        for (size_t i = 0; i < t->cursor_count && w->settings.ack_registry; i++)
            recognise(t, t->cursors[i]);
        run(t);
    }
}
