/* GET /health, /status and /metrics/prometheus (contract 1, section 8; contract 2, section 8). */
#include "worker/admin.h"

#include "base/version.h"
#include "shm/registry.h"

enum { HEALTH_DEADLINE_MS = 2000 };

static const struct pg_statement ping_statement = {
    .name = "ping", .sql = "select 1", .param_count = 0};

struct health_check {
    struct pg_job job;
    struct request *r;
};

static void health_build(struct pg_job *job, struct pg_params *params)
{
    (void)job;
    (void)params;
}

static void health_answer(struct request *r, bool connected)
{
    struct buf body = {0};
    buf_printf(&body,
               "{\"status\":\"%s\",\"database\":\"%s\",\"engine\":\"" QUEEN_ENGINE
               "\",\"version\":\"" QUEEN_VERSION "\"}",
               connected ? "healthy" : "unhealthy", connected ? "connected" : "disconnected");
    request_answer(r, connected ? 200 : 503, NULL, (struct slice){0}, &body);
}

static void health_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    health_answer(TABLE_OWNER(job, struct health_check, job)->r, outcome->status == PG_DONE);
}

void health_handle(struct worker *w, struct request *r)
{
    struct health_check *check = arena_zarray(request_arena(r), 1, sizeof *check);
    check->r = r;
    check->job.statement = &ping_statement;
    check->job.build = health_build;
    check->job.done = health_done;
    check->job.deadline_ms = loop_now_ms(w->loop) + HEALTH_DEADLINE_MS;
    pg_lane_submit(w->admin_lane, &check->job);
}

void status_handle(struct worker *w, struct request *r)
{
    struct buf body = {0};
    (void)w;
    BUF_PUT_LITERAL(&body, "{\"status\":\"ok\",\"engine\":\"" QUEEN_ENGINE "\"}");
    request_answer(r, 200, NULL, (struct slice){0}, &body);
}

static void metrics_family(struct buf *out, const char *name, const char *help, const char *type,
                           uint64_t value)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n%s %llu\n", name, help, name, type, name,
               (unsigned long long)value);
}

void metrics_handle_prometheus(struct worker *w, struct request *r)
{
    struct buf body = {0};
    struct slot_counters sum;
    struct registry_stats registry;
    slot_counters_sum(w->shm, &sum);
    registry_stats(w->shm, &registry);
#define COUNTER(field, name, help) metrics_family(&body, name, help, "counter", sum.field);
#define GAUGE(field, name, help)   metrics_family(&body, name, help, "gauge", sum.field);
#include "shm/counters.def"
#undef COUNTER
#undef GAUGE
    metrics_family(&body, "queen_ack_registry_entries", "Batches in the ack registry.", "gauge",
                   registry.entries);
    metrics_family(&body, "queen_ack_registry_evictions_total", "Entries evicted for room.",
                   "counter", registry.evictions);
    request_answer(r, 200, "text/plain; version=0.0.4", (struct slice){0}, &body);
}
