/* A lane: the queue of jobs, their deadlines, and which connection takes which. What happens on a
 * connection is in connection.c. */
#include "pg/lane.h"

#include "base/logger.h"
#include "base/table.h"
#include "pg/connection.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OUTAGE_REPEAT_MS = 10000
}; /* a new reason for a going outage is logged this often at most */

struct pg_lane {
    struct loop *loop;
    char name[32];
    uint64_t statement_timeout_ms;
    void (*idle)(void *owner);
    void *owner;
    TAILQ_HEAD(lane_queue, pg_job) queue;
    size_t queued;
    struct loop_task dispatch_task;
    size_t freed; /* connections that have become free since the owner was last told */
    size_t up;
    uint64_t lost;
    bool closing;
    /* The log tells states, not attempts. */
    bool outage_logged;
    uint64_t outage_logged_ms;
    char outage_text[256];
    int connection_count;
    struct connection connections[];
};

static void job_timer(struct loop_timer *timer);
static void lane_dispatch(struct loop_task *task);

struct pg_lane *pg_lane_new(struct loop *loop, const struct pg_lane_config *config)
{
    size_t n = (size_t)config->connections;
    struct pg_lane *lane = mem_zalloc(sizeof *lane + n * sizeof lane->connections[0]);
    lane->loop = loop;
    (void)snprintf(lane->name, sizeof lane->name, "%s", config->name);
    lane->statement_timeout_ms = config->statement_timeout_ms;
    lane->idle = config->idle;
    lane->owner = config->owner;
    lane->connection_count = config->connections;
    lane->dispatch_task.run = lane_dispatch;
    TAILQ_INIT(&lane->queue);
    for (int i = 0; i < lane->connection_count; i++)
        connection_open(&lane->connections[i], lane, loop, config);
    return lane;
}

static void job_leave(struct pg_lane *lane, struct pg_job *job)
{
    if (job->state == PG_JOB_QUEUED) {
        TAILQ_REMOVE(&lane->queue, job, link);
        lane->queued--;
    }
    loop_timer_cancel(lane->loop, &job->timer);
    job->state = PG_JOB_IDLE;
}

static void job_finish(struct pg_lane *lane, struct pg_job *job, enum pg_status status,
                       const char *text)
{
    struct pg_outcome outcome = {.status = status, .text = text};
    job_leave(lane, job);
    job->done(job, &outcome);
}

static struct connection *lane_connection_of(struct pg_lane *lane, const struct pg_job *job)
{
    for (int i = 0; i < lane->connection_count; i++)
        if (lane->connections[i].job == job)
            return &lane->connections[i];
    return NULL;
}

static size_t lane_idle_count(const struct pg_lane *lane)
{
    size_t n = 0;
    for (int i = 0; i < lane->connection_count; i++)
        n += lane->connections[i].state == CONN_IDLE;
    return n;
}

/* The job's deadline. */
static void job_timer(struct loop_timer *timer)
{
    struct pg_job *job = TABLE_OWNER(timer, struct pg_job, timer);
    struct pg_lane *lane = job->lane;
    if (job->state == PG_JOB_QUEUED) {
        job_finish(lane, job, PG_NOT_SENT,
                   lane->up == 0 ? "the database cannot be reached"
                                 : "no database connection was free within the deadline");
        return;
    }
    bool may_happen = connection_abandon(lane_connection_of(lane, job));
    job_finish(lane, job, may_happen ? PG_UNKNOWN : PG_NOT_SENT,
               "the statement passed its deadline");
}

void pg_lane_submit(struct pg_lane *lane, struct pg_job *job)
{
    if (job->state != PG_JOB_IDLE)
        die("job of lane %s submitted twice", lane->name);
    if (lane->closing) {
        job_finish(lane, job, PG_NOT_SENT, "shutting down");
        return;
    }
    job->lane = lane;
    job->replanned = false;
    job->state = PG_JOB_QUEUED;
    job->timer.fire = job_timer;
    job->until_ms = job->deadline_ms != 0 ? job->deadline_ms
                                          : loop_now_ms(lane->loop) + lane->statement_timeout_ms;
    loop_timer_set(lane->loop, &job->timer, job->until_ms);
    TAILQ_INSERT_TAIL(&lane->queue, job, link);
    lane->queued++;
    loop_task_queue(lane->loop, &lane->dispatch_task);
}

