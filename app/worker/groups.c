/* Consumer groups (contract 2, section 2). SQL decides; this parses, and wakes parked pops. */
#include "worker/groups.h"

#include "wire/json.h"
#include "wire/json_write.h"
#include "wire/uri.h"
#include "worker/report.h"
#include "worker/wake.h"

enum { LAGGING_DEFAULT_SECONDS = 3600 };

static const struct pg_statement list_statement = {.name = "groups_list",
                                                   .sql = "select queen.groups_list_v1($1, $2)",
                                                   .param_count = 2,
                                                   .types = {PG_INT4, PG_INT4}};

static const struct pg_statement lagging_statement = {
    .name = "groups_lagging",
    .sql = "select queen.groups_lagging_v1($1, $2, $3)",
    .param_count = 3,
    .types = {PG_INT4, PG_INT4, PG_INT4}};

static const struct pg_statement detail_statement = {.name = "group_detail",
                                                     .sql =
                                                         "select queen.group_detail_v1($1, $2, $3)",
                                                     .param_count = 3,
                                                     .types = {PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement subscription_statement = {
    .name = "group_subscription",
    .sql = "select queen.group_subscription_v1($1, $2)",
    .param_count = 2,
    .types = {PG_TEXT, PG_TEXT}};

/* An empty partition is every partition, an empty time the end. */
static const struct pg_statement seek_statement = {
    .name = "group_seek",
    .sql = "select queen.group_seek_v1($1, $2, nullif($3, ''), $4 = '', $4)",
    .param_count = 4,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT}};

static const struct pg_statement delete_statement = {
    .name = "group_delete",
    .sql = "select cursors, subscriptions from queen.group_delete_v1($1, nullif($2, ''), $3 <> 0)",
    .param_count = 3,
    .types = {PG_TEXT, PG_TEXT, PG_INT4}};
enum { DELETE_CURSORS, DELETE_SUBSCRIPTIONS };

/* The call's names by place in call.text. */
enum { GROUP, QUEUE, PARTITION, TIMESTAMP };

void groups_handle_list(struct worker *w, struct request *r)
{
    struct report *report = report_new(w, r, &list_statement);
    if (report_page(report, REPORT_ROWS, REPORT_ROWS, 0))
        report_start(report);
}

void groups_handle_lagging(struct worker *w, struct request *r)
{
    struct report *report = report_new(w, r, &lagging_statement);
    struct err err;
    struct slice path, query;
    int64_t seconds = LAGGING_DEFAULT_SECONDS;
    uri_split(request_head(r)->target, &path, &query);
    if (!uri_param_int(query, "minLagSeconds", &seconds, &err)) {
        request_answer_error(r, 400, "%s", err.text);
        return;
    }
    report->call.number[0] = seconds < 0 ? 0 : seconds > INT32_MAX ? INT32_MAX : seconds;
    if (report_page(report, REPORT_ROWS, REPORT_ROWS, 1))
        report_start(report);
}

void group_handle_detail(struct worker *w, struct request *r, struct slice group)
{
    struct report *report = report_new(w, r, &detail_statement);
    if (report_name(report, GROUP, "consumerGroup", group) &&
        report_page(report, REPORT_ROWS, REPORT_ROWS, 0))
        report_start(report);
}

/* A member that holds a time: text, or null and absent as ''. False: err is set. */
static bool group_body_time(struct json_value v, const char *field, struct request *r,
                            struct slice *out, struct err *err)
{
    *out = (struct slice){"", 0};
    if (!json_present(v))
        return true;
    if (v.type != JSON_STRING)
        return err_set(err, "%s must be a string, found %s", field, json_type_name(v.type));
    if (!json_string(v, request_arena(r), out, err))
        return false;
    if (memchr(out->p, 0, out->n) != NULL)
        return err_set(err, "%s holds a NUL character", field);
    return true;
}

/* The body, an object. False: err is set. */
static bool group_body(struct request *r, const struct json_field *fields, size_t count,
                       struct err *err)
{
    struct json_value body;
    if (!json_validate(request_body(r), &body, err))
        return false;
    if (body.type != JSON_OBJECT)
        return err_set(err, "expected an object, found %s", json_type_name(body.type));
    return json_pick(body, fields, count, err);
}

void group_handle_subscription(struct worker *w, struct request *r, struct slice group)
{
    struct err err;
    struct json_value timestamp;
    struct slice text;
    const struct json_field fields[] = {{"subscriptionTimestamp", &timestamp}};
    if (!group_body(r, fields, 1, &err) ||
        !group_body_time(timestamp, "subscriptionTimestamp", r, &text, &err)) {
        request_answer_error(r, 400, "bad body: %s", err.text);
        return;
    }
    if (text.n == 0) {
        request_answer_error(r, 400, "subscriptionTimestamp is required");
        return;
    }
    struct report *report = report_new(w, r, &subscription_statement);
    report->call.text[1] = text;
    if (report_name(report, GROUP, "consumerGroup", group))
        report_start(report);
}

static void seek_write_names(const struct admin_call *call, struct buf *body)
{
    BUF_PUT_LITERAL(body, "\"consumerGroup\":");
    json_write_string(body, call->text[GROUP]);
    BUF_PUT_LITERAL(body, ",\"queueName\":");
    json_write_string(body, call->text[QUEUE]);
}

static int seek_render_missing(const struct admin_call *call, struct buf *body)
{
    if (call->text[PARTITION].n > 0) {
        BUF_PUT_LITERAL(body, "{\"success\":false,\"error\":\"Partition not found\"}");
        return 404;
    }
    BUF_PUT_LITERAL(body, "{\"success\":false,\"error\":\"Queue not found or has no partitions\",");
    seek_write_names(call, body);
    BUF_PUT_LITERAL(body, ",\"partitionsUpdated\":0}");
    return 404;
}

static int seek_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    const struct slice none = {0};
    struct slice partition = call->text[PARTITION], timestamp = call->text[TIMESTAMP];
    int64_t cursors = pg_get_int8(r, 0, 0);
    if (cursors == 0)
        return seek_render_missing(call, body);
    wake_send(call->w, table_hash(call->text[QUEUE], none),
              partition.n > 0 ? table_hash(partition, none) : 0,
              table_hash(call->text[GROUP], none));
    BUF_PUT_LITERAL(body, "{\"success\":true,");
    seek_write_names(call, body);
    if (partition.n > 0) {
        BUF_PUT_LITERAL(body, ",\"partitionName\":");
        json_write_string(body, partition);
    }
    BUF_PUT_LITERAL(body, ",\"seekToEnd\":");
    json_write_bool(body, timestamp.n == 0);
    BUF_PUT_LITERAL(body, ",\"targetTimestamp\":");
    if (timestamp.n > 0)
        json_write_string(body, timestamp);
    else
        BUF_PUT_LITERAL(body, "null");
    if (partition.n > 0)
        BUF_PUT_LITERAL(body, ",\"updated\":true}");
    else
        buf_printf(body, ",\"partitionsUpdated\":%lld}", (long long)cursors);
    return 200;
}

