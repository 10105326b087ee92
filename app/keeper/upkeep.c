/* Upkeep: small steps, so that no step holds a partition's lock for long, one after the other as
 * long as something is due. */
#include "keeper/upkeep.h"

#include "base/logger.h"
#include "base/table.h"
#include "pg/result.h"

#include <inttypes.h>
#include <stdlib.h>

enum { UPKEEP_TASKS = 7 };

struct upkeep_task {
    struct upkeep *owner;
    const char *what;              /* for the log: "purged 7 hash rows" */
    struct pg_statement statement; /* two int4 arguments, one int8: how much was done */
    int32_t arguments[2];
    uint64_t interval_ms;
    _Atomic uint64_t *counter; /* NULL = none */
    struct loop_timer timer;
    struct pg_job step;
    int64_t done; /* in this round */
    bool failing; /* logged already */
};

struct upkeep {
    struct keeper *keeper;
    struct upkeep_task tasks[UPKEEP_TASKS];
    size_t count;
};

static void step_build(struct pg_job *job, struct pg_params *params)
{
    const struct upkeep_task *t = TABLE_OWNER(job, struct upkeep_task, step);
    pg_param_int4(params, t->arguments[0]);
    pg_param_int4(params, t->arguments[1]);
}

static void step_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct upkeep_task *t = TABLE_OWNER(job, struct upkeep_task, step);
    struct keeper *keeper = t->owner->keeper;
    if (outcome->status != PG_DONE) {
        if (!t->failing && !keeper->stopping)
            logger_warn("upkeep", "%s: failed: %s", t->what, outcome->text);
        t->failing = true;
        return;
    }
    t->failing = false;
    int64_t rows = pg_get_int8(outcome->result, 0, 0);
    t->done += rows;
    if (t->counter != NULL)
        slot_count(t->counter, (uint64_t)rows);
    /* Any bound may have ended the step, so only an empty one says that nothing is due. */
    if (rows > 0)
        pg_lane_submit(keeper->lane, &t->step);
    else if (t->done > 0)
        logger_info("upkeep", "%s: %" PRId64, t->what, t->done);
}

static void task_tick(struct loop_timer *timer)
{
    struct upkeep_task *t = TABLE_OWNER(timer, struct upkeep_task, timer);
    struct loop *loop = t->owner->keeper->loop;
    loop_timer_set(loop, timer, loop_now_ms(loop) + t->interval_ms);
    if (t->step.state != PG_JOB_IDLE)
        return;
    t->done = 0;
    pg_lane_submit(t->owner->keeper->lane, &t->step);
}

static void upkeep_add(struct upkeep *u, struct upkeep_task task)
{
    struct upkeep_task *t = &u->tasks[u->count++];
    *t = task;
    t->owner = u;
    t->statement.param_count = 2;
    t->statement.types[0] = t->statement.types[1] = PG_INT4;
    t->step = (struct pg_job){.statement = &t->statement, .build = step_build, .done = step_done};
    t->timer.fire = task_tick;
    loop_timer_set(u->keeper->loop, &t->timer, loop_now_ms(u->keeper->loop));
}

struct upkeep *upkeep_new(struct keeper *keeper)
{
    struct upkeep *u = mem_zalloc(sizeof *u);
    const struct settings *s = &keeper->settings;
    u->keeper = keeper;
    upkeep_add(u,
               (struct upkeep_task){.what = "hash rows purged",
                                    .statement = {.name = "txns_purge",
                                                  .sql = "select queen.log_txns_purge_v1($1, $2)"},
                                    .arguments = {100, 10000},
                                    .interval_ms = 10000});
    upkeep_add(u, (struct upkeep_task){
                      .what = "segments past their retention deleted",
                      .statement = {.name = "retention_expired",
                                    .sql = "select queen.log_retention_expired_v1($1, $2)"},
                      .arguments = {100, (int32_t)s->retention_batch_size},
                      .interval_ms = (uint64_t)s->retention_interval_ms});
    upkeep_add(u, (struct upkeep_task){
                      .what = "consumed segments deleted",
                      .statement = {.name = "retention_completed",
                                    .sql = "select queen.log_retention_completed_v1($1, $2)"},
                      .arguments = {1000, (int32_t)s->retention_batch_size},
                      .interval_ms = (uint64_t)s->retention_interval_ms});
    int64_t twice_s = 2 * s->request_timeout_ms / 1000 + 1;
    upkeep_add(u, (struct upkeep_task){
                      .what = "outcomes of transactions forgotten",
                      .statement = {.name = "request_outcomes_purge",
                                    .sql = "select queen.request_outcomes_purge_v1($1, $2)"},
                      .arguments = {10000, (int32_t)(s->request_id_window_s > twice_s
                                                         ? s->request_id_window_s
                                                         : twice_s)},
                      .interval_ms = 10000});
    upkeep_add(u, (struct upkeep_task){
                      .what = "expired keys deleted",
                      .statement = {.name = "kv_sweep",
                                    .sql = "select queen.kv_sweep_v1($1 + 0 * $2)::bigint"},
                      .arguments = {1000, 0},
                      .interval_ms = 5000,
                      .counter = &keeper->slot.counters->kv_swept});
    upkeep_add(u,
               (struct upkeep_task){.what = "rows of time series deleted",
                                    .statement = {.name = "metrics_purge",
                                                  .sql = "select queen.metrics_purge_v1($1, $2)"},
                                    .arguments = {(int32_t)s->metrics_retention_days, 1000},
                                    .interval_ms = 60000});
    if (s->partition_cleanup)
        upkeep_add(u, (struct upkeep_task){
                          .what = "empty partitions deleted",
                          .statement = {.name = "partitions_cleanup",
                                        .sql = "select queen.log_partitions_cleanup_v1($1, $2)"},
                          .arguments = {100, (int32_t)s->partition_cleanup_days},
                          .interval_ms = 60000});
    return u;
}

void upkeep_free(struct upkeep *upkeep)
{
    for (size_t i = 0; i < upkeep->count; i++)
        loop_timer_cancel(upkeep->keeper->loop, &upkeep->tasks[i].timer);
    free(upkeep);
}
