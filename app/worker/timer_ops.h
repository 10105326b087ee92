/* Timer operations as a request brings them, for POST /api/v1/timers and for the rider of a
 * transaction. A schedule becomes a stored message at once: id, hash, segment of one frame. */
#ifndef WORKER_TIMER_OPS_H
#define WORKER_TIMER_OPS_H

#include "log/segment.h"
#include "log/txn_hash.h"
#include "pg/params.h"
#include "wire/json.h"
#include "worker/refusal.h"
#include "worker/worker.h"

struct timer_op {
    bool cancel;       /* else schedule */
    struct slice name; /* "schedule", "reschedule" or "cancel" */
    struct slice queue, key;
    struct slice partition, txn; /* txn of a cancel: what was sent, p = NULL when nothing was */
    int64_t delay_us;            /* not negative */
    struct uuid message_id;
    struct txn_hash hash;
    struct slice payload; /* JSON; in the arena or the request */
};

struct timer_ops {
    size_t count;
    struct timer_op *list; /* in the arena */
    uint64_t bound_ms; /* clock_mono_ms() when they went to PostgreSQL: delays count from there */
};

enum { TIMER_MAX_OPS = 256, TIMER_PARAMS = 9 };
/* The types of the parameters that timer_ops_bind() appends, for a struct pg_statement. */
#define TIMER_PARAM_TYPES                                                                          \
    PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_INT8_ARRAY, PG_BYTEA_ARRAY,     \
        PG_UUID_ARRAY, PG_BYTEA_ARRAY, PG_BYTEA_ARRAY

/* array: of operations, from a validated text. rider: `key`, `delaySeconds` and a payload that is
 * plain JSON are understood too (a string that is base64 of JSON is taken as that). */
MUST_CHECK bool timer_ops_parse(struct worker *w, struct json_value array, bool rider,
                                struct arena *arena, struct timer_ops *out,
                                struct refusal *refusal);

/* Appends the array parameters of log_timers_apply_v1, all but p_now. */
void timer_ops_bind(struct worker *w, struct timer_ops *ops, struct pg_params *params);

/* Writes the members of an operation's result, without braces. status and deliver_at as from
 * log_timers_apply_v1; txn is that of the timer, p = NULL when there is none. */
void timer_op_write(const struct timer_op *op, struct slice status, int64_t deliver_us,
                    struct slice txn, struct buf *out);

/* After the commit: tells the keeper when the earliest of these is due. A hint that gets lost costs
 * one fallback interval. */
void timer_ops_tell_keeper(struct worker *w, const struct timer_ops *ops);

#endif
