/* The maintenance switches: what any host has posted reaches this one within a second. */
#include "keeper/maintenance.h"

#include "base/logger.h"
#include "base/table.h"
#include "pg/result.h"
#include "shm/maintenance.h"

#include <stdlib.h>

enum { LOOK_MS = 1000 };

struct maintenance {
    struct keeper *keeper;
    struct hints *hints;
    struct loop_timer timer;
    struct pg_job look;
    uint64_t seen; /* the switches when the look was begun */
    bool known;
};

static const struct pg_statement look_statement = {.name = "maintenance_get",
                                                   .sql = "select push, pop from "
                                                          "queen.maintenance_get_v1()",
                                                   .param_count = 0};

static void look_build(struct pg_job *job, struct pg_params *params)
{
    struct maintenance *m = TABLE_OWNER(job, struct maintenance, look);
    (void)params;
    m->seen = maintenance_read(m->keeper->shm);
}

static void look_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct maintenance *m = TABLE_OWNER(job, struct maintenance, look);
    struct loop *loop = m->keeper->loop;
    if (m->keeper->stopping)
        return;
    loop_timer_set(loop, &m->timer, loop_now_ms(loop) + LOOK_MS);
    if (outcome->status != PG_DONE)
        return; /* the lane says why; the switches stay as they are */
    bool push = pg_get_bool(outcome->result, 0, 0), pop = pg_get_bool(outcome->result, 0, 1);
    m->known = true;
    if (!maintenance_refresh(m->keeper->shm, m->seen, push, pop))
        return;
    logger_info("maintenance", "push maintenance is %s, pop maintenance is %s", push ? "on" : "off",
                pop ? "on" : "off");
    struct wake_record everything = {0};
    hints_wake(m->hints, &everything, 1);
}

static void maintenance_tick(struct loop_timer *timer)
{
    struct maintenance *m = TABLE_OWNER(timer, struct maintenance, timer);
    pg_lane_submit(m->keeper->lane, &m->look);
}

struct maintenance *maintenance_new(struct keeper *keeper, struct hints *hints)
{
    struct maintenance *m = mem_zalloc(sizeof *m);
    m->keeper = keeper;
    m->hints = hints;
    m->look = (struct pg_job){.statement = &look_statement, .build = look_build, .done = look_done};
    m->timer.fire = maintenance_tick;
    loop_timer_set(keeper->loop, &m->timer, loop_now_ms(keeper->loop));
    return m;
}

bool maintenance_known(const struct maintenance *m)
{
    return m->known;
}

void maintenance_free(struct maintenance *m)
{
    loop_timer_cancel(m->keeper->loop, &m->timer);
    free(m);
}
