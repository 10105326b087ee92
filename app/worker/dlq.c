/* GET /api/v1/dlq: the dead letters, newest first (contract 2, section 3). */
#include "worker/admin.h"

#include "wire/json_write.h"
#include "wire/uri.h"

enum { DLQ_DEFAULT_LIMIT = 100, DLQ_MAX_LIMIT = 1000 };

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

static void dlq_write_text(struct buf *body, const char *key, const PGresult *r, int row, int col)
{
    buf_printf(body, ",\"%s\":", key);
    if (pg_is_null(r, row, col))
        BUF_PUT_LITERAL(body, "null");
    else
        json_write_string(body, pg_get_bytes(r, row, col));
}

static void dlq_write_time(struct buf *body, const char *key, const PGresult *r, int row, int col)
{
    buf_printf(body, ",\"%s\":", key);
    if (pg_is_null(r, row, col))
        BUF_PUT_LITERAL(body, "null");
    else
        json_write_time(body, pg_get_time_us(r, row, col));
}

static void dlq_write_row(struct buf *body, const PGresult *r, int row)
{
    struct uuid id = pg_get_uuid(r, row, DLQ_ID);
    struct uuid partition_id = pg_get_uuid(r, row, DLQ_PARTITION_ID);
    BUF_PUT_LITERAL(body, "{\"id\":");
    json_write_uuid(body, &id);
    dlq_write_text(body, "transactionId", r, row, DLQ_TRANSACTION_ID);
    BUF_PUT_LITERAL(body, ",\"partitionId\":");
    json_write_uuid(body, &partition_id);
    dlq_write_text(body, "queue", r, row, DLQ_QUEUE);
    dlq_write_text(body, "partition", r, row, DLQ_PARTITION);
    dlq_write_text(body, "consumerGroup", r, row, DLQ_GROUP);
    dlq_write_text(body, "errorMessage", r, row, DLQ_ERROR);
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
    dlq_write_time(body, "createdAt", r, row, DLQ_CREATED);
    dlq_write_time(body, "failedAt", r, row, DLQ_FAILED);
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
    struct err err;
    struct slice path, query;
    struct admin_call *call = admin_call_new(w, r, w->admin_lane, &list_statement, dlq_build);
    uri_split(request_head(r)->target, &path, &query);
    call->number[0] = DLQ_DEFAULT_LIMIT;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        call->text[i] = (struct slice){"", 0};
        bool ok = uri_param_text(query, names[i], request_arena(r), &call->text[i], &err);
        int status = !ok                    ? 400
                     : call->text[i].n == 0 ? 0
                                            : name_check(names[i], call->text[i], &err);
        if (status != 0) {
            request_answer_error(r, status, "%s", err.text);
            return;
        }
    }
    if (!uri_param_int(query, "limit", &call->number[0], &err) ||
        !uri_param_int(query, "offset", &call->number[1], &err)) {
        request_answer_error(r, 400, "%s", err.text);
        return;
    }
    call->number[0] = call->number[0] < 1               ? 1
                      : call->number[0] > DLQ_MAX_LIMIT ? DLQ_MAX_LIMIT
                                                        : call->number[0];
    call->number[1] = call->number[1] < 0           ? 0
                      : call->number[1] > INT32_MAX ? INT32_MAX
                                                    : call->number[1];
    call->render = dlq_render;
    admin_call_start(call);
}
