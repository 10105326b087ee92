/* One message by its address, partition id and transaction id: detail, deletion of its dead
 * letters, dead-lettering by request. The address resolves by hash; where the hashes are purged
 * already, segments are opened one by one. */
#include "worker/messages.h"

#include "base/logger.h"
#include "log/txn_hash.h"
#include "wire/json.h"
#include "wire/json_write.h"
#include "worker/admin.h"

enum {
    SCAN_SEGMENTS = 5000, /* most segments that a search opens */
    SCAN_STEP = 32,       /* of them at once: other requests run in between */
};

static const struct pg_statement detail_statement = {
    .name = "message_detail",
    .sql = "select partition, queue, namespace, task, scan_below, \"offset\", base_offset,"
           " created_at, blob, status, consumed_by, total_groups, lease_expires_at, queue_mode,"
           " error, retry_count, config, consumer_groups"
           " from queen.message_detail_v1($1, $2, $3)",
    .param_count = 3,
    .types = {PG_UUID, PG_BYTEA, PG_INT8}};

static const struct pg_statement scan_statement = {
    .name = "message_scan",
    .sql = "select base_offset, blob from queen.message_scan_v1($1, $2, $3)",
    .param_count = 3,
    .types = {PG_UUID, PG_INT8, PG_INT4}};

static const struct pg_statement delete_statement = {.name = "message_delete",
                                                     .sql =
                                                         "select queen.message_delete_v1($1, $2)",
                                                     .param_count = 2,
                                                     .types = {PG_UUID, PG_BYTEA}};

static const struct pg_statement dead_letter_statement = {
    .name = "message_dead_letter",
    .sql = "select queen.message_dead_letter_v1($1, $2, $3, $4, $5, $6,"
           " timestamptz 'epoch' + $7 * interval '1 microsecond', $8)",
    .param_count = 8,
    .types = {PG_UUID, PG_UUID, PG_INT8, PG_UUID, PG_BYTEA, PG_BYTEA, PG_INT8, PG_TEXT}};

enum {
    DETAIL_PARTITION,
    DETAIL_QUEUE,
    DETAIL_NAMESPACE,
    DETAIL_TASK,
    DETAIL_SCAN_BELOW,
    DETAIL_OFFSET,
    DETAIL_BASE,
    DETAIL_CREATED,
    DETAIL_BLOB,
    DETAIL_STATUS,
    DETAIL_CONSUMED,
    DETAIL_GROUPS,
    DETAIL_LEASE,
    DETAIL_QUEUE_MODE,
    DETAIL_ERROR,
    DETAIL_RETRIES,
    DETAIL_CONFIG,
    DETAIL_CONSUMERS,
};

struct message_call {
    struct admin_call admin;
    struct uuid partition_id;
    struct slice transaction_id;
    struct txn_hash hash;
    int64_t offset;     /* -1 = not known yet */
    int64_t scan_below; /* the search goes on below this offset */
    int scanned;        /* segments */
    /* Only for a dead letter by request. */
    bool dead_letter;
    struct uuid letter_id, message_id;
    int64_t created_us;
    struct slice payload, reason;
};

static struct message_call *message_of_job(const struct pg_job *job)
{
    return TABLE_OWNER(TABLE_OWNER(job, struct admin_call, job), struct message_call, admin);
}

static void message_write_address(struct buf *body, const struct message_call *call)
{
    BUF_PUT_LITERAL(body, "\"partitionId\":");
    json_write_uuid(body, &call->partition_id);
    BUF_PUT_LITERAL(body, ",\"transactionId\":");
    json_write_string(body, call->transaction_id);
}

static int message_not_found(struct buf *body)
{
    BUF_PUT_LITERAL(body, "{\"error\":\"Message not found\"}");
    return 404;
}

/* NULL: the address cannot exist, answered. */
static struct message_call *message_call_new(struct worker *w, struct request *r,
                                             struct slice partition_id, struct slice transaction_id)
{
    struct message_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    if (!uuid_parse(partition_id, &call->partition_id)) {
        request_answer_error(r, 404, "Message not found");
        return NULL;
    }
    call->transaction_id = transaction_id;
    call->hash = txn_hash_of(transaction_id);
    call->offset = -1;
    admin_call_init(&call->admin, w, r, w->admin_lane, NULL, NULL);
    return call;
}

