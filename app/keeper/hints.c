/* Hints: asks PostgreSQL which queues were written to lately and wakes this host's parked pops. A
 * lost hint costs one interval, a superfluous one a claim that comes back empty. */
#include "keeper/hints.h"

#include "base/clock.h"
#include "base/logger.h"
#include "base/table.h"
#include "pg/result.h"
#include "shm/fifo.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WORKERS_MAX = 1024, /* as QUEEN_WORKER_SLOTS allows */
    OVERLAP_MS = 2000,  /* last_write_at is a whole second, and a commit comes after its stamp */
    LOOK_TIMEOUT_MS = 5000,
    WAKES_MAX = PIPE_BUF / sizeof(struct wake_record), /* one write; more queues: "every queue" */
};

struct hints {
    struct keeper *keeper;
    struct loop_timer timer;
    struct pg_job look;
    uint64_t asked_ms;  /* when the look in flight was begun */
    uint64_t looked_ms; /* everything written before this was told */
    bool everything;    /* something may have been missed: the next hint names every queue */
    bool failing;       /* logged already */
    uint64_t lost;      /* pg_lane_lost() so far */
    uint32_t generations[WORKERS_MAX]; /* of the workers seen last, by slot */
    int writers[WORKERS_MAX];          /* wake FIFOs by slot; -1 = not open */
};

static const struct pg_statement look_statement = {
    .name = "recent_writes",
    .sql = "select queue from queen.log_recent_writes_v1("
           "clock_timestamp() - $1 * interval '1 millisecond')",
    .param_count = 1,
    .types = {PG_INT8}};

static bool wake_write(struct hints *h, uint32_t slot, const struct wake_record *records,
                       size_t count)
{
    int *fd = &h->writers[slot];
    if (*fd < 0) {
        char path[PATH_MAX];
        fifo_path_wake(h->keeper->settings.run_dir, slot, path, sizeof path);
        *fd = fifo_open_writer(path);
        if (*fd < 0)
            return true; /* nobody reads yet: it looks at everything when it parks */
    }
    switch (fifo_write(*fd, records, count * sizeof *records)) {
    case FIFO_DONE:
        slot_count(&h->keeper->slot.counters->wakes_sent, count);
        return true;
    case FIFO_FULL:
        h->everything = true; /* the next hint makes up for it */
        return true;          /* it has plenty to look at already */
    default:
        (void)close(*fd);
        *fd = -1;
        return false;
    }
}

void hints_wake(struct hints *h, const struct wake_record *records, size_t count)
{
    uint32_t workers[WORKERS_MAX];
    size_t n = slot_workers(h->keeper->shm, NULL, workers, WORKERS_MAX);
    for (size_t i = 0; i < n; i++) {
        if (slot_parked(h->keeper->shm, workers[i]) == 0)
            continue;
        /* The second try is for a worker that was restarted in the same slot. */
        if (!wake_write(h, workers[i], records, count))
            (void)wake_write(h, workers[i], records, count);
    }
}

static void hints_tell(struct hints *h, const PGresult *r)
{
    struct wake_record records[WAKES_MAX] = {{0}};
    size_t count = (size_t)PQntuples(r);
    if (h->everything || count > WAKES_MAX) {
        h->everything = false; /* hints_wake() sets it again where a FIFO is full */
        hints_wake(h, records, 1);
        return;
    }
    for (size_t i = 0; i < count; i++)
        records[i].queue = table_hash(pg_get_bytes(r, (int)i, 0), (struct slice){0});
    if (count > 0)
        hints_wake(h, records, count);
}

static void look_build(struct pg_job *job, struct pg_params *params)
{
    struct hints *h = TABLE_OWNER(job, struct hints, look);
    /* An age, not a time: the clocks of this host and of the server need not agree. */
    uint64_t age = clock_mono_ms() - h->looked_ms + OVERLAP_MS;
    pg_param_int8(params, (int64_t)age);
}

static void look_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct hints *h = TABLE_OWNER(job, struct hints, look);
    if (outcome->status == PG_DONE) {
        h->looked_ms = h->asked_ms;
        h->failing = false;
        hints_tell(h, outcome->result);
        return;
    }
    h->everything = true;
    if (!h->failing && !h->keeper->stopping)
        logger_warn("hints", "cannot look for recent writes: %s", outcome->text);
    h->failing = true;
}

/* Workers that were not there at the last look may have missed hints of an earlier one. Returns how
 * many pops wait on this host. */
static uint64_t hints_count_parked(struct hints *h)
{
    uint64_t parked = 0;
    uint32_t workers[WORKERS_MAX];
    size_t n = slot_workers(h->keeper->shm, NULL, workers, WORKERS_MAX);
    for (size_t i = 0; i < n; i++) {
        uint32_t slot = workers[i], generation = slot_generation(h->keeper->shm, slot);
        parked += slot_parked(h->keeper->shm, slot);
        if (h->generations[slot] != generation)
            h->everything = true;
        h->generations[slot] = generation;
    }
    return parked;
}

static void hints_tick(struct loop_timer *timer)
{
    struct hints *h = TABLE_OWNER(timer, struct hints, timer);
    struct keeper *k = h->keeper;
    uint64_t now = loop_now_ms(k->loop), lost = pg_lane_lost(k->lane);
    loop_timer_set(k->loop, timer, now + (uint64_t)k->settings.fallback_poll_ms);
    if (h->look.state != PG_JOB_IDLE)
        return;
    h->everything |= lost != h->lost;
    h->lost = lost;
    if (hints_count_parked(h) == 0) {
        /* A pop that parks later looks for itself first. */
        h->looked_ms = now;
        return;
    }
    h->asked_ms = now;
    h->look.deadline_ms = now + LOOK_TIMEOUT_MS;
    pg_lane_submit(k->lane, &h->look);
}

struct hints *hints_new(struct keeper *keeper)
{
    struct hints *h = mem_zalloc(sizeof *h);
    h->keeper = keeper;
    h->everything = true;
    h->looked_ms = loop_now_ms(keeper->loop);
    h->look = (struct pg_job){.statement = &look_statement, .build = look_build, .done = look_done};
    for (size_t i = 0; i < WORKERS_MAX; i++)
        h->writers[i] = -1;
    h->timer.fire = hints_tick;
    loop_timer_set(keeper->loop, &h->timer, loop_now_ms(keeper->loop));
    return h;
}

void hints_free(struct hints *hints)
{
    loop_timer_cancel(hints->keeper->loop, &hints->timer);
    for (size_t i = 0; i < WORKERS_MAX; i++)
        if (hints->writers[i] >= 0)
            (void)close(hints->writers[i]);
    free(hints);
}
