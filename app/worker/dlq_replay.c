/* Replay of a dead letter: reads the row, makes its message a segment of one frame under the
 * transaction id dlq:<row id>, and moves it in one transaction (dlq_move_v1). The fixed id makes
 * a replay that is sent again a duplicate at worst. */
#include "worker/dlq.h"

#include "base/logger.h"
#include "log/txn_hash.h"
#include "pg/retry.h"
#include "shm/maintenance.h"
#include "wire/json.h"
#include "wire/json_write.h"
#include "worker/admin.h"
#include "worker/wake.h"

#define REPLAY_ID_PREFIX "dlq:"
enum { REPLAY_ID_SIZE = sizeof REPLAY_ID_PREFIX - 1 + UUID_TEXT_SIZE };

static const struct pg_statement read_statement = {
    .name = "dlq_read",
    .sql = "select id, queue, partition, consumer_group, transaction_id, payload"
           " from queen.dlq_read_v1($1, $2, $3)",
    .param_count = 3,
    .types = {PG_UUID, PG_UUID, PG_BYTEA}};

static const struct pg_statement move_statement = {
    .name = "dlq_move",
    .sql = "select result, off from queen.dlq_move_v1($1, $2, $3, $4, $5, $6, $7)",
    .param_count = 7,
    .types = {PG_UUID, PG_TEXT, PG_TEXT, PG_BYTEA, PG_BYTEA, PG_UUID, PG_BOOL}};

enum { READ_ID, READ_QUEUE, READ_PARTITION, READ_GROUP, READ_TRANSACTION_ID, READ_PAYLOAD };
enum { MOVE_RESULT, MOVE_OFFSET };

struct replay {
    struct admin_call admin;
    bool by_id; /* else by address */
    struct slice asked_id;
    struct uuid id; /* of the row; by address: known once it was read */
    struct slice partition_id_text, transaction_id;
    struct uuid partition_id;
    struct slice queue, partition; /* where to; empty = where it came from */
    /* Of the row, copied. */
    struct slice group, original_id;
    bool has_original_id;
    /* Of the new message. */
    char new_id[REPLAY_ID_SIZE];
    struct uuid message_id, request_id;
    struct slice blob;
    bool moving; /* the move was sent: from then on its outcome counts */
};

static struct replay *replay_of_job(const struct pg_job *job)
{
    return TABLE_OWNER(TABLE_OWNER(job, struct admin_call, job), struct replay, admin);
}

static void replay_write_text(struct buf *body, const char *key, struct slice text)
{
    buf_printf(body, ",\"%s\":", key);
    json_write_string(body, text);
}

static int replay_not_found(const struct replay *replay, struct buf *body)
{
    BUF_PUT_LITERAL(body, "{\"success\":false");
    if (replay->by_id) {
        BUF_PUT_LITERAL(body, ",\"result\":\"gone\"");
        replay_write_text(body, "dlqId", replay->asked_id);
        BUF_PUT_LITERAL(body, ",\"error\":\"Message not found\",\"message\":\"No dead-letter row "
                              "with this id: it was already replayed or purged\"}");
    } else {
        replay_write_text(body, "partitionId", replay->partition_id_text);
        replay_write_text(body, "transactionId", replay->transaction_id);
        BUF_PUT_LITERAL(body, ",\"error\":\"Message not found\",\"message\":\"No dead-letter row "
                              "for this address. Only dead-lettered messages can be replayed\"}");
    }
    return 404;
}

static void replay_answer_bad(struct request *r, int status, const char *text)
{
    struct buf body = {0};
    BUF_PUT_LITERAL(&body, "{\"success\":false");
    replay_write_text(&body, "error", slice_of(text));
    BUF_PUT_LITERAL(&body, ",\"message\":\"The replay body is optional; when present it may name a "
                           "queue and/or a partition to move the message to\"}");
    request_answer(r, status, NULL, (struct slice){0}, &body);
}

static void replay_fail(struct admin_call *admin, const struct pg_outcome *outcome)
{
    const struct replay *replay = TABLE_OWNER(admin, struct replay, admin);
    struct buf body = {0};
    bool unknown = replay->moving && (admin->unsettled || outcome->status == PG_UNKNOWN);
    bool passing = pg_outcome_may_pass(outcome);
    if (!passing)
        logger_error("dlq", "replay failed: %s %s", outcome->sqlstate, outcome->text);
    BUF_PUT_LITERAL(&body, "{\"success\":false");
    if (unknown) {
        BUF_PUT_LITERAL(&body, ",\"error\":\"outcome_unknown\",\"dlqRowRemoved\":null,\"message\":"
                               "\"The outcome of this replay is unknown. Read the dead-letter list "
                               "again: if the row is gone, the move happened\"}");
    } else {
        replay_write_text(&body, "error",
                          passing ? SLICE_LITERAL("timeout: the database is not available")
                                  : SLICE_LITERAL("the database refused the replay"));
        BUF_PUT_LITERAL(&body, ",\"dlqRowRemoved\":false,\"message\":\"Nothing was replayed: the "
                               "dead-letter row is untouched\"}");
    }
    if (passing && !unknown)
        request_answer(admin->r, 503, NULL, SLICE_LITERAL("Retry-After: 1\r\n"), &body);
    else
        request_answer(admin->r, 500, NULL, (struct slice){0}, &body);
}