static void detail_build(struct pg_job *job, struct pg_params *params)
{
    const struct message_call *call = message_of_job(job);
    pg_param_uuid(params, &call->partition_id);
    pg_param_bytea(params, (struct slice){(const char *)call->hash.bytes, TXN_HASH_SIZE});
    if (call->offset < 0)
        pg_param_null(params);
    else
        pg_param_int8(params, call->offset);
}

static void detail_write(struct buf *body, const struct message_call *call, const PGresult *r,
                         const struct frame *frame)
{
    struct message_view m = {
        .partition_id = call->partition_id,
        .queue = pg_get_bytes(r, 0, DETAIL_QUEUE),
        .partition = pg_get_bytes(r, 0, DETAIL_PARTITION),
        .namespace = pg_get_bytes(r, 0, DETAIL_NAMESPACE),
        .task = pg_get_bytes(r, 0, DETAIL_TASK),
        .status = pg_get_bytes(r, 0, DETAIL_STATUS),
        .base_offset = pg_get_int8(r, 0, DETAIL_BASE),
        .offset = pg_get_int8(r, 0, DETAIL_OFFSET),
        .created_us = pg_get_time_us(r, 0, DETAIL_CREATED),
        .consumed_by = pg_get_int4(r, 0, DETAIL_CONSUMED),
        .total_groups = pg_get_int4(r, 0, DETAIL_GROUPS),
        .leased = !pg_is_null(r, 0, DETAIL_LEASE),
        .frame = frame,
    };
    if (m.leased)
        m.lease_us = pg_get_time_us(r, 0, DETAIL_LEASE);
    buf_putc(body, '{');
    message_write(body, &m);
    BUF_PUT_LITERAL(body, ",\"isEncrypted\":");
    json_write_bool(body, frame->flags & FRAME_ENCRYPTED);
    BUF_PUT_LITERAL(body, ",\"errorMessage\":");
    if (pg_is_null(r, 0, DETAIL_ERROR))
        BUF_PUT_LITERAL(body, "null");
    else
        json_write_string(body, pg_get_bytes(r, 0, DETAIL_ERROR));
    buf_printf(body,
               ",\"retryCount\":%d,\"consumerGroups\":", (int)pg_get_int4(r, 0, DETAIL_RETRIES));
    buf_put_slice(body, pg_get_bytes(r, 0, DETAIL_CONSUMERS));
    BUF_PUT_LITERAL(body, ",\"queueConfig\":");
    buf_put_slice(body, pg_get_bytes(r, 0, DETAIL_CONFIG));
    BUF_PUT_LITERAL(body, ",\"mode\":");
    message_write_mode(body, pg_get_bool(r, 0, DETAIL_QUEUE_MODE), m.total_groups);
    buf_putc(body, '}');
}

static void dead_letter_build(struct pg_job *job, struct pg_params *params)
{
    const struct message_call *call = message_of_job(job);
    pg_param_uuid(params, &call->letter_id);
    pg_param_uuid(params, &call->partition_id);
    pg_param_int8(params, call->offset);
    pg_param_uuid(params, &call->message_id);
    pg_param_bytea(params, call->transaction_id);
    pg_param_bytea(params, call->payload);
    pg_param_int8(params, call->created_us);
    pg_param_text(params, call->reason);
}

static int dead_letter_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    const struct message_call *call = TABLE_OWNER(admin, struct message_call, admin);
    bool filed = pg_is_null(r, 0, 0);
    buf_printf(body, "{\"success\":%s,", filed ? "true" : "false");
    message_write_address(body, call);
    if (filed) {
        WORKER_COUNT(admin->w, ack_dead_letters, 1);
        BUF_PUT_LITERAL(body, ",\"dlqId\":");
        json_write_uuid(body, &call->letter_id);
        BUF_PUT_LITERAL(body, ",\"message\":\"Message moved to the dead-letter queue\"}");
        return 200;
    }
    BUF_PUT_LITERAL(body, ",\"error\":");
    json_write_string(body, pg_get_bytes(r, 0, 0));
    buf_putc(body, '}');
    return 409;
}

