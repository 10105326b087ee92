/* Status pages and time series (contract 2, section 8). SQL answers; this reads parameters. */
#include "worker/status.h"

#include "worker/maintenance.h"
#include "worker/report.h"

enum { STATUS_QUEUES_DEFAULT_LIMIT = 100 };

static const struct pg_statement overall_statement = {
    .name = "status",
    .sql = "select queen.status_v1($1, $2, $3, $4, $5)",
    .param_count = 5,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT}};

static const struct pg_statement queues_statement = {
    .name = "status_queues",
    .sql = "select queen.status_queues_v1($1, $2, $3, $4, $5)",
    .param_count = 5,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement queue_statement = {.name = "status_queue",
                                                    .sql =
                                                        "select queen.status_queue_v1($1, $2, $3)",
                                                    .param_count = 3,
                                                    .types = {PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement analytics_statement = {
    .name = "status_analytics",
    .sql = "select queen.status_analytics_v1($1, $2, $3, $4, $5, $6)",
    .param_count = 6,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT}};

static const struct pg_statement refresh_statement = {
    .name = "stats_refresh", .sql = "select queen.stats_refresh_v1()", .param_count = 0};

static const struct pg_statement system_statement = {
    .name = "analytics_system",
    .sql = "select queen.analytics_system_v1($1, $2, $3, $4)",
    .param_count = 4,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT}};

static const struct pg_statement workers_statement = {
    .name = "analytics_workers",
    .sql = "select queen.analytics_workers_v1($1, $2, $3, $4)",
    .param_count = 4,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_TEXT}};

static const struct pg_statement postgres_statement = {
    .name = "analytics_postgres", .sql = "select queen.analytics_postgres_v1()", .param_count = 0};

static const struct pg_statement queue_lag_statement = {
    .name = "analytics_queue_lag",
    .sql = "select queen.analytics_queue_lag_v1($1, $2, $3, $4, $5)",
    .param_count = 5,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement queue_ops_statement = {
    .name = "analytics_queue_ops",
    .sql = "select queen.analytics_queue_ops_v1($1, $2, $3, $4, $5)",
    .param_count = 5,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT, PG_INT4, PG_INT4}};

static const struct pg_statement retention_statement = {
    .name = "analytics_retention",
    .sql = "select queen.analytics_retention_v1($1, $2, $3)",
    .param_count = 3,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT}};

/* A report whose texts are these query parameters. */
#define STATUS_REPORT(w, r, statement, ...)                                                        \
    status_report(w, r, statement, (const char *const[]){__VA_ARGS__},                             \
                  sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void status_report(struct worker *w, struct request *r, const struct pg_statement *statement,
                          const char *const *names, size_t count)
{
    struct report *report = report_new(w, r, statement);
    if (report_query(report, names, count, 0))
        report_start(report);
}

/* The same with limit and offset. */
#define STATUS_PAGE(w, r, statement, dflt, ...)                                                    \
    status_page(w, r, statement, dflt, (const char *const[]){__VA_ARGS__},                         \
                sizeof((const char *const[]){__VA_ARGS__}) / sizeof(const char *))

static void status_page(struct worker *w, struct request *r, const struct pg_statement *statement,
                        int64_t dflt, const char *const *names, size_t count)
{
    struct report *report = report_new(w, r, statement);
    if (report_query(report, names, count, 0) && report_page(report, dflt, REPORT_ROWS, 0))
        report_start(report);
}

void status_handle_overall(struct worker *w, struct request *r)
{
    STATUS_REPORT(w, r, &overall_statement, "from", "to", "queue", "namespace", "task");
}

void status_handle_queues(struct worker *w, struct request *r)
{
    STATUS_PAGE(w, r, &queues_statement, STATUS_QUEUES_DEFAULT_LIMIT, "queue", "namespace", "task");
}

void status_handle_queue(struct worker *w, struct request *r, struct slice queue)
{
    struct report *report = report_new(w, r, &queue_statement);
    report->not_found = "Queue not found";
    if (report_queue(report, 0, queue) && report_page(report, REPORT_ROWS, REPORT_ROWS, 0))
        report_start(report);
}

void status_handle_analytics(struct worker *w, struct request *r)
{
    STATUS_REPORT(w, r, &analytics_statement, "from", "to", "interval", "queue", "namespace",
                  "task");
}

void status_handle_buffers(struct worker *w, struct request *r)
{
    struct maintenance_buffers buffers;
    struct buf body = {0};
    maintenance_buffers(w, &buffers);
    buf_printf(&body, "{\"pending\":%llu,\"failed\":%llu,\"dbHealthy\":%s,\"worker\":0}",
               (unsigned long long)buffers.pending, (unsigned long long)buffers.failed_files,
               pg_lane_connected(w->admin_lane) ? "true" : "false");
    request_answer(r, 200, NULL, (struct slice){0}, &body);
}

void status_handle_refresh(struct worker *w, struct request *r)
{
    report_start(report_new(w, r, &refresh_statement));
}

void analytics_handle_system(struct worker *w, struct request *r)
{
    STATUS_REPORT(w, r, &system_statement, "from", "to", "hostname", "workerId");
}

void analytics_handle_workers(struct worker *w, struct request *r)
{
    STATUS_REPORT(w, r, &workers_statement, "from", "to", "hostname", "workerId");
}

void analytics_handle_postgres(struct worker *w, struct request *r)
{
    report_start(report_new(w, r, &postgres_statement));
}

void analytics_handle_queue_lag(struct worker *w, struct request *r)
{
    STATUS_PAGE(w, r, &queue_lag_statement, REPORT_ROWS, "from", "to", "queue");
}

void analytics_handle_queue_ops(struct worker *w, struct request *r)
{
    STATUS_PAGE(w, r, &queue_ops_statement, REPORT_ROWS, "from", "to", "queue");
}

void analytics_handle_retention(struct worker *w, struct request *r)
{
    STATUS_REPORT(w, r, &retention_statement, "from", "to", "queue");
}
