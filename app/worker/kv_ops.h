/* Key/value operations as a request brings them, for POST /api/v1/kv and for the rider of a
 * transaction: parsed here, judged by queen.kv_check_v1. */
#ifndef WORKER_KV_OPS_H
#define WORKER_KV_OPS_H

#include "pg/params.h"
#include "wire/json.h"
#include "worker/refusal.h"

struct kv_ops {
    size_t count;
    struct slice ops;          /* JSON array without the values; in the arena */
    struct json_value *values; /* spans of the request; JSON_ABSENT = none */
    bool writes;               /* some operation is no read */
};

/* array: of operations, from a validated text. max: most operations. */
MUST_CHECK bool kv_ops_parse(struct json_value array, size_t max, struct arena *arena,
                             struct kv_ops *out, struct refusal *refusal);

/* Appends two parameters, p_ops (PG_TEXT, to be cast to jsonb) and p_values (PG_TEXT_ARRAY). */
void kv_ops_bind(const struct kv_ops *ops, struct pg_params *params);

#endif
