/* Timer operations of a request: reading, parameters, results. */
#include "worker/timer_ops.h"

#include "base/clock.h"
#include "shm/fifo.h"
#include "wire/base64.h"
#include "wire/json_write.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>
#include <zstd.h>

#define TIMERS_BAD "timers_bad_request"

struct timer_members {
    struct json_value op, queue, timer_key, key, partition, delay_ms, delay_seconds, txn, payload,
        payload_zstd, encrypted;
};

struct timer_parse {
    struct worker *w;
    struct arena *arena;
    struct refusal *refusal;
    size_t index; /* of the operation */
    bool rider;
};

static bool timer_bad(const struct timer_parse *p, const char *reason, const char *text)
{
    return refusal_set(p->refusal, 400, TIMERS_BAD, reason, "operation %zu: %s", p->index, text);
}

/* "QTIMER op 3: timerKey is required": the texts that existing clients know. */
static bool timer_bad_op(const struct timer_parse *p, const char *text)
{
    char reason[128];
    (void)snprintf(reason, sizeof reason, "QTIMER op %zu: %s", p->index, text);
    return refusal_set(p->refusal, 400, TIMERS_BAD, reason, "%s", "");
}

static bool timer_refuse_server_owned(const struct timer_parse *p, struct json_value element)
{
    static const char *const names[] = {"producerSub",  "producer_sub", "messageId",  "message_id",
                                        "tenant",       "tenantId",     "tenant_id",  "deliverAt",
                                        "deliver_at",   "attempts",     "claimToken", "claim_token",
                                        "claimedUntil", "delay_seconds"};
    struct json_value key, value;
    for (struct json_iter it = json_iterate(element); json_next_member(&it, &key, &value);) {
        struct slice name;
        struct err err;
        if (!json_string(key, p->arena, &name, &err))
            continue;
        if (name.n > 0 && *name.p == '_')
            return timer_bad(p, "timers_server_owned_field",
                             "a field whose name begins with _ cannot be supplied");
        bool owned = !p->rider && slice_is(name, "delaySeconds");
        for (size_t i = 0; i < sizeof names / sizeof *names; i++)
            owned |= slice_is(name, names[i]);
        if (owned) {
            char text[96];
            (void)snprintf(text, sizeof text, "field %.*s is server-owned and cannot be supplied",
                           name.n > 32 ? 32 : (int)name.n, name.p);
            return timer_bad_op(p, text);
        }
    }
    return true;
}

/* A name that must be there. required: what to say when it is not a string or empty. */
static bool timer_name(const struct timer_parse *p, const char *field, struct json_value v,
                       const char *required, struct slice *out)
{
    struct err err;
    if (v.type != JSON_STRING)
        return timer_bad_op(p, required);
    if (!json_string(v, p->arena, out, &err))
        return timer_bad(p, "timers_bad_op", err.text);
    if (out->n == 0)
        return timer_bad_op(p, required);
    int status = name_check(field, *out, &err);
    if (status != 0)
        return refusal_set(p->refusal, status, status == 413 ? "payload_too_large" : TIMERS_BAD,
                           "timers_bad_op", "operation %zu: %s", p->index, err.text);
    return true;
}

static bool timer_txn(const struct timer_parse *p, struct json_value v, struct timer_op *op)
{
    struct err err;
    if (!json_present(v) && op->cancel)
        return true;
    if (v.type != JSON_STRING)
        return timer_bad_op(p, "txn is required");
    if (!json_string(v, p->arena, &op->txn, &err))
        return timer_bad(p, "timers_bad_op", err.text);
    if (op->txn.n == 0 && !op->cancel)
        return timer_bad_op(p, "txn is required");
    if (op->txn.n > TRANSACTION_ID_MAX_BYTES)
        return timer_bad(p, "timers_bad_op", "txn has more than 1024 bytes");
    return true;
}

static bool timer_number(const struct timer_parse *p, struct json_value v, double *out)
{
    if (v.type != JSON_NUMBER)
        return false;
    *out = strtod(arena_cstr(p->arena, v.raw), NULL); /* the grammar was validated */
    return true;
}