static void dead_letter_start(struct message_call *call, const PGresult *r,
                              const struct frame *frame)
{
    call->offset = pg_get_int8(r, 0, DETAIL_OFFSET);
    call->created_us = pg_get_time_us(r, 0, DETAIL_CREATED);
    call->message_id = frame->message_id;
    call->payload = arena_copy(request_arena(call->admin.r), frame->payload);
    admin_call_next(&call->admin, &dead_letter_statement, dead_letter_build, dead_letter_render);
}

static void scan_start(struct message_call *call);

static int detail_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    struct message_call *call = TABLE_OWNER(admin, struct message_call, admin);
    struct worker *w = admin->w;
    struct err err;
    struct frame frame;
    size_t at = 0;
    if (PQntuples(r) == 0)
        return message_not_found(body);
    if (pg_is_null(r, 0, DETAIL_OFFSET)) {
        if (call->offset >= 0) /* retention was faster */
            return message_not_found(body);
        call->scan_below = pg_get_int8(r, 0, DETAIL_SCAN_BELOW);
        scan_start(call);
        return 0;
    }
    int64_t index = pg_get_int8(r, 0, DETAIL_OFFSET) - pg_get_int8(r, 0, DETAIL_BASE);
    bool ok = segment_unpack(w->unpacker, pg_get_bytes(r, 0, DETAIL_BLOB), &w->frames, &err) ||
              err_prefix(&err, "segment at offset %lld", (long long)pg_get_int8(r, 0, DETAIL_BASE));
    for (int64_t i = 0; ok && i <= index; i++)
        ok = frame_read(buf_slice(&w->frames), &at, &frame) ||
             err_set(&err, "segment at offset %lld ends at frame %lld",
                     (long long)pg_get_int8(r, 0, DETAIL_BASE), (long long)i);
    if (!ok) {
        logger_error("messages", "%s", err.text);
        BUF_PUT_LITERAL(body, "{\"error\":\"frame decode failed\"}");
        return 500;
    }
    if (call->dead_letter) {
        dead_letter_start(call, r, &frame);
        return 0;
    }
    detail_write(body, call, r, &frame);
    return 200;
}

static void scan_build(struct pg_job *job, struct pg_params *params)
{
    const struct message_call *call = message_of_job(job);
    pg_param_uuid(params, &call->partition_id);
    pg_param_int8(params, call->scan_below);
    pg_param_int4(params, SCAN_STEP);
}

/* The offset of the first frame with the transaction id, or -1. */
static int64_t scan_segment(struct message_call *call, struct slice blob, int64_t base)
{
    struct worker *w = call->admin.w;
    struct err err;
    struct frame frame;
    size_t at = 0;
    if (!segment_unpack(w->unpacker, blob, &w->frames, &err)) {
        logger_error("messages", "segment at offset %lld cannot be read: %s", (long long)base,
                     err.text);
        return -1;
    }
    for (int64_t i = 0; at < w->frames.n && frame_read(buf_slice(&w->frames), &at, &frame); i++)
        if (slice_equal(frame.transaction_id, call->transaction_id))
            return base + i;
    return -1;
}

static int scan_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    struct message_call *call = TABLE_OWNER(admin, struct message_call, admin);
    for (int row = 0; row < PQntuples(r); row++) {
        call->scan_below = pg_get_int8(r, row, 0);
        call->offset = scan_segment(call, pg_get_bytes(r, row, 1), call->scan_below);
        if (call->offset >= 0) {
            admin_call_next(admin, &detail_statement, detail_build, detail_render);
            return 0;
        }
    }
    call->scanned += PQntuples(r);
    if (PQntuples(r) == 0 || call->scanned >= SCAN_SEGMENTS)
        return message_not_found(body);
    scan_start(call);
    return 0;
}

