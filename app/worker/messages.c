/* GET /api/v1/messages, and how a message is shown. SQL picks the page; its segments are opened
 * here. */
#include "worker/messages.h"

#include "base/logger.h"
#include "log/txn_hash.h"
#include "wire/json_write.h"
#include "wire/uri.h"
#include "worker/admin.h"
#include "worker/listing.h"

enum { MESSAGES_DEFAULT_LIMIT = 200 };
/* A page whose messages are larger than this shows the others without payload. */
#define MESSAGES_MAX_BYTES (256u * 1024u * 1024u)

static const struct pg_statement list_statement = {
    .name = "messages_list",
    .sql = "select m.queue_mode, m.bus_groups, l.partition_id, l.partition, l.queue, l.namespace,"
           " l.task, l.base_offset, l.\"offset\", l.created_at, l.status, l.consumed_by,"
           " l.total_groups, l.lease_expires_at, l.blob"
           " from queen.messages_mode_v1($1, $3, $4) as m"
           " left join queen.messages_list_v1($1, $2, $3, $4, $5,"
           " queen.time_parameter_v1('from', $6), queen.time_parameter_v1('to', $7), $8, $9)"
           " with ordinality as l on true order by l.ordinality",
    .param_count = 9,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_INT4, PG_INT4}};

enum {
    LIST_QUEUE_MODE,
    LIST_BUS_GROUPS,
    LIST_PARTITION_ID,
    LIST_PARTITION,
    LIST_QUEUE,
    LIST_NAMESPACE,
    LIST_TASK,
    LIST_BASE,
    LIST_OFFSET,
    LIST_CREATED,
    LIST_STATUS,
    LIST_CONSUMED,
    LIST_GROUPS,
    LIST_LEASE,
    LIST_BLOB,
};

enum { FILTERS = 7 };

struct messages_call {
    struct admin_call admin;
    struct slice filters[FILTERS];
};

void message_write_mode(struct buf *body, bool queue_mode, int64_t bus_groups)
{
    BUF_PUT_LITERAL(body, "{\"hasQueueMode\":");
    json_write_bool(body, queue_mode);
    buf_printf(body, ",\"busGroupsCount\":%lld,\"type\":\"%s\"}", (long long)bus_groups,
               bus_groups == 0 ? (queue_mode ? "queue" : "none")
               : queue_mode    ? "hybrid"
                               : "bus");
}

static void message_write_member(struct buf *body, const char *key, struct slice text)
{
    buf_printf(body, ",\"%s\":", key);
    json_write_string(body, text);
}

static void message_write_path(struct buf *body, struct slice queue, struct slice partition)
{
    struct buf path = {0};
    buf_put_slice(&path, queue);
    buf_putc(&path, '/');
    buf_put_slice(&path, partition);
    message_write_member(body, "queuePath", buf_slice(&path));
    buf_free(&path);
}

static void message_write_identity(struct buf *body, const struct frame *f)
{
    if (f == NULL) {
        BUF_PUT_LITERAL(body, "\"id\":null,\"transactionId\":null,\"txnHash\":null");
        return;
    }
    struct txn_hash hash = txn_hash_of(f->transaction_id);
    BUF_PUT_LITERAL(body, "\"id\":");
    json_write_uuid(body, &f->message_id);
    message_write_member(body, "transactionId", f->transaction_id);
    BUF_PUT_LITERAL(body, ",\"txnHash\":\"");
    for (size_t i = 0; i < TXN_HASH_SIZE; i++)
        buf_printf(body, "%02x", hash.bytes[i]);
    buf_putc(body, '"');
}

static void message_write_payload(struct buf *body, const char *key, const struct frame *f)
{
    buf_printf(body, ",\"%s\":", key);
    if (f != NULL && f->payload.n > 0)
        buf_put_slice(body, f->payload); /* the message's own JSON bytes */
    else
        BUF_PUT_LITERAL(body, "null");
}

void message_write(struct buf *body, const struct message_view *m)
{
    const struct frame *f = m->frame;
    message_write_identity(body, f);
    BUF_PUT_LITERAL(body, ",\"partitionId\":");
    json_write_uuid(body, &m->partition_id);
    message_write_path(body, m->queue, m->partition);
    message_write_member(body, "queue", m->queue);
    message_write_member(body, "partition", m->partition);
    message_write_member(body, "namespace", m->namespace);
    message_write_member(body, "task", m->task);
    message_write_member(body, "status", m->status);
    message_write_member(body, "queueStatus", m->status);
    buf_printf(body,
               ",\"busStatus\":{\"consumedBy\":%d,\"totalGroups\":%d},\"traceId\":", m->consumed_by,
               m->total_groups);
    if (f != NULL && (f->flags & FRAME_TRACE))
        json_write_uuid(body, &f->trace_id);
    else
        BUF_PUT_LITERAL(body, "null");
    BUF_PUT_LITERAL(body, ",\"producerSub\":");
    if (f != NULL && (f->flags & FRAME_PRODUCER))
        json_write_string(body, f->producer_sub);
    else
        BUF_PUT_LITERAL(body, "null");
    BUF_PUT_LITERAL(body, ",\"payloadAvailable\":");
    json_write_bool(body, f != NULL);
    buf_printf(body, ",\"segment\":{\"seq\":%lld,\"frameIdx\":%lld},\"createdAt\":",
               (long long)m->base_offset, (long long)(m->offset - m->base_offset));
    json_write_time(body, m->created_us);
    BUF_PUT_LITERAL(body, ",\"leaseExpiresAt\":");
    if (m->leased)
        json_write_time(body, m->lease_us);
    else
        BUF_PUT_LITERAL(body, "null");
    message_write_payload(body, "data", f);
    message_write_payload(body, "payload", f);
}

