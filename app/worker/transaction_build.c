/* A transaction as one statement: its parameters, in the order of log_transaction_call_v1. */
#include "worker/push_bind.h"
#include "worker/transaction.h"

const struct pg_statement transaction_statement = {
    .name = "transaction",
    .sql = "select outcome, state, error, detail from queen.log_transaction_call_v1("
           "$1, $2, $3::jsonb, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18,"
           " $19, $20, $21, $22, $23, $24, $25, $26, $27, $28, $29, $30, $31, $32, $33, $34, $35)",
    .param_count = 35,
    .types = {PG_UUID, PG_BOOL, PG_TEXT, PG_TEXT_ARRAY, TIMER_PARAM_TYPES,
              /* pushes */
              PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY, PG_BYTEA_ARRAY, PG_INT8_ARRAY,
              PG_BYTEA_ARRAY, PG_INT8_ARRAY, PG_UUID_ARRAY,
              /* acks */
              PG_TEXT_ARRAY, PG_UUID_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_INT8_ARRAY,
              PG_INT4_ARRAY, PG_BYTEA_ARRAY, PG_TEXT_ARRAY,
              /* dead letters */
              PG_INT4_ARRAY, PG_INT8_ARRAY, PG_UUID_ARRAY, PG_BYTEA_ARRAY, PG_BYTEA_ARRAY,
              PG_TEXT_ARRAY}};

static void build_pushes(const struct transaction *t, struct pg_params *params)
{
    struct dedup_vouch *vouches =
        arena_zarray(request_arena(t->r), t->group_count, sizeof *vouches);
    push_bind(t->w, t->groups, t->group_count, params, vouches);
    push_bind_vouches(vouches, t->group_count, params);
}

/* Hashes and status letters of each cursor. */
static void build_marks(const struct transaction *t, struct pg_params *params)
{
    static const char letters[] = {
        [ACK_COMPLETED] = 'c', [ACK_FAILED] = 'f', [ACK_RETRY] = 'r', [ACK_DLQ] = 'd'};
    struct buf marks = {0};
    pg_array_begin(params, PG_BYTEA);
    for (size_t at = 0; at < t->cursor_count; at++) {
        const struct txn_cursor *c = t->cursors[at];
        buf_clear(&marks);
        for (size_t i = 0; i < c->count; i++)
            buf_put(&marks, c->acks[i]->hash.bytes, TXN_HASH_SIZE);
        pg_array_bytes(params, buf_slice(&marks));
    }
    pg_array_end(params);
    pg_array_begin(params, PG_TEXT);
    for (size_t at = 0; at < t->cursor_count; at++) {
        const struct txn_cursor *c = t->cursors[at];
        buf_clear(&marks);
        for (size_t i = 0; i < c->count; i++)
            buf_putc(&marks, letters[c->acks[i]->status]);
        pg_array_bytes(params, buf_slice(&marks));
    }
    pg_array_end(params);
    buf_free(&marks);
}

/* One array with an element for each cursor. */
#define CURSOR_ARRAY(type, put)                                                                    \
    do {                                                                                           \
        pg_array_begin(params, (type));                                                            \
        for (size_t at = 0; at < t->cursor_count; at++) {                                          \
            const struct txn_cursor *c = t->cursors[at];                                           \
            put;                                                                                   \
        }                                                                                          \
        pg_array_end(params);                                                                      \
    } while (0)

static void put_batch_end(struct pg_params *params, const struct txn_cursor *c)
{
    if (c->recognised)
        pg_array_int8(params, c->batch.batch_end);
    else
        pg_array_null(params);
}

static void put_batch_count(struct pg_params *params, const struct txn_cursor *c)
{
    if (c->recognised)
        pg_array_int4(params, (int32_t)c->batch.message_count);
    else
        pg_array_null(params);
}

static void build_acks(const struct transaction *t, struct pg_params *params)
{
    pg_array_begin(params, PG_TEXT);
    for (size_t i = 0; i < t->lease_count; i++)
        pg_array_bytes(params, t->leases[i]);
    if (t->names_leases && t->lease_count == 0)
        pg_array_bytes(params, SLICE_LITERAL("")); /* leases are named, none of them can be held */
    pg_array_end(params);
    CURSOR_ARRAY(PG_UUID, pg_array_uuid(params, &c->partition_id));
    CURSOR_ARRAY(PG_TEXT, pg_array_bytes(params, c->group));
    CURSOR_ARRAY(PG_TEXT, pg_array_bytes(params, c->lease));
    CURSOR_ARRAY(PG_INT8, put_batch_end(params, c));
    CURSOR_ARRAY(PG_INT4, put_batch_count(params, c));
    build_marks(t, params);
}

/* One array with an element for each dead letter; NULL where the message is gone. */
#define DEAD_ARRAY(type, always, put)                                                              \
    do {                                                                                           \
        pg_array_begin(params, (type));                                                            \
        for (size_t i = 0; i < t->dead_count; i++) {                                               \
            const struct txn_dead_letter *d = &t->dead_letters[i];                                 \
            if (!(always) && !d->readable)                                                         \
                pg_array_null(params);                                                             \
            else                                                                                   \
                put;                                                                               \
        }                                                                                          \
        pg_array_end(params);                                                                      \
    } while (0)

static void build_dead_letters(const struct transaction *t, struct pg_params *params)
{
    DEAD_ARRAY(PG_INT4, true, pg_array_int4(params, (int32_t)d->cursor + 1));
    DEAD_ARRAY(PG_INT8, true, pg_array_int8(params, d->offset));
    DEAD_ARRAY(PG_UUID, false, pg_array_uuid(params, &d->message_id));
    DEAD_ARRAY(PG_BYTEA, false, pg_array_bytes(params, d->transaction_id));
    DEAD_ARRAY(PG_BYTEA, false, pg_array_bytes(params, d->payload));
    DEAD_ARRAY(PG_TEXT, true, pg_array_bytes(params, d->reason));
}

void transaction_build(struct pg_job *job, struct pg_params *params)
{
    struct transaction *t = TABLE_OWNER(job, struct transaction, job);
    pg_param_uuid(params, &t->id);
    pg_param_bool(params, t->retry);
    if (t->kv.count > 0) {
        kv_ops_bind(&t->kv, params);
    } else {
        pg_param_null(params);
        pg_param_null(params);
    }
    timer_ops_bind(t->w, &t->timers, params);
    build_pushes(t, params);
    build_acks(t, params);
    build_dead_letters(t, params);
}