static void move_build(struct pg_job *job, struct pg_params *params)
{
    const struct replay *replay = replay_of_job(job);
    struct txn_hash hash = txn_hash_of((struct slice){replay->new_id, REPLAY_ID_SIZE});
    pg_param_uuid(params, &replay->id);
    pg_param_text(params, replay->queue);
    pg_param_text(params, replay->partition);
    pg_param_bytea(params, (struct slice){(const char *)hash.bytes, TXN_HASH_SIZE});
    pg_param_bytea(params, replay->blob);
    pg_param_uuid(params, &replay->request_id);
    pg_param_bool(params, replay->admin.unsettled);
}

static int move_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    const struct replay *replay = TABLE_OWNER(admin, struct replay, admin);
    static const struct uuid nobody;
    struct slice result = pg_get_bytes(r, 0, MOVE_RESULT);
    bool moved = slice_is(result, "moved");
    if (slice_is(result, "gone"))
        return replay_not_found(replay, body);
    if (moved) {
        WORKER_COUNT(admin->w, push_messages, 1);
        wake_send(admin->w, table_hash(replay->queue, (struct slice){0}),
                  table_hash(replay->partition, (struct slice){0}), 0);
    }
    BUF_PUT_LITERAL(body, "{\"success\":true");
    replay_write_text(body, "result", result);
    replay_write_text(body, "queue", replay->queue);
    replay_write_text(body, "partition", replay->partition);
    replay_write_text(body, "consumerGroup", replay->group);
    BUF_PUT_LITERAL(body, ",\"dlqId\":");
    json_write_uuid(body, &replay->id);
    if (replay->has_original_id)
        replay_write_text(body, "originalTransactionId", replay->original_id);
    else
        BUF_PUT_LITERAL(body, ",\"originalTransactionId\":null");
    BUF_PUT_LITERAL(body, ",\"replayedAs\":{\"index\":0,\"message_id\":");
    json_write_uuid(body, moved ? &replay->message_id : &nobody);
    replay_write_text(body, "transaction_id", (struct slice){replay->new_id, REPLAY_ID_SIZE});
    replay_write_text(body, "queueName", replay->queue);
    buf_printf(body, ",\"status\":\"%s\",\"offset\":%lld},\"dlqRowRemoved\":%s}",
               moved ? "queued" : "duplicate", (long long)pg_get_int8(r, 0, MOVE_OFFSET),
               moved ? "true" : "false");
    return 200;
}

/* The row as a segment of one frame, in the arena. */
static void replay_pack(struct replay *replay, struct slice payload)
{
    struct worker *w = replay->admin.w;
    struct arena *arena = request_arena(replay->admin.r);
    struct buf frames = {0}, blob = {0};
    memcpy(replay->new_id, REPLAY_ID_PREFIX, sizeof REPLAY_ID_PREFIX - 1);
    uuid_format(&replay->id, replay->new_id + sizeof REPLAY_ID_PREFIX - 1);
    replay->message_id = uuid_v7();
    replay->request_id = uuid_v7();
    struct frame frame = {.message_id = replay->message_id,
                          .transaction_id = {replay->new_id, REPLAY_ID_SIZE},
                          .payload = payload};
    frame_append(&frames, &frame);
    segment_pack(w->packer, buf_slice(&frames), &blob);
    replay->blob = arena_copy(arena, buf_slice(&blob));
    buf_free(&frames);
    buf_free(&blob);
}

static int read_render(struct admin_call *admin, const PGresult *r, struct buf *body)
{
    struct replay *replay = TABLE_OWNER(admin, struct replay, admin);
    struct arena *arena = request_arena(admin->r);
    if (PQntuples(r) == 0)
        return replay_not_found(replay, body);
    if (pg_is_null(r, 0, READ_PAYLOAD)) {
        BUF_PUT_LITERAL(body, "{\"success\":false,\"error\":\"the dead letter has no payload\","
                              "\"dlqRowRemoved\":false,\"message\":\"The message could not be read "
                              "any more when it was dead-lettered\"}");
        return 409;
    }
    replay->id = pg_get_uuid(r, 0, READ_ID);
    if (replay->queue.n == 0)
        replay->queue = arena_copy(arena, pg_get_bytes(r, 0, READ_QUEUE));
    if (replay->partition.n == 0)
        replay->partition = arena_copy(arena, pg_get_bytes(r, 0, READ_PARTITION));
    replay->group = arena_copy(arena, pg_get_bytes(r, 0, READ_GROUP));
    replay->has_original_id = !pg_is_null(r, 0, READ_TRANSACTION_ID);
    if (replay->has_original_id)
        replay->original_id = arena_copy(arena, pg_get_bytes(r, 0, READ_TRANSACTION_ID));
    replay_pack(replay, pg_get_bytes(r, 0, READ_PAYLOAD));
    replay->moving = true;
    admin_call_next(admin, &move_statement, move_build, move_render);
    return 0;
}