static void list_build(struct pg_job *job, struct pg_params *params)
{
    const struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    const struct messages_call *list = TABLE_OWNER(call, struct messages_call, admin);
    for (int i = 0; i < FILTERS; i++)
        pg_param_text(params, list->filters[i]);
    pg_param_int4(params, (int32_t)call->number[0]);
    pg_param_int4(params, (int32_t)call->number[1]);
}

/* Opens the segment that a row brings: where each frame begins, as size_t. */
static void list_open(struct worker *w, const PGresult *r, int row, struct buf *places)
{
    struct err err;
    struct frame frame;
    size_t at = 0, place = 0;
    buf_clear(places);
    if (!segment_unpack(w->unpacker, pg_get_bytes(r, row, LIST_BLOB), &w->frames, &err)) {
        logger_error("messages", "segment at offset %lld cannot be read: %s",
                     (long long)pg_get_int8(r, row, LIST_BASE), err.text);
        return;
    }
    while (at < w->frames.n && frame_read(buf_slice(&w->frames), &at, &frame)) {
        buf_put(places, &place, sizeof place);
        place = at;
    }
}

static bool list_frame(struct worker *w, const struct buf *places, int64_t index,
                       struct frame *frame)
{
    size_t at;
    if (index < 0 || (uint64_t)index >= places->n / sizeof at)
        return false;
    memcpy(&at, places->p + (size_t)index * sizeof at, sizeof at);
    return frame_read(buf_slice(&w->frames), &at, frame);
}

static void list_write_row(struct worker *w, const PGresult *r, int row, const struct buf *places,
                           struct buf *body)
{
    struct frame frame;
    struct message_view m = {
        .partition_id = pg_get_uuid(r, row, LIST_PARTITION_ID),
        .queue = pg_get_bytes(r, row, LIST_QUEUE),
        .partition = pg_get_bytes(r, row, LIST_PARTITION),
        .namespace = pg_get_bytes(r, row, LIST_NAMESPACE),
        .task = pg_get_bytes(r, row, LIST_TASK),
        .status = pg_get_bytes(r, row, LIST_STATUS),
        .base_offset = pg_get_int8(r, row, LIST_BASE),
        .offset = pg_get_int8(r, row, LIST_OFFSET),
        .created_us = pg_get_time_us(r, row, LIST_CREATED),
        .consumed_by = pg_get_int4(r, row, LIST_CONSUMED),
        .total_groups = pg_get_int4(r, row, LIST_GROUPS),
        .leased = !pg_is_null(r, row, LIST_LEASE),
    };
    if (m.leased)
        m.lease_us = pg_get_time_us(r, row, LIST_LEASE);
    if (body->n < MESSAGES_MAX_BYTES && list_frame(w, places, m.offset - m.base_offset, &frame))
        m.frame = &frame;
    buf_putc(body, '{');
    message_write(body, &m);
    buf_putc(body, '}');
}

static int list_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    struct buf places = {0};
    struct uuid open = {{0}};
    int64_t open_base = -1;
    int count = 0;
    BUF_PUT_LITERAL(body, "{\"messages\":[");
    for (int row = 0; row < PQntuples(r) && !pg_is_null(r, row, LIST_PARTITION_ID); row++) {
        struct uuid id = pg_get_uuid(r, row, LIST_PARTITION_ID);
        int64_t base = pg_get_int8(r, row, LIST_BASE);
        if (!pg_is_null(r, row, LIST_BLOB))
            list_open(call->w, r, row, &places);
        else if (!uuid_equal(&id, &open) || base != open_base)
            buf_clear(&places); /* one that the page has no room for */
        open = id;
        open_base = base;
        if (count++ > 0)
            buf_putc(body, ',');
        list_write_row(call->w, r, row, &places, body);
    }
    BUF_PUT_LITERAL(body, "],\"mode\":");
    message_write_mode(body, pg_get_bool(r, 0, LIST_QUEUE_MODE),
                       pg_get_int8(r, 0, LIST_BUS_GROUPS));
    buf_printf(body, ",\"total\":%d}", count);
    buf_free(&places);
    return 200;
}

void messages_handle_list(struct worker *w, struct request *r)
{
    static const char *const names[FILTERS] = {"queue",  "partition", "namespace", "task",
                                               "status", "from",      "to"};
    struct slice path, query;
    struct messages_call *call = arena_zarray(request_arena(r), 1, sizeof *call);
    admin_call_init(&call->admin, w, r, w->report_lane, &list_statement, list_build);
    uri_split(request_head(r)->target, &path, &query);
    for (size_t i = 0; i < FILTERS; i++)
        if (!listing_read_text(r, query, names[i], &call->filters[i]))
            return;
    if (call->filters[2].n == 0 && !listing_read_text(r, query, "ns", &call->filters[2]))
        return;
    if (!listing_read_page(r, query, MESSAGES_DEFAULT_LIMIT, &call->admin.number[0],
                           &call->admin.number[1]))
        return;
    call->admin.render = list_render;
    admin_call_start(&call->admin);
}