static void scan_start(struct message_call *call)
{
    admin_call_next(&call->admin, &scan_statement, scan_build, scan_render);
}

void message_handle_get(struct worker *w, struct request *r, struct slice partition_id,
                        struct slice transaction_id)
{
    struct message_call *call = message_call_new(w, r, partition_id, transaction_id);
    if (call != NULL)
        admin_call_next(&call->admin, &detail_statement, detail_build, detail_render);
}

static void delete_build(struct pg_job *job, struct pg_params *params)
{
    const struct message_call *call = message_of_job(job);
    pg_param_uuid(params, &call->partition_id);
    pg_param_bytea(params, call->transaction_id);
}

static int delete_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    const struct message_call *call = TABLE_OWNER(admin, struct message_call, admin);
    /* After an unsettled try they are gone either way, and this call has deleted them. */
    bool deleted = pg_get_int8(r, 0, 0) > 0 || admin->unsettled;
    buf_printf(body, "{\"success\":%s,", deleted ? "true" : "false");
    message_write_address(body, call);
    if (deleted) {
        BUF_PUT_LITERAL(body, ",\"message\":\"Message deleted successfully\"}");
        return 200;
    }
    BUF_PUT_LITERAL(body, ",\"error\":\"Message not found\",\"message\":\"No dead-letter row for "
                          "this address. Live messages live in immutable segments and cannot be "
                          "deleted\"}");
    return 404;
}

static void message_answer_delete_bad(struct request *r, struct slice partition_id,
                                      struct slice transaction_id)
{
    struct buf body = {0};
    BUF_PUT_LITERAL(&body, "{\"success\":false,\"partitionId\":");
    json_write_string(&body, partition_id);
    BUF_PUT_LITERAL(&body, ",\"transactionId\":");
    json_write_string(&body, transaction_id);
    BUF_PUT_LITERAL(&body, ",\"error\":\"Message not found\"}");
    request_answer(r, 404, NULL, (struct slice){0}, &body);
}

void message_handle_delete(struct worker *w, struct request *r, struct slice partition_id,
                           struct slice transaction_id)
{
    struct uuid id;
    if (!uuid_parse(partition_id, &id)) {
        message_answer_delete_bad(r, partition_id, transaction_id);
        return;
    }
    struct message_call *call = message_call_new(w, r, partition_id, transaction_id);
    if (call != NULL)
        admin_call_next(&call->admin, &delete_statement, delete_build, delete_render);
}

/* The optional body: {"error":"reason"}. */
static bool dead_letter_body(struct request *r, struct slice *reason, struct err *err)
{
    struct slice text = request_body(r);
    struct json_value body, error;
    const struct json_field fields[] = {{"error", &error}};
    size_t space = 0;
    while (space < text.n && strchr(" \t\r\n", text.p[space]) != NULL && text.p[space] != '\0')
        space++;
    *reason = SLICE_LITERAL("Moved to the dead-letter queue by request");
    if (space == text.n)
        return true;
    if (!json_validate(text, &body, err))
        return false;
    if (body.type == JSON_NULL)
        return true;
    if (!json_pick(body, fields, 1, err))
        return false;
    if (!json_present(error))
        return true;
    if (!json_string(error, request_arena(r), reason, err))
        return false;
    return memchr(reason->p, 0, reason->n) == NULL ||
           err_set(err, "error holds a NUL character, which is not allowed");
}

void message_handle_dead_letter(struct worker *w, struct request *r, struct slice partition_id,
                                struct slice transaction_id)
{
    struct err err;
    struct slice reason;
    if (!dead_letter_body(r, &reason, &err)) {
        request_answer_error(r, 400, "bad body: %s", err.text);
        return;
    }
    struct message_call *call = message_call_new(w, r, partition_id, transaction_id);
    if (call == NULL)
        return;
    call->dead_letter = true;
    call->reason = reason;
    call->letter_id = uuid_v7();
    admin_call_next(&call->admin, &detail_statement, detail_build, detail_render);
}