bool pg_lane_withdraw(struct pg_lane *lane, struct pg_job *job)
{
    if (job->state != PG_JOB_QUEUED)
        return false;
    job_leave(lane, job);
    return true;
}

static void lane_run_next(struct pg_lane *lane, struct connection *c)
{
    struct pg_job *job = TAILQ_FIRST(&lane->queue);
    uint64_t until = loop_now_ms(lane->loop) + lane->statement_timeout_ms;
    TAILQ_REMOVE(&lane->queue, job, link);
    lane->queued--;
    job->state = PG_JOB_RUNNING;
    loop_timer_set(lane->loop, &job->timer, job->until_ms < until ? job->until_ms : until);
    connection_run(c, job);
}

/* End of a round: jobs to free connections, then word to the owner about those that stay free. */
static void lane_dispatch(struct loop_task *task)
{
    struct pg_lane *lane = TABLE_OWNER(task, struct pg_lane, dispatch_task);
    for (int i = 0; i < lane->connection_count && lane->queued > 0; i++)
        if (lane->connections[i].state == CONN_IDLE)
            lane_run_next(lane, &lane->connections[i]);
    size_t freed = lane->freed;
    lane->freed = 0;
    for (; freed > 0 && lane->idle != NULL && pg_lane_has_idle(lane); freed--)
        lane->idle(lane->owner);
}

static void lane_freed(struct pg_lane *lane)
{
    lane->freed++;
    loop_task_queue(lane->loop, &lane->dispatch_task);
}

void lane_connection_up(struct pg_lane *lane)
{
    lane->up++;
    if (lane->outage_logged || lane->up == 1)
        logger_info(lane->name, "connected to the database");
    lane->outage_logged = false;
    lane_freed(lane);
}

void lane_connection_down(struct pg_lane *lane, bool was_up, const char *why)
{
    uint64_t now = loop_now_ms(lane->loop);
    if (was_up) {
        lane->up--;
        lane->lost++;
        logger_warn(lane->name, "database connection lost: %s", why);
        return;
    }
    if (lane->outage_logged &&
        (strcmp(why, lane->outage_text) == 0 || now - lane->outage_logged_ms < OUTAGE_REPEAT_MS))
        return;
    logger_warn(lane->name, "cannot connect to the database, still trying: %s", why);
    lane->outage_logged = true;
    lane->outage_logged_ms = now;
    (void)snprintf(lane->outage_text, sizeof lane->outage_text, "%s", why);
}

void lane_job_over(struct pg_lane *lane, struct pg_job *job, const struct pg_outcome *outcome)
{
    job_leave(lane, job);
    lane_freed(lane);
    job->done(job, outcome);
}

void lane_job_again(struct pg_lane *lane, struct pg_job *job)
{
    job->state = PG_JOB_QUEUED;
    loop_timer_set(lane->loop, &job->timer, job->until_ms);
    TAILQ_INSERT_HEAD(&lane->queue, job, link);
    lane->queued++;
    loop_task_queue(lane->loop, &lane->dispatch_task);
}

void pg_lane_free(struct pg_lane *lane)
{
    if (lane == NULL)
        return;
    lane->closing = true;
    for (int i = 0; i < lane->connection_count; i++) {
        struct connection *c = &lane->connections[i];
        struct pg_job *job = c->job;
        bool may_happen = c->state == CONN_EXECUTING && !c->unsent;
        connection_close(c);
        if (job != NULL)
            job_finish(lane, job, may_happen ? PG_UNKNOWN : PG_NOT_SENT, "shutting down");
    }
    struct pg_job *job;
    while ((job = TAILQ_FIRST(&lane->queue)) != NULL)
        job_finish(lane, job, PG_NOT_SENT, "shutting down");
    loop_task_cancel(lane->loop, &lane->dispatch_task);
    free(lane);
}

bool pg_lane_has_idle(const struct pg_lane *lane)
{
    return lane_idle_count(lane) > lane->queued;
}

bool pg_lane_connected(const struct pg_lane *lane)
{
    return lane->up > 0;
}

size_t pg_lane_queued(const struct pg_lane *lane)
{
    return lane->queued;
}

size_t pg_lane_up(const struct pg_lane *lane)
{
    return lane->up;
}

size_t pg_lane_idle(const struct pg_lane *lane)
{
    return lane_idle_count(lane);
}

uint64_t pg_lane_lost(const struct pg_lane *lane)
{
    return lane->lost;
}
