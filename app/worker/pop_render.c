/* A pop's answer: unpacks the claimed segments, splices the payload bytes into the JSON, and
 * remembers each leased batch in the ack registry. */
#include "worker/pop.h"

#include "base/clock.h"
#include "base/logger.h"
#include "log/txn_hash.h"
#include "shm/registry.h"
#include "wire/json_write.h"

#include <stdlib.h>

enum {
    REGISTRY_MARGIN_MS = 10000,  /* seed "Ack internals": lease length plus 10 seconds */
    POP_AUTOPILOT_WAIT_MS = 100, /* data-plane detail, section 3.7 */
};

struct pop_rendering {
    struct pop_call *call;
    const PGresult *r;
    struct buf *body;
    size_t messages;   /* written so far */
    struct buf tail;   /* the part of every message that is the same in its partition */
    struct buf hashes; /* struct txn_hash of the partition's delivered messages */
    bool complete;     /* every frame of the partition's batch could be read */
};

static void pop_render_tail(struct pop_rendering *p, int row)
{
    const struct pop_call *call = p->call;
    struct buf *tail = &p->tail;
    struct uuid id = pg_get_uuid(p->r, row, POP_PARTITION_ID);
    buf_clear(tail);
    BUF_PUT_LITERAL(tail, ",\"partitionId\":");
    json_write_uuid(tail, &id);
    BUF_PUT_LITERAL(tail, ",\"partition\":");
    json_write_string(tail, pg_get_bytes(p->r, row, POP_PARTITION));
    BUF_PUT_LITERAL(tail, ",\"leaseId\":\"");
    if (!call->auto_ack)
        buf_put(tail, call->lease_text, UUID_TEXT_SIZE);
    BUF_PUT_LITERAL(tail, "\",\"consumerGroup\":");
    json_write_string(tail, call->group);
    BUF_PUT_LITERAL(tail, ",\"deliveryAttempt\":");
    buf_put_int(tail, pg_get_int4(p->r, row, POP_ATTEMPT));
    buf_putc(tail, '}');
}

static void pop_render_message(struct pop_rendering *p, const struct frame *f,
                               const char created[CLOCK_ISO_SIZE])
{
    struct buf *out = p->body;
    if (p->messages++ > 0)
        buf_putc(out, ',');
    BUF_PUT_LITERAL(out, "{\"id\":");
    json_write_uuid(out, &f->message_id);
    BUF_PUT_LITERAL(out, ",\"transactionId\":");
    json_write_string(out, f->transaction_id);
    BUF_PUT_LITERAL(out, ",\"traceId\":");
    if (f->flags & FRAME_TRACE)
        json_write_uuid(out, &f->trace_id);
    else
        BUF_PUT_LITERAL(out, "null");
    BUF_PUT_LITERAL(out, ",\"data\":");
    if (f->payload.n > 0)
        buf_put_slice(out, f->payload);
    else
        BUF_PUT_LITERAL(out, "null");
    BUF_PUT_LITERAL(out, ",\"producerSub\":");
    if (f->flags & FRAME_PRODUCER)
        json_write_string(out, f->producer_sub);
    else
        BUF_PUT_LITERAL(out, "null");
    BUF_PUT_LITERAL(out, ",\"createdAt\":\"");
    buf_put(out, created, CLOCK_ISO_SIZE - 1);
    buf_putc(out, '"');
    buf_put_slice(out, buf_slice(&p->tail));
}