static bool timer_delay(const struct timer_parse *p, const struct timer_members *m,
                        struct timer_op *op)
{
    double ms = 0, seconds = 0;
    if (json_present(m->delay_ms) ? !timer_number(p, m->delay_ms, &ms)
                                  : !timer_number(p, m->delay_seconds, &seconds))
        return refusal_set(p->refusal, 400, TIMERS_BAD, "timers_delay_required",
                           "operation %zu: delayMs (a number of milliseconds) is required",
                           p->index);
    if (!json_present(m->delay_ms))
        ms = seconds * 1000;
    if (ms > (double)p->w->settings.timers_max_horizon_s * 1000)
        return refusal_set(p->refusal, 403, "timer_horizon_exceeded", "timers_horizon",
                           "operation %zu: the limit is %lld s from now", p->index,
                           (long long)p->w->settings.timers_max_horizon_s);
    op->delay_us = ms <= 0 ? 0 : (int64_t)(ms * 1000);
    if (ms > 0 && (double)op->delay_us < ms * 1000)
        op->delay_us++; /* a fraction of a microsecond: never early */
    return true;
}

/* Unpacks what a client packed, up to the limit; NULL: corrupt or too large. */
static bool timer_payload_unpack(const struct timer_parse *p, struct buf *bytes)
{
    size_t limit = (size_t)p->w->settings.timers_max_payload_bytes;
    struct buf plain = {0};
    ZSTD_DCtx *context = ZSTD_createDCtx();
    ZSTD_inBuffer in = {bytes->p, bytes->n, 0};
    size_t left = 1;
    if (context == NULL)
        die("out of memory: zstd decompression context");
    while (left != 0 && plain.n <= limit) {
        buf_reserve(&plain, ZSTD_DStreamOutSize());
        ZSTD_outBuffer to = {plain.p, plain.cap, plain.n};
        size_t before = plain.n, consumed = in.pos;
        left = ZSTD_decompressStream(context, &to, &in);
        if (ZSTD_isError(left) || (left != 0 && to.pos == before && in.pos == consumed))
            break;
        plain.n = to.pos;
    }
    (void)ZSTD_freeDCtx(context);
    buf_free(bytes);
    *bytes = plain;
    if (plain.n > limit)
        return refusal_set(p->refusal, 413, "payload_too_large", "timers_payload_too_large",
                           "operation %zu: the payload has more than %zu bytes", p->index, limit);
    if (left != 0 || in.pos != in.size)
        return timer_bad(p, "timers_bad_op", "payloadZstd is true but the payload is not zstd");
    return true;
}

/* The JSON that the base64 text holds; white space around it goes, as with a pushed payload. */
static bool timer_payload_decode(const struct timer_parse *p, struct slice text, bool packed,
                                 struct timer_op *op)
{
    struct buf bytes = {0};
    struct json_value value = {JSON_NULL, SLICE_LITERAL("null")};
    struct err err;
    size_t limit = (size_t)p->w->settings.timers_max_payload_bytes;
    bool ok = base64_decode(text, &bytes) ||
              refusal_set(p->refusal, 400, TIMERS_BAD, "timers_payload_not_base64",
                          "operation %zu: payload is not base64", p->index);
    if (ok && packed)
        ok = timer_payload_unpack(p, &bytes);
    if (ok && bytes.n > limit)
        ok = refusal_set(p->refusal, 413, "payload_too_large", "timers_payload_too_large",
                         "operation %zu: the payload has %zu bytes, the limit is %zu", p->index,
                         bytes.n, limit);
    if (ok && bytes.n > 0 && !json_validate(buf_slice(&bytes), &value, &err))
        ok = refusal_set(p->refusal, 400, TIMERS_BAD, "timers_payload_not_json",
                         "operation %zu: payload: %s", p->index, err.text);
    if (ok)
        op->payload = arena_copy(p->arena, value.raw);
    buf_free(&bytes);
    return ok;
}

