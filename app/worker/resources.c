/* What is there and how much of it (contract 2, section 1). */
#include "worker/resources.h"

#include "wire/json_write.h"
#include "worker/report.h"

static const char queue_not_found[] = "Queue not found";

static const struct pg_statement queues_statement = {.name = "queues_list",
                                                     .sql = "select queen.queues_list_v1($1, $2)",
                                                     .param_count = 2,
                                                     .types = {PG_INT4, PG_INT4}};

static const struct pg_statement queue_statement = {.name = "queue_get",
                                                    .sql = "select queen.queue_get_v1($1, $2, $3)",
                                                    .param_count = 3,
                                                    .types = {PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement depth_statement = {
    .name = "queue_depth",
    .sql = "select queen.queue_depth_v1($1, $2, $3, $4)",
    .param_count = 4,
    .types = {PG_TEXT, PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement overview_statement = {
    .name = "overview", .sql = "select queen.overview_v1()", .param_count = 0};

static const struct pg_statement labels_statement = {.name = "queue_labels",
                                                     .sql =
                                                         "select queen.queue_labels_v1($1, $2, $3)",
                                                     .param_count = 3,
                                                     .types = {PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement partitions_statement = {
    .name = "partitions_list",
    .sql = "select queen.partitions_list_v1($1, $2, $3)",
    .param_count = 3,
    .types = {PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement clear_statement = {.name = "queue_clear",
                                                    .sql = "select queen.queue_clear_v1($1, $2)",
                                                    .param_count = 2,
                                                    .types = {PG_TEXT, PG_TEXT}};

static void resources_page(struct report *report)
{
    if (report_page(report, REPORT_ROWS, REPORT_ROWS, 0))
        report_start(report);
}

void resources_handle_queues(struct worker *w, struct request *r)
{
    resources_page(report_new(w, r, &queues_statement));
}

void resources_handle_queue(struct worker *w, struct request *r, struct slice queue)
{
    struct report *report = report_new(w, r, &queue_statement);
    report->not_found = queue_not_found;
    if (report_queue(report, 0, queue))
        resources_page(report);
}

void resources_handle_depth(struct worker *w, struct request *r, struct slice queue)
{
    static const char *const names[] = {"group"};
    struct report *report = report_new(w, r, &depth_statement);
    report->not_found = queue_not_found;
    if (report_queue(report, 0, queue) && report_query(report, names, 1, 1))
        resources_page(report);
}

void resources_handle_overview(struct worker *w, struct request *r)
{
    report_start(report_new(w, r, &overview_statement));
}

void resources_handle_namespaces(struct worker *w, struct request *r)
{
    struct report *report = report_new(w, r, &labels_statement);
    report->call.text[0] = SLICE_LITERAL("namespace");
    resources_page(report);
}

void resources_handle_tasks(struct worker *w, struct request *r)
{
    struct report *report = report_new(w, r, &labels_statement);
    report->call.text[0] = SLICE_LITERAL("task");
    resources_page(report);
}

void resources_handle_partitions(struct worker *w, struct request *r)
{
    static const char *const names[] = {"queue"};
    struct report *report = report_new(w, r, &partitions_statement);
    if (report_query(report, names, 1, 0))
        resources_page(report);
}

static int clear_render(struct admin_call *call, const PGresult *r, struct buf *body)
{
    if (pg_is_null(r, 0, 0)) {
        buf_printf(body, "{\"error\":\"%s\"}",
                   call->text[1].n > 0 ? "Queue or partition not found" : queue_not_found);
        return 404;
    }
    BUF_PUT_LITERAL(body, "{\"success\":true,\"queue\":");
    json_write_string(body, call->text[0]);
    buf_printf(body, ",\"cleared\":%lld}", (long long)pg_get_int8(r, 0, 0));
    return 200;
}

void queue_handle_clear(struct worker *w, struct request *r, struct slice queue)
{
    static const char *const names[] = {"partition"};
    struct report *report = report_new(w, r, &clear_statement);
    report->call.render = clear_render;
    if (report_queue(report, 0, queue) && report_query(report, names, 1, 1))
        report_start(report);
}
