/* Purge: small steps, so that no step holds a partition's lock for long, as long as there is more.
 */
#include "keeper/purge.h"

#include "base/logger.h"
#include "base/table.h"
#include "pg/result.h"

#include <inttypes.h>
#include <stdlib.h>

enum {
    PURGE_INTERVAL_MS = 10000,
    STEP_PARTITIONS = 100,
    STEP_ROWS = 10000,
};

struct purge {
    struct keeper *keeper;
    struct loop_timer timer;
    struct pg_job step;
    int64_t purged; /* rows, in this round */
    bool failing;   /* logged already */
};

/* The function lets one host at a time in: 0 for the others. */
static const struct pg_statement step_statement = {.name = "txns_purge",
                                                   .sql = "select queen.log_txns_purge_v1($1, $2)",
                                                   .param_count = 2,
                                                   .types = {PG_INT4, PG_INT4}};

static void step_build(struct pg_job *job, struct pg_params *params)
{
    (void)job;
    pg_param_int4(params, STEP_PARTITIONS);
    pg_param_int4(params, STEP_ROWS);
}

static void step_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct purge *p = TABLE_OWNER(job, struct purge, step);
    if (outcome->status != PG_DONE) {
        if (!p->failing && !p->keeper->stopping)
            logger_warn("purge", "hash rows were not purged: %s", outcome->text);
        p->failing = true;
        return;
    }
    p->failing = false;
    int64_t rows = pg_get_int8(outcome->result, 0, 0);
    p->purged += rows;
    /* Either bound may have ended the step, so only an empty one says that nothing is due. */
    if (rows > 0)
        pg_lane_submit(p->keeper->lane, &p->step);
    else if (p->purged > 0)
        logger_info("purge", "purged %" PRId64 " hash rows", p->purged);
}

static void purge_tick(struct loop_timer *timer)
{
    struct purge *p = TABLE_OWNER(timer, struct purge, timer);
    struct loop *loop = p->keeper->loop;
    loop_timer_set(loop, timer, loop_now_ms(loop) + PURGE_INTERVAL_MS);
    if (p->step.state != PG_JOB_IDLE)
        return;
    p->purged = 0;
    pg_lane_submit(p->keeper->lane, &p->step);
}

struct purge *purge_new(struct keeper *keeper)
{
    struct purge *p = mem_zalloc(sizeof *p);
    p->keeper = keeper;
    p->step = (struct pg_job){.statement = &step_statement, .build = step_build, .done = step_done};
    p->timer.fire = purge_tick;
    loop_timer_set(keeper->loop, &p->timer, loop_now_ms(keeper->loop));
    return p;
}

void purge_free(struct purge *purge)
{
    loop_timer_cancel(purge->keeper->loop, &purge->timer);
    free(purge);
}