static void read_build(struct pg_job *job, struct pg_params *params)
{
    const struct replay *replay = replay_of_job(job);
    if (replay->by_id) {
        pg_param_uuid(params, &replay->id);
        pg_param_null(params);
        pg_param_null(params);
    } else {
        pg_param_null(params);
        pg_param_uuid(params, &replay->partition_id);
        pg_param_bytea(params, replay->transaction_id);
    }
}

/* known: the id or address has the form of one. */
static void replay_start(struct replay *replay, bool known)
{
    struct buf body = {0};
    int status = 503;
    if (maintenance_is_on(replay->admin.w->shm, MAINTENANCE_PUSH)) {
        BUF_PUT_LITERAL(&body, "{\"success\":false,\"result\":\"maintenance\",\"error\":\"push "
                               "maintenance is on\",\"dlqRowRemoved\":false,\"message\":\"Nothing "
                               "was replayed: try again when push maintenance is over\"}");
    } else if (!known) {
        status = replay_not_found(replay, &body);
    } else {
        replay->admin.render = read_render;
        replay->admin.fail = replay_fail;
        admin_call_start(&replay->admin);
        return;
    }
    request_answer(replay->admin.r, status, NULL,
                   status == 503 ? SLICE_LITERAL("Retry-After: 1\r\n") : (struct slice){0}, &body);
}

static struct replay *replay_new(struct worker *w, struct request *r)
{
    struct replay *replay = arena_zarray(request_arena(r), 1, sizeof *replay);
    admin_call_init(&replay->admin, w, r, w->admin_lane, &read_statement, read_build);
    return replay;
}

static struct slice replay_trim(struct slice text)
{
    static const char blank[] = " \t\r\n";
    while (text.n > 0 && memchr(blank, *text.p, sizeof blank - 1) != NULL) {
        text.p++;
        text.n--;
    }
    while (text.n > 0 && memchr(blank, text.p[text.n - 1], sizeof blank - 1) != NULL)
        text.n--;
    return text;
}

/* A name of the destination. Returns the HTTP status of the refusal, or 0. */
static int replay_destination(struct arena *arena, const char *field, struct json_value v,
                              struct slice *out, struct err *err)
{
    if (!json_present(v))
        return 0;
    if (v.type == JSON_STRING && !json_string(v, arena, out, err))
        return 400;
    *out = replay_trim(*out);
    if (out->n == 0) {
        (void)err_set(err, "%s override must be a non-empty name", field);
        return 400;
    }
    return name_check(field, *out, err);
}

/* Reads the optional body; the HTTP status of its refusal, or 0. */
static int replay_body(struct replay *replay, struct err *err)
{
    static const char expected[] =
        "bad body: expected {} or {\"queue\":\"...\",\"partition\":\"...\"}";
    struct slice text = replay_trim(request_body(replay->admin.r));
    struct arena *arena = request_arena(replay->admin.r);
    struct json_value body, queue, partition;
    const struct json_field fields[] = {{"queue", &queue}, {"partition", &partition}};
    if (text.n == 0)
        return 0;
    if (!json_validate(text, &body, err) || !json_pick(body, fields, 2, err)) {
        (void)err_set(err, "%s", expected);
        return 400;
    }
    int status = replay_destination(arena, "queue", queue, &replay->queue, err);
    return status != 0 ? status
                       : replay_destination(arena, "partition", partition, &replay->partition, err);
}

void dlq_handle_replay(struct worker *w, struct request *r, struct slice id)
{
    struct err err;
    struct replay *replay = replay_new(w, r);
    replay->by_id = true;
    replay->asked_id = id;
    int status = replay_body(replay, &err);
    if (status != 0)
        replay_answer_bad(r, status, err.text);
    else
        replay_start(replay, uuid_parse(id, &replay->id));
}

void dlq_handle_retry(struct worker *w, struct request *r, struct slice partition_id,
                      struct slice transaction_id)
{
    struct replay *replay = replay_new(w, r);
    replay->partition_id_text = partition_id;
    replay->transaction_id = transaction_id;
    replay_start(replay, uuid_parse(partition_id, &replay->partition_id));
}