static bool timer_payload(const struct timer_parse *p, const struct timer_members *m,
                          struct timer_op *op)
{
    struct err err;
    struct slice text;
    bool packed = m->payload_zstd.type == JSON_TRUE;
    if (json_present(m->encrypted) && m->encrypted.type != JSON_FALSE)
        return timer_bad(p, "timers_encrypted_conflict",
                         "an encrypted payload is not accepted: encryption is the server's");
    if (json_present(m->payload_zstd) && !packed && m->payload_zstd.type != JSON_FALSE)
        return timer_bad(p, "timers_bad_op", "payloadZstd must be true or false");
    if (m->payload.type == JSON_ABSENT || (!p->rider && m->payload.type == JSON_NULL))
        return refusal_set(p->refusal, 400, TIMERS_BAD, "timers_payload_required",
                           "operation %zu: payload is required", p->index);
    if (m->payload.type == JSON_STRING) {
        if (!json_string(m->payload, p->arena, &text, &err))
            return timer_bad(p, "timers_bad_op", err.text);
        if (timer_payload_decode(p, text, packed, op))
            return true;
        bool other_text = strcmp(p->refusal->reason, "timers_payload_not_base64") == 0 ||
                          strcmp(p->refusal->reason, "timers_payload_not_json") == 0;
        if (!p->rider || packed || !other_text)
            return false;
    } else if (!p->rider) {
        return refusal_set(p->refusal, 400, TIMERS_BAD, "timers_payload_not_base64",
                           "operation %zu: payload must be a base64 string, found %s", p->index,
                           json_type_name(m->payload.type));
    }
    op->payload = m->payload.raw;
    if (op->payload.n > (size_t)p->w->settings.timers_max_payload_bytes)
        return refusal_set(p->refusal, 413, "payload_too_large", "timers_payload_too_large",
                           "operation %zu: the payload has %zu bytes", p->index, op->payload.n);
    return true;
}

static bool timer_op_parse(const struct timer_parse *p, struct json_value element,
                           struct timer_op *op)
{
    struct timer_members m;
    struct err err;
    const struct json_field fields[] = {{"op", &m.op},
                                        {"queue", &m.queue},
                                        {"timerKey", &m.timer_key},
                                        {"key", &m.key},
                                        {"partition", &m.partition},
                                        {"delayMs", &m.delay_ms},
                                        {"txn", &m.txn},
                                        {"payload", &m.payload},
                                        {"delaySeconds", &m.delay_seconds},
                                        {"encrypted", &m.encrypted},
                                        {"payloadZstd", &m.payload_zstd}};
    if (element.type != JSON_OBJECT)
        return timer_bad(p, "timers_bad_op", "it is not an object");
    if (!json_pick(element, fields, sizeof fields / sizeof *fields, &err))
        return timer_bad(p, "timers_bad_op", err.text);
    if (!timer_refuse_server_owned(p, element))
        return false;
    if (m.op.type != JSON_STRING || !json_string(m.op, p->arena, &op->name, &err) ||
        !(slice_is(op->name, "schedule") || slice_is(op->name, "reschedule") ||
          slice_is(op->name, "cancel")))
        return timer_bad_op(p, "unknown operation");
    op->cancel = slice_is(op->name, "cancel");
    if (m.queue.type != JSON_STRING || m.queue.raw.n == 2)
        return refusal_set(p->refusal, 400, TIMERS_BAD, "timers_queue_required",
                           "operation %zu: queue is required", p->index);
    if (p->rider && !json_present(m.timer_key))
        m.timer_key = m.key;
    if (!timer_name(p, "queue", m.queue, "queue is required", &op->queue) ||
        !timer_name(p, "timerKey", m.timer_key, "timerKey is required", &op->key) ||
        !timer_txn(p, m.txn, op))
        return false;
    if (op->cancel)
        return true;
    op->partition = SLICE_LITERAL("Default");
    if (json_present(m.partition) &&
        !timer_name(p, "partition", m.partition, "partition, when present, must be non-empty",
                    &op->partition))
        return false;
    if (!timer_delay(p, &m, op) || !timer_payload(p, &m, op))
        return false;
    op->message_id = uuid_v7();
    op->hash = txn_hash_of(op->txn);
    return true;
}

bool timer_ops_parse(struct worker *w, struct json_value array, bool rider, struct arena *arena,
                     struct timer_ops *out, struct refusal *refusal)
{
    struct timer_parse p = {.w = w, .arena = arena, .refusal = refusal, .rider = rider};
    struct json_value element;
    *out = (struct timer_ops){0};
    for (struct json_iter it = json_iterate(array); json_next(&it, &element);)
        out->count++;
    if (out->count > TIMER_MAX_OPS)
        return refusal_set(refusal, 400, TIMERS_BAD, "timers_too_many_ops",
                           "%zu operations, the limit is %d", out->count, TIMER_MAX_OPS);
    out->list = arena_zarray(arena, out->count, sizeof *out->list);
    for (struct json_iter it = json_iterate(array); json_next(&it, &element); p.index++)
        if (!timer_op_parse(&p, element, &out->list[p.index]))
            return false;
    return true;
}

