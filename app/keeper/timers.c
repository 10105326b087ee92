/* The fire loop. One statement takes due timers, stores their messages and says when the next one
 * is due, all in one transaction: a keeper that dies at any moment neither loses nor repeats one.
 */
#include "keeper/timers.h"

#include "base/clock.h"
#include "base/logger.h"
#include "base/table.h"
#include "pg/result.h"
#include "pg/retry.h"
#include "shm/fifo.h"

#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    FIRE_MAX = 100,       /* payloads of at most 1 MiB by default make a segment that can be read */
    LOCKED_PAUSE_MS = 10, /* what is due is being fired by another host */
    FAILED_PAUSE_MS = 200,
    WAKES_MAX = PIPE_BUF / sizeof(struct wake_record),
    RECORDS_MAX = PIPE_BUF / sizeof(struct timer_record),
};

struct timers {
    struct keeper *keeper;
    struct hints *hints;
    struct pg_lane *lane; /* its own: no purge step may make a timer late */
    struct loop_io in;
    struct loop_timer timer;
    struct pg_job fire, defer;
    int32_t limit;    /* timers of the next statement; 1 while looking for one that fails */
    uint64_t told_ms; /* earliest due time that workers told of while a statement ran */
    bool everything;  /* a commit whose outcome is unknown may have stored something */
    bool failing;     /* logged already */
    char why[256];    /* of the timer to be put off */
};

static const struct pg_statement fire_statement = {
    .name = "timers_fire",
    .sql = "select queue, partition, fired, next_us from queen.log_timers_fire_v1($1)",
    .param_count = 1,
    .types = {PG_INT4}};
enum { FIRE_QUEUE, FIRE_PARTITION, FIRE_FIRED, FIRE_NEXT_US };

static const struct pg_statement defer_statement = {.name = "timers_defer",
                                                    .sql =
                                                        "select from queen.log_timers_defer_v1($1)",
                                                    .param_count = 1,
                                                    .types = {PG_TEXT}};

static uint64_t timers_fallback(const struct timers *t)
{
    return loop_now_ms(t->keeper->loop) + (uint64_t)t->keeper->settings.fallback_poll_ms;
}

/* Looks at the database at that time, at the latest after the fallback interval. */
static void timers_arm(struct timers *t, uint64_t at_ms)
{
    if (t->told_ms < at_ms)
        at_ms = t->told_ms;
    if (timers_fallback(t) < at_ms)
        at_ms = timers_fallback(t);
    t->told_ms = UINT64_MAX;
    loop_timer_set(t->keeper->loop, &t->timer, at_ms);
}

static void timers_tick(struct loop_timer *timer)
{
    struct timers *t = TABLE_OWNER(timer, struct timers, timer);
    pg_lane_submit(t->lane, &t->fire);
}

static void timers_read(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct timers *t = TABLE_OWNER(io, struct timers, in);
    struct timer_record records[RECORDS_MAX];
    ssize_t n = read(io->fd, records, sizeof records);
    for (ssize_t i = 0; i < n / (ssize_t)sizeof *records; i++)
        if (records[i].due_ms < t->told_ms)
            t->told_ms = records[i].due_ms;
    if (loop_timer_armed(&t->timer))
        timers_arm(t, t->timer.at_ms);
}

static void fire_build(struct pg_job *job, struct pg_params *params)
{
    pg_param_int4(params, TABLE_OWNER(job, struct timers, fire)->limit);
}

static void timers_wake(struct timers *t, const PGresult *r)
{
    struct wake_record records[WAKES_MAX] = {{0}};
    size_t count = 0;
    if (t->everything)
        hints_wake(t->hints, records, 1);
    t->everything = false;
    for (int row = 0; row < PQntuples(r); row++) {
        if (pg_is_null(r, row, FIRE_QUEUE))
            continue;
        if (count == WAKES_MAX) {
            hints_wake(t->hints, records, count);
            count = 0;
        }
        records[count++] = (struct wake_record){
            .queue = table_hash(pg_get_bytes(r, row, FIRE_QUEUE), (struct slice){0}),
            .partition = table_hash(pg_get_bytes(r, row, FIRE_PARTITION), (struct slice){0})};
    }
    if (count > 0)
        hints_wake(t->hints, records, count);
}

