/* The dead letters of many messages: GET /api/v1/dlq, newest first, and DELETE /api/v1/dlq, the
 * purge of a queue (contract 2, section 3). */
#include "worker/dlq.h"

#include "wire/json_write.h"
#include "wire/uri.h"
#include "worker/admin.h"
#include "worker/listing.h"

enum { DLQ_DEFAULT_LIMIT = 100 };

static const struct pg_statement list_statement = {
    .name = "dlq_list",
    .sql = "select id, transaction_id, partition_id, queue, partition, consumer_group, error,"
           " retry_count, payload, created_at, failed_at"
           " from queen.dlq_list_v1($1, $2, $3, queen.time_parameter_v1('from', $4),"
           " queen.time_parameter_v1('to', $5), $6, $7)",
    .param_count = 7,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_INT4, PG_INT4}};

enum {
    DLQ_ID,
    DLQ_TRANSACTION_ID,
    DLQ_PARTITION_ID,
    DLQ_QUEUE,
    DLQ_PARTITION,
    DLQ_GROUP,
    DLQ_ERROR,
    DLQ_RETRY_COUNT,
    DLQ_PAYLOAD,
    DLQ_CREATED,
    DLQ_FAILED,
};

static void dlq_build(struct pg_job *job, struct pg_params *params)
{
    const struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    for (int i = 0; i < 5; i++)
        pg_param_text(params, call->text[i]);
    pg_param_int4(params, (int32_t)call->number[0]);
    pg_param_int4(params, (int32_t)call->number[1]);
}

static void dlq_write_row(struct buf *body, const PGresult *r, int row)
{
    struct uuid id = pg_get_uuid(r, row, DLQ_ID);
    struct uuid partition_id = pg_get_uuid(r, row, DLQ_PARTITION_ID);
    BUF_PUT_LITERAL(body, "{\"id\":");
    json_write_uuid(body, &id);
    listing_write_text(body, "transactionId", r, row, DLQ_TRANSACTION_ID);
    BUF_PUT_LITERAL(body, ",\"partitionId\":");
    json_write_uuid(body, &partition_id);
    listing_write_text(body, "queue", r, row, DLQ_QUEUE);
    listing_write_text(body, "partition", r, row, DLQ_PARTITION);
    listing_write_text(body, "consumerGroup", r, row, DLQ_GROUP);
    listing_write_text(body, "errorMessage", r, row, DLQ_ERROR);
    BUF_PUT_LITERAL(body, ",\"retryCount\":");
    buf_put_int(body, pg_get_int4(r, row, DLQ_RETRY_COUNT));
    BUF_PUT_LITERAL(body, ",\"data\":");
    struct slice payload =
        pg_is_null(r, row, DLQ_PAYLOAD) ? (struct slice){0} : pg_get_bytes(r, row, DLQ_PAYLOAD);
    if (payload.n > 0)
        buf_put_slice(body, payload); /* the message's own JSON bytes */
    else
        BUF_PUT_LITERAL(body, "null");
    BUF_PUT_LITERAL(body, ",\"producerSub\":null");
    listing_write_time(body, "createdAt", r, row, DLQ_CREATED);
    listing_write_time(body, "failedAt", r, row, DLQ_FAILED);
    buf_putc(body, '}');
}

static int dlq_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    BUF_PUT_LITERAL(body, "{\"messages\":[");
    for (int row = 0; row < PQntuples(r); row++) {
        if (row > 0)
            buf_putc(body, ',');
        dlq_write_row(body, r, row);
    }
    buf_printf(body, "],\"pagination\":{\"limit\":%lld,\"offset\":%lld},\"total\":%d}",
               (long long)call->number[0], (long long)call->number[1], PQntuples(r));
    return 200;
}

void dlq_handle_list(struct worker *w, struct request *r)
{
    static const char *const names[] = {"queue", "consumerGroup", "partition", "from", "to"};
    struct slice path, query;
    struct admin_call *call = admin_call_new(w, r, w->report_lane, &list_statement, dlq_build);
    uri_split(request_head(r)->target, &path, &query);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!listing_read_text(r, query, names[i], &call->text[i]))
            return;
    if (!listing_read_page(r, query, DLQ_DEFAULT_LIMIT, &call->number[0], &call->number[1]))
        return;
    call->render = dlq_render;
    admin_call_start(call);
}

/* Rows deleted in one transaction: a purge of any size keeps its locks short. */
enum { PURGE_STEP = 10000 };

static const struct pg_statement purge_statement = {.name = "dlq_purge",
                                                    .sql = "select queen.dlq_purge_v1($1, $2, $3)",
                                                    .param_count = 3,
                                                    .types = {PG_TEXT, PG_TEXT, PG_INT4}};

enum { PURGE_QUEUE, PURGE_GROUP };

static void purge_build(struct pg_job *job, struct pg_params *params)
{
    const struct admin_call *call = TABLE_OWNER(job, struct admin_call, job);
    pg_param_text(params, call->text[PURGE_QUEUE]);
    pg_param_text(params, call->text[PURGE_GROUP]);
    pg_param_int4(params, PURGE_STEP);
}

static int purge_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    int64_t deleted = pg_get_int8(r, 0, 0);
    call->number[0] += deleted;
    if (deleted == PURGE_STEP) {
        admin_call_next(call, &purge_statement, purge_build, purge_render);
        return 0;
    }
    buf_printf(body, "{\"success\":true,\"deleted\":%lld,\"queue\":", (long long)call->number[0]);
    json_write_string(body, call->text[PURGE_QUEUE]);
    BUF_PUT_LITERAL(body, ",\"consumerGroup\":");
    if (call->text[PURGE_GROUP].n > 0)
        json_write_string(body, call->text[PURGE_GROUP]);
    else
        BUF_PUT_LITERAL(body, "null");
    buf_putc(body, '}');
    return 200;
}

void dlq_handle_purge(struct worker *w, struct request *r)
{
    struct slice path, query;
    struct admin_call *call = admin_call_new(w, r, w->report_lane, &purge_statement, purge_build);
    uri_split(request_head(r)->target, &path, &query);
    if (!listing_read_text(r, query, "queue", &call->text[PURGE_QUEUE]) ||
        !listing_read_text(r, query, "consumerGroup", &call->text[PURGE_GROUP]))
        return;
    if (call->text[PURGE_QUEUE].n == 0) {
        struct buf body = {0};
        BUF_PUT_LITERAL(&body, "{\"success\":false,\"error\":\"queue is required\",\"message\":"
                               "\"Bulk DLQ purge requires an exact queue name\"}");
        request_answer(r, 400, NULL, (struct slice){0}, &body);
        return;
    }
    call->render = purge_render;
    admin_call_start(call);
}