/* Where to: an empty *timestamp is the end. False: err is set. */
static bool seek_target(struct request *r, bool empty_is_end, struct slice *timestamp,
                        struct err *err)
{
    struct json_value to_end, time;
    const struct json_field fields[] = {{"toEnd", &to_end}, {"timestamp", &time}};
    *timestamp = (struct slice){"", 0};
    if (empty_is_end && request_body(r).n == 0)
        return true;
    if (!group_body(r, fields, 2, err) || !group_body_time(time, "timestamp", r, timestamp, err)) {
        struct err why = *err;
        return err_set(err, "bad body: %s", why.text);
    }
    if (json_present(to_end) && to_end.type != JSON_TRUE && to_end.type != JSON_FALSE)
        return err_set(err, "bad body: toEnd must be a boolean, found %s",
                       json_type_name(to_end.type));
    if (to_end.type == JSON_TRUE)
        *timestamp = (struct slice){"", 0};
    else if (timestamp->n == 0)
        return err_set(err, "Must specify toEnd=true or a timestamp");
    return true;
}

/* partition: NULL = every partition. */
static void seek_start(struct worker *w, struct request *r, struct slice group, struct slice queue,
                       const struct slice *partition)
{
    struct err err;
    struct slice timestamp;
    if (!seek_target(r, partition != NULL, &timestamp, &err)) {
        request_answer_error(r, 400, "%s", err.text);
        return;
    }
    struct report *report = report_new(w, r, &seek_statement);
    report->call.text[TIMESTAMP] = timestamp;
    report->call.render = seek_render;
    if (report_name(report, GROUP, "consumerGroup", group) &&
        report_name(report, QUEUE, "queue", queue) &&
        (partition == NULL || report_name(report, PARTITION, "partition", *partition)))
        report_start(report);
}

void group_handle_seek_queue(struct worker *w, struct request *r, struct slice group,
                             struct slice queue)
{
    seek_start(w, r, group, queue, NULL);
}

void group_handle_seek_partition(struct worker *w, struct request *r, struct slice group,
                                 struct slice queue, struct slice partition)
{
    seek_start(w, r, group, queue, &partition);
}

static int delete_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    const struct slice none = {0};
    /* Its parked pops are first contacts now. */
    wake_send(call->w, call->text[QUEUE].n > 0 ? table_hash(call->text[QUEUE], none) : 0, 0,
              table_hash(call->text[GROUP], none));
    BUF_PUT_LITERAL(body, "{\"success\":true,\"consumerGroup\":");
    json_write_string(body, call->text[GROUP]);
    if (call->text[QUEUE].n > 0) {
        BUF_PUT_LITERAL(body, ",\"queueName\":");
        json_write_string(body, call->text[QUEUE]);
    }
    buf_printf(body, ",\"deletedPartitions\":%lld,\"metadataDeleted\":%s}",
               (long long)pg_get_int8(r, 0, DELETE_CURSORS),
               pg_get_int8(r, 0, DELETE_SUBSCRIPTIONS) > 0 ? "true" : "false");
    return 200;
}

/* queue: NULL = every queue. */
static void delete_start(struct worker *w, struct request *r, struct slice group,
                         const struct slice *queue)
{
    struct err err;
    struct slice path, query;
    bool metadata = true;
    uri_split(request_head(r)->target, &path, &query);
    if (!uri_param_bool(query, "deleteMetadata", &metadata, &err)) {
        request_answer_error(r, 400, "%s", err.text);
        return;
    }
    struct report *report = report_new(w, r, &delete_statement);
    report->call.number[0] = metadata;
    report->call.render = delete_render;
    if (report_name(report, GROUP, "consumerGroup", group) &&
        (queue == NULL || report_name(report, QUEUE, "queue", *queue)))
        report_start(report);
}

void group_handle_delete(struct worker *w, struct request *r, struct slice group)
{
    delete_start(w, r, group, NULL);
}

void group_handle_delete_queue(struct worker *w, struct request *r, struct slice group,
                               struct slice queue)
{
    delete_start(w, r, group, &queue);
}