static void timer_bind_blobs(struct worker *w, const struct timer_ops *ops,
                             struct pg_params *params)
{
    struct buf frames = {0}, blob = {0};
    pg_array_begin(params, PG_BYTEA);
    for (size_t i = 0; i < ops->count; i++) {
        const struct timer_op *op = &ops->list[i];
        if (op->cancel) {
            pg_array_null(params);
            continue;
        }
        struct frame frame = {
            .message_id = op->message_id, .transaction_id = op->txn, .payload = op->payload};
        buf_clear(&frames);
        buf_clear(&blob);
        frame_append(&frames, &frame);
        segment_pack(w->packer, buf_slice(&frames), &blob);
        pg_array_bytes(params, buf_slice(&blob));
    }
    pg_array_end(params);
    buf_free(&frames);
    buf_free(&blob);
}

/* One array; `put` appends the value of an operation, NULL for a cancel unless `always`. */
#define TIMER_ARRAY(type, always, put)                                                             \
    do {                                                                                           \
        pg_array_begin(params, (type));                                                            \
        for (size_t i = 0; i < ops->count; i++) {                                                  \
            const struct timer_op *op = &ops->list[i];                                             \
            if (!(always) && op->cancel)                                                           \
                pg_array_null(params);                                                             \
            else                                                                                   \
                put;                                                                               \
        }                                                                                          \
        pg_array_end(params);                                                                      \
    } while (0)

void timer_ops_bind(struct worker *w, struct timer_ops *ops, struct pg_params *params)
{
    ops->bound_ms = clock_mono_ms();
    TIMER_ARRAY(PG_TEXT, true, pg_array_bytes(params, op->name));
    TIMER_ARRAY(PG_TEXT, true, pg_array_bytes(params, op->queue));
    TIMER_ARRAY(PG_TEXT, true, pg_array_bytes(params, op->key));
    TIMER_ARRAY(PG_TEXT, false, pg_array_bytes(params, op->partition));
    TIMER_ARRAY(PG_INT8, false, pg_array_int8(params, op->delay_us));
    TIMER_ARRAY(PG_BYTEA, false, pg_array_bytes(params, op->txn));
    TIMER_ARRAY(PG_UUID, false, pg_array_uuid(params, &op->message_id));
    TIMER_ARRAY(
        PG_BYTEA, false,
        pg_array_bytes(params, ((struct slice){(const char *)op->hash.bytes, TXN_HASH_SIZE})));
    timer_bind_blobs(w, ops, params);
}

static void timer_write_text(struct buf *out, const char *key, struct slice text)
{
    buf_printf(out, ",\"%s\":", key);
    if (text.p == NULL)
        BUF_PUT_LITERAL(out, "null");
    else
        json_write_string(out, text);
}

void timer_op_write(const struct timer_op *op, struct slice status, int64_t deliver_us,
                    struct slice txn, struct buf *out)
{
    bool scheduled = slice_is(status, "scheduled") || slice_is(status, "rescheduled");
    bool cancelled = slice_is(status, "cancelled");
    BUF_PUT_LITERAL(out, "\"ok\":");
    json_write_bool(out, scheduled || cancelled);
    timer_write_text(out, "status", status);
    timer_write_text(out, "queue", op->queue);
    timer_write_text(out, "timerKey", op->key);
    if (slice_is(status, "too_late"))
        return;
    timer_write_text(out, "txn", scheduled || cancelled ? txn : op->txn);
    if (!scheduled)
        return;
    BUF_PUT_LITERAL(out, ",\"messageId\":");
    json_write_uuid(out, &op->message_id);
    BUF_PUT_LITERAL(out, ",\"deliverAt\":");
    json_write_time(out, deliver_us);
}

void timer_ops_tell_keeper(struct worker *w, const struct timer_ops *ops)
{
    int64_t earliest = INT64_MAX;
    for (size_t i = 0; i < ops->count; i++)
        if (!ops->list[i].cancel && ops->list[i].delay_us < earliest)
            earliest = ops->list[i].delay_us;
    if (earliest == INT64_MAX)
        return;
    struct timer_record record = {ops->bound_ms + (uint64_t)earliest / 1000};
    for (int tries = 0; tries < 2; tries++) {
        if (w->timers_fifo < 0) {
            char path[PATH_MAX];
            fifo_path_timers(w->settings.run_dir, path, sizeof path);
            w->timers_fifo = fifo_open_writer(path);
        }
        if (w->timers_fifo < 0 || fifo_write(w->timers_fifo, &record, sizeof record) != FIFO_GONE)
            return; /* told, or it has plenty to read, or it looks when it starts */
        (void)close(w->timers_fifo);
        w->timers_fifo = -1;
    }
}