/* One claimed run of a segment: frames start .. start + take - 1. */
static void pop_render_segment(struct pop_rendering *p, int row)
{
    struct worker *w = p->call->w;
    struct err err;
    int64_t start = pg_get_int4(p->r, row, POP_START), take = pg_get_int4(p->r, row, POP_TAKE);
    char created[CLOCK_ISO_SIZE];
    clock_iso_utc(pg_get_time_us(p->r, row, POP_CREATED), created);
    int64_t age_us = clock_wall_us() - pg_get_time_us(p->r, row, POP_CREATED);
    if (age_us > 0) /* the server's clock may be ahead */
        WORKER_COUNT(w, pop_lag_ms, (uint64_t)(age_us / 1000 * take));
    if (!segment_unpack(w->unpacker, pg_get_bytes(p->r, row, POP_BLOB), &w->frames, &err)) {
        p->complete = false;
        logger_error("pop", "segment at offset %lld cannot be read: %s",
                     (long long)pg_get_int8(p->r, row, POP_BASE), err.text);
        return;
    }
    size_t at = 0;
    for (int64_t i = 0; i < start + take; i++) {
        struct frame frame;
        if (!frame_read(buf_slice(&w->frames), &at, &frame)) {
            p->complete = false;
            logger_error("pop", "segment at offset %lld ends at frame %lld",
                         (long long)pg_get_int8(p->r, row, POP_BASE), (long long)i);
            return;
        }
        if (i < start)
            continue;
        pop_render_message(p, &frame, created);
        struct txn_hash hash = txn_hash_of(frame.transaction_id);
        buf_put(&p->hashes, &hash, sizeof hash);
    }
}

/* Entries are born on a leasing pop that delivered every frame of its batch. */
static void pop_register(struct pop_rendering *p, int row)
{
    const struct pop_call *call = p->call;
    size_t count = p->hashes.n / sizeof(struct txn_hash), distinct;
    if (!p->complete || count == 0 || call->auto_ack || !call->w->settings.ack_registry)
        return;
    struct uuid id = pg_get_uuid(p->r, row, POP_PARTITION_ID);
    int32_t conflated =
        pg_is_null(p->r, row, POP_CONFLATED) ? -1 : pg_get_int4(p->r, row, POP_CONFLATED);
    struct registry_batch batch = {
        .lease_id = call->lease_id,
        .batch_end = pg_get_int8(p->r, row, POP_BATCH_END),
        .message_count = (uint32_t)count + (uint32_t)(conflated > 0 ? conflated : 0),
        .conflated = conflated,
        .fingerprint =
            txn_hash_fingerprint((struct txn_hash *)(void *)p->hashes.p, count, &distinct),
        .expires_mono_ms = clock_mono_ms() +
                           (uint64_t)pg_get_int4(p->r, row, POP_LEASE_SECONDS) * 1000u +
                           REGISTRY_MARGIN_MS,
        .queue = table_hash(pg_get_bytes(p->r, row, POP_QUEUE), (struct slice){0}),
    };
    registry_put(call->w->shm, &id, call->group, &batch);
}

/* Does the answer tell the policy, and which one? Discovery tells it only to who asked. */
struct pop_echo {
    bool conflates, conflict;
};

static struct pop_echo pop_echo_of(const struct pop_call *call)
{
    enum pop_policy policy = call->policy;
    if (call->discovery && call->conflation == POP_UNSAID)
        return (struct pop_echo){false, false};
    if (policy == POP_POLICY_UNKNOWN && call->set != NULL)
        policy = call->set->policy;
    if (policy == POP_POLICY_UNKNOWN) /* PostgreSQL could not be asked: what the first pop gets */
        policy = call->conflation == POP_YES ? POP_CONFLATES : POP_PLAIN;
    enum pop_policy asked = call->conflation == POP_YES ? POP_CONFLATES : POP_PLAIN;
    return (struct pop_echo){policy == POP_CONFLATES,
                             call->conflation != POP_UNSAID && policy != asked};
}

static void pop_render_echo(const struct pop_echo *echo, struct buf *out)
{
    if (echo->conflates)
        BUF_PUT_LITERAL(out, ",\"conflation\":true");
    if (echo->conflict)
        BUF_PUT_LITERAL(out, ",\"conflationConflict\":true");
}

