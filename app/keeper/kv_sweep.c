/* Sweep of expired keys: bounded steps, one after the other while there is more. Several hosts may
 * sweep at a time: they pass over each other's rows. */
#include "keeper/kv_sweep.h"

#include "base/logger.h"
#include "base/table.h"
#include "pg/result.h"

#include <stdlib.h>

enum { SWEEP_INTERVAL_MS = 5000, STEP_ROWS = 1000 };

struct kv_sweep {
    struct keeper *keeper;
    struct loop_timer timer;
    struct pg_job step;
    bool failing; /* logged already */
};

static const struct pg_statement step_statement = {.name = "kv_sweep",
                                                   .sql = "select queen.kv_sweep_v1($1)",
                                                   .param_count = 1,
                                                   .types = {PG_INT4}};

static void step_build(struct pg_job *job, struct pg_params *params)
{
    (void)job;
    pg_param_int4(params, STEP_ROWS);
}

static void step_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct kv_sweep *s = TABLE_OWNER(job, struct kv_sweep, step);
    if (outcome->status != PG_DONE) {
        if (!s->failing && !s->keeper->stopping)
            logger_warn("kv_sweep", "expired keys were not deleted: %s", outcome->text);
        s->failing = true;
        return;
    }
    int32_t rows = pg_get_int4(outcome->result, 0, 0);
    s->failing = false;
    slot_count(&s->keeper->slot.counters->kv_swept, (uint64_t)rows);
    if (rows >= STEP_ROWS)
        pg_lane_submit(s->keeper->lane, &s->step);
}

static void sweep_tick(struct loop_timer *timer)
{
    struct kv_sweep *s = TABLE_OWNER(timer, struct kv_sweep, timer);
    struct loop *loop = s->keeper->loop;
    loop_timer_set(loop, timer, loop_now_ms(loop) + SWEEP_INTERVAL_MS);
    if (s->step.state == PG_JOB_IDLE)
        pg_lane_submit(s->keeper->lane, &s->step);
}

struct kv_sweep *kv_sweep_new(struct keeper *keeper)
{
    struct kv_sweep *s = mem_zalloc(sizeof *s);
    s->keeper = keeper;
    s->step = (struct pg_job){.statement = &step_statement, .build = step_build, .done = step_done};
    s->timer.fire = sweep_tick;
    loop_timer_set(keeper->loop, &s->timer, loop_now_ms(keeper->loop));
    return s;
}

void kv_sweep_free(struct kv_sweep *sweep)
{
    loop_timer_cancel(sweep->keeper->loop, &sweep->timer);
    free(sweep);
}
