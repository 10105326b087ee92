/* Metrics. A lost minute is no loss: SQL takes the difference to the counters it saw last. */
#include "keeper/metrics.h"

#include "base/logger.h"
#include "base/table.h"
#include "pg/result.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    INTERVAL_MS = 60000,
    RATES_MS = 5000,
    /* A look at many partitions may take seconds: at most this part of the time goes into looks. */
    LOOK_SHARE = 20,
    /* Another host that has looked in the last so many seconds spares this one the work. */
    LOOK_MIN_AGE_S = 50,
};

struct metrics {
    struct keeper *keeper;
    struct loop_timer counters_timer, queues_timer, rates_timer;
    struct pg_job counters, queues;
    uint64_t look_began_ms;
    uint64_t rates_at_ms, rates_requests, rates_messages; /* at the last rate */
    bool failing;                                         /* logged already */
    char host[HOST_NAME_MAX + 1], instance[PATH_MAX];
};

static const struct pg_statement counters_statement = {
    .name = "metrics_rollup",
    .sql = "select queen.metrics_rollup_v1($1, $2, $3, $4, $5, $6)",
    .param_count = 6,
    .types = {PG_TEXT, PG_TEXT, PG_TEXT_ARRAY, PG_INT8_ARRAY, PG_TEXT_ARRAY, PG_INT8_ARRAY}};

static const struct pg_statement queues_statement = {
    .name = "queue_metrics_rollup",
    .sql = "select queues from queen.queue_metrics_rollup_v1($1)",
    .param_count = 1,
    .types = {PG_INT4}};

#define METRICS_NAME(field)  pg_array_bytes(params, SLICE_LITERAL(#field));
#define METRICS_VALUE(field) pg_array_int8(params, (int64_t)sum.field);

static void counters_build(struct pg_job *job, struct pg_params *params)
{
    const struct metrics *m = TABLE_OWNER(job, struct metrics, counters);
    struct slot_counters sum;
    slot_counters_sum(m->keeper->shm, &sum);
    pg_param_text(params, slice_of(m->host));
    pg_param_text(params, slice_of(m->instance));
#define GAUGE(field, prometheus, help)
#define COUNTER(field, prometheus, help) METRICS_NAME(field)
    pg_array_begin(params, PG_TEXT);
#include "shm/counters.def"
    pg_array_end(params);
#undef COUNTER
#define COUNTER(field, prometheus, help) METRICS_VALUE(field)
    pg_array_begin(params, PG_INT8);
#include "shm/counters.def"
    pg_array_end(params);
#undef COUNTER
#undef GAUGE
#define COUNTER(field, prometheus, help)
#define GAUGE(field, prometheus, help) METRICS_NAME(field)
    pg_array_begin(params, PG_TEXT);
#include "shm/counters.def"
    pg_array_end(params);
#undef GAUGE
#define GAUGE(field, prometheus, help) METRICS_VALUE(field)
    pg_array_begin(params, PG_INT8);
#include "shm/counters.def"
    pg_array_end(params);
#undef COUNTER
#undef GAUGE
}

static void metrics_done(struct metrics *m, const char *what, const struct pg_outcome *outcome)
{
    if (outcome->status != PG_DONE && !m->failing && !m->keeper->stopping)
        logger_warn("metrics", "%s were not recorded: %s", what, outcome->text);
    m->failing = outcome->status != PG_DONE;
}

static void counters_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    metrics_done(TABLE_OWNER(job, struct metrics, counters), "counters", outcome);
}

static void counters_tick(struct loop_timer *timer)
{
    struct metrics *m = TABLE_OWNER(timer, struct metrics, counters_timer);
    struct keeper *k = m->keeper;
    loop_timer_set(k->loop, timer, loop_now_ms(k->loop) + INTERVAL_MS);
    if (m->counters.state == PG_JOB_IDLE)
        pg_lane_submit(k->lane, &m->counters);
}

static void queues_build(struct pg_job *job, struct pg_params *params)
{
    struct metrics *m = TABLE_OWNER(job, struct metrics, queues);
    m->look_began_ms = loop_now_ms(m->keeper->loop);
    pg_param_int4(params, LOOK_MIN_AGE_S);
}

static void queues_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct metrics *m = TABLE_OWNER(job, struct metrics, queues);
    uint64_t now = loop_now_ms(m->keeper->loop), pause = (now - m->look_began_ms) * LOOK_SHARE;
    metrics_done(m, "figures of queues", outcome);
    loop_timer_set(m->keeper->loop, &m->queues_timer,
                   now + (pause > INTERVAL_MS ? pause : INTERVAL_MS));
}

static void queues_tick(struct loop_timer *timer)
{
    struct metrics *m = TABLE_OWNER(timer, struct metrics, queues_timer);
    m->look_began_ms = loop_now_ms(m->keeper->loop);
    pg_lane_submit(m->keeper->lane, &m->queues);
}

static uint64_t metrics_rate(uint64_t now, uint64_t before, uint64_t elapsed_ms)
{
    return now > before ? (now - before) * 1000u / elapsed_ms : 0;
}

static void rates_tick(struct loop_timer *timer)
{
    struct metrics *m = TABLE_OWNER(timer, struct metrics, rates_timer);
    struct keeper *k = m->keeper;
    struct slot_counters sum;
    uint64_t now = loop_now_ms(k->loop);
    slot_counters_sum(k->shm, &sum);
    uint64_t requests = sum.push_requests + sum.pop_requests + sum.ack_requests;
    uint64_t messages = sum.push_messages + sum.pop_messages + sum.ack_items;
    if (m->rates_at_ms != 0 && now > m->rates_at_ms) {
        struct slot_counters *own = k->slot.counters;
        uint64_t elapsed = now - m->rates_at_ms;
        atomic_store(&own->requests_per_second, metrics_rate(requests, m->rates_requests, elapsed));
        atomic_store(&own->messages_per_second, metrics_rate(messages, m->rates_messages, elapsed));
    }
    m->rates_at_ms = now;
    m->rates_requests = requests;
    m->rates_messages = messages;
    loop_timer_set(k->loop, timer, now + RATES_MS);
}

struct metrics *metrics_new(struct keeper *keeper)
{
    struct metrics *m = mem_zalloc(sizeof *m);
    uint64_t now = loop_now_ms(keeper->loop);
    m->keeper = keeper;
    if (gethostname(m->host, sizeof m->host - 1) != 0)
        (void)snprintf(m->host, sizeof m->host, "unknown");
    /* As the shared memory's name: the same directory under another name is the same instance. */
    if (realpath(keeper->settings.run_dir, m->instance) == NULL)
        (void)snprintf(m->instance, sizeof m->instance, "%s", keeper->settings.run_dir);
    m->counters = (struct pg_job){
        .statement = &counters_statement, .build = counters_build, .done = counters_done};
    m->queues =
        (struct pg_job){.statement = &queues_statement, .build = queues_build, .done = queues_done};
    m->counters_timer.fire = counters_tick;
    m->queues_timer.fire = queues_tick;
    m->rates_timer.fire = rates_tick;
    loop_timer_set(keeper->loop, &m->counters_timer, now);
    loop_timer_set(keeper->loop, &m->queues_timer, now);
    loop_timer_set(keeper->loop, &m->rates_timer, now);
    return m;
}

void metrics_free(struct metrics *metrics)
{
    struct loop *loop = metrics->keeper->loop;
    loop_timer_cancel(loop, &metrics->counters_timer);
    loop_timer_cancel(loop, &metrics->queues_timer);
    loop_timer_cancel(loop, &metrics->rates_timer);
    free(metrics);
}