/* Told when something was chosen: what the client sent is part of the answer then. */
static void pop_render_autopilot(const struct pop_rendering *p, int row)
{
    const struct pop_call *call = p->call;
    bool chose_partitions = !pg_is_null(p->r, row, POP_AUTO_PARTITIONS);
    bool chose_batch = !pg_is_null(p->r, row, POP_AUTO_BATCH);
    if (!chose_partitions && !chose_batch)
        return;
    BUF_PUT_LITERAL(p->body, ",\"autopilot\":{\"partitions\":");
    buf_put_int(p->body,
                chose_partitions ? pg_get_int4(p->r, row, POP_AUTO_PARTITIONS) : call->partitions);
    BUF_PUT_LITERAL(p->body, ",\"batch\":");
    buf_put_int(p->body, chose_batch ? pg_get_int4(p->r, row, POP_AUTO_BATCH) : call->batch);
    BUF_PUT_LITERAL(p->body, ",\"waitMs\":");
    buf_put_int(p->body, POP_AUTOPILOT_WAIT_MS);
    buf_putc(p->body, '}');
}

bool pop_render_empty(const struct pop_call *call, struct buf *body)
{
    struct pop_echo echo = pop_echo_of(call);
    if (!echo.conflates && !echo.conflict)
        return false;
    BUF_PUT_LITERAL(body, "{\"success\":true,\"queue\":");
    json_write_string(body, call->queue);
    BUF_PUT_LITERAL(body, ",\"partition\":\"\",\"partitionId\":\"\",\"leaseId\":\"\","
                          "\"consumerGroup\":");
    json_write_string(body, call->group);
    BUF_PUT_LITERAL(body, ",\"messages\":[],\"partitionsClaimed\":0");
    pop_render_echo(&echo, body);
    buf_putc(body, '}');
    return true;
}

static void pop_render_head(struct pop_rendering *p, int first)
{
    const struct pop_call *call = p->call;
    struct buf *out = p->body;
    struct uuid id = pg_get_uuid(p->r, first, POP_PARTITION_ID);
    BUF_PUT_LITERAL(out, "{\"success\":true,\"queue\":");
    json_write_string(out, call->queue);
    BUF_PUT_LITERAL(out, ",\"partition\":");
    json_write_string(out, pg_get_bytes(p->r, first, POP_PARTITION));
    BUF_PUT_LITERAL(out, ",\"partitionId\":");
    json_write_uuid(out, &id);
    BUF_PUT_LITERAL(out, ",\"leaseId\":\"");
    if (!call->auto_ack)
        buf_put(out, call->lease_text, UUID_TEXT_SIZE);
    BUF_PUT_LITERAL(out, "\",\"consumerGroup\":");
    json_write_string(out, call->group);
    BUF_PUT_LITERAL(out, ",\"messages\":[");
}

size_t pop_render(struct pop_call *call, const PGresult *r, int first, int last, struct buf *body)
{
    struct pop_rendering p = {.call = call, .r = r, .body = body};
    int partitions = 0;
    pop_render_head(&p, first);
    for (int row = first; row < last;) {
        struct uuid id = pg_get_uuid(r, row, POP_PARTITION_ID);
        int begin = row;
        p.complete = true;
        buf_clear(&p.hashes);
        pop_render_tail(&p, row);
        for (; row < last; row++) {
            struct uuid next = pg_get_uuid(r, row, POP_PARTITION_ID);
            if (!uuid_equal(&id, &next))
                break;
            pop_render_segment(&p, row);
        }
        pop_register(&p, begin);
        partitions++;
    }
    BUF_PUT_LITERAL(body, "],\"partitionsClaimed\":");
    buf_put_int(body, partitions);
    struct pop_echo echo = pop_echo_of(call);
    pop_render_echo(&echo, body);
    if (!echo.conflates)
        pop_render_autopilot(&p, first);
    buf_putc(body, '}');
    buf_free(&p.tail);
    buf_free(&p.hashes);
    return p.messages;
}