static void fire_committed(struct timers *t, const PGresult *r)
{
    int last = PQntuples(r) - 1;
    int64_t fired = pg_get_int8(r, last, FIRE_FIRED);
    uint64_t wait_ms = UINT32_MAX;
    t->failing = false;
    slot_count(&t->keeper->slot.counters->timers_fired, (uint64_t)fired);
    timers_wake(t, r);
    if (!pg_is_null(r, last, FIRE_NEXT_US))
        wait_ms = ((uint64_t)pg_get_int8(r, last, FIRE_NEXT_US) + 999) / 1000;
    if (fired == 0 && wait_ms == 0)
        wait_ms = LOCKED_PAUSE_MS;
    timers_arm(t, clock_mono_ms() + wait_ms);
}

/* The server refuses to store some timer's message: find it, one by one, and put it off. */
static void fire_refused(struct timers *t, const char *text)
{
    slot_count(&t->keeper->slot.counters->timers_failed, 1);
    logger_error("timers", "cannot fire %d timers: %s", (int)t->limit, text);
    if (t->limit > 1) {
        t->limit = 1;
        pg_lane_submit(t->lane, &t->fire);
        return;
    }
    t->limit = FIRE_MAX;
    (void)snprintf(t->why, sizeof t->why, "%s", text);
    pg_lane_submit(t->lane, &t->defer);
}

static void fire_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct timers *t = TABLE_OWNER(job, struct timers, fire);
    if (outcome->status == PG_DONE) {
        fire_committed(t, outcome->result);
        return;
    }
    if (t->keeper->stopping)
        return;
    t->everything |= outcome->status == PG_UNKNOWN;
    if (outcome->status == PG_REFUSED && !pg_outcome_may_pass(outcome)) {
        fire_refused(t, outcome->text);
        return;
    }
    if (!t->failing)
        logger_warn("timers", "cannot fire: %s", outcome->text);
    t->failing = true;
    timers_arm(t, loop_now_ms(t->keeper->loop) + FAILED_PAUSE_MS);
}

static void defer_build(struct pg_job *job, struct pg_params *params)
{
    pg_param_text(params, slice_of(TABLE_OWNER(job, struct timers, defer)->why));
}

static void defer_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct timers *t = TABLE_OWNER(job, struct timers, defer);
    if (outcome->status != PG_DONE && !t->keeper->stopping)
        logger_warn("timers", "cannot put off a timer: %s", outcome->text);
    if (!t->keeper->stopping)
        timers_arm(t, loop_now_ms(t->keeper->loop) +
                          (outcome->status == PG_DONE ? 0 : FAILED_PAUSE_MS));
}

struct timers *timers_new(struct keeper *keeper, struct hints *hints, struct err *err)
{
    char path[PATH_MAX];
    fifo_path_timers(keeper->settings.run_dir, path, sizeof path);
    int fd = fifo_open_reader(path, err);
    if (fd < 0)
        return NULL;
    struct timers *t = mem_zalloc(sizeof *t);
    t->keeper = keeper;
    t->hints = hints;
    t->limit = FIRE_MAX;
    t->told_ms = UINT64_MAX;
    t->fire = (struct pg_job){.statement = &fire_statement, .build = fire_build, .done = fire_done};
    t->defer =
        (struct pg_job){.statement = &defer_statement, .build = defer_build, .done = defer_done};
    struct pg_lane_config lane = {.name = "timers",
                                  .conninfo = keeper->settings.database_url,
                                  .connections = 1,
                                  .statement_timeout_ms =
                                      (uint64_t)keeper->settings.statement_timeout_ms};
    t->lane = pg_lane_new(keeper->loop, &lane);
    t->timer.fire = timers_tick;
    if (!loop_watch(keeper->loop, &t->in, fd, EPOLLIN, timers_read, err))
        die("cannot watch the FIFO of timers: %s", err->text);
    timers_arm(t, loop_now_ms(keeper->loop));
    return t;
}

void timers_free(struct timers *timers)
{
    pg_lane_free(timers->lane);
    loop_timer_cancel(timers->keeper->loop, &timers->timer);
    loop_unwatch(timers->keeper->loop, &timers->in);
    (void)close(timers->in.fd);
    free(timers);
}
