/* A lane: a few database connections for one kind of work, driven by the event loop, so that one
 * kind cannot starve another (design, section 2). One statement at a time per connection, each in
 * its own transaction; several connections overlap. */
#ifndef PG_LANE_H
#define PG_LANE_H

#include "base/err.h"
#include "base/loop.h"
#include "pg/params.h"

#include <libpq-fe.h>

/* A prepared statement; prepared once per connection, on first use. Static objects. Results come
 * in binary. */
struct pg_statement {
    const char *name;
    const char *sql;
    int param_count;
    enum pg_oid types[PG_MAX_PARAMS];
};

enum pg_status {
    PG_DONE,     /* committed; result holds the rows */
    PG_REFUSED,  /* the server raised an error: rolled back, nothing happened */
    PG_NOT_SENT, /* no connection within the deadline, or the lane is shutting down: nothing
                    happened */
    PG_UNKNOWN,  /* sent, then the connection broke or the deadline passed: it may have committed */
};

struct pg_outcome {
    enum pg_status status;
    const PGresult *result; /* PG_DONE only; valid during done() only */
    char sqlstate[6];       /* PG_REFUSED, else "" */
    const char *text;       /* why not PG_DONE: one line, no statement text; valid during done() */
};

struct pg_lane;

/* One statement to run. Embedded in its owner, which must live until done() ran or
 * pg_lane_withdraw() returned true. done() may submit again and may free the job. */
struct pg_job {
    const struct pg_statement *statement;
    /* Called when a connection takes the job: append the parameters. Called again when that
     * connection broke before the whole statement was sent: nothing has happened then. */
    void (*build)(struct pg_job *job, struct pg_params *params);
    void (*done)(struct pg_job *job, const struct pg_outcome *outcome);
    /* clock_mono_ms(); 0 = now + the lane's statement timeout. Once it runs, the statement
     * timeout bounds it too. */
    uint64_t deadline_ms;

    /* Private; all zero at first. */
    TAILQ_ENTRY(pg_job) link;
    enum { PG_JOB_IDLE, PG_JOB_QUEUED, PG_JOB_RUNNING } state;
    bool replanned; /* it has been prepared anew once already */
    struct pg_lane *lane;
    struct loop_timer timer; /* while queued or running */
    uint64_t until_ms;       /* the deadline that applies */
};

struct pg_lane_config {
    const char *name;     /* for the log and application_name, e.g. "push" */
    const char *conninfo; /* stays valid as long as the lane; "" means libpq's own defaults */
    int connections;
    uint64_t statement_timeout_ms;
    /* Called (from the loop) whenever a connection has become free and no job is queued: a fuser
     * submits its next batch here. May be NULL. */
    void (*idle)(void *owner);
    void *owner;
};

/* Starts connecting; never blocks, never fails: connections are retried for ever, 50 ms to 1 s
 * apart with jitter. Each session runs with timezone=UTC and client_encoding=UTF8, and is checked
 * to be writable (target_session_attrs of the conninfo is the operator's). */
struct pg_lane *pg_lane_new(struct loop *loop, const struct pg_lane_config *config);

/* Queued and running jobs get PG_NOT_SENT or PG_UNKNOWN. */
void pg_lane_free(struct pg_lane *lane);

/* FIFO; taken at the end of the current round when a connection is free. done() is never called
 * from in here, except when the lane is being freed (PG_NOT_SENT). */
void pg_lane_submit(struct pg_lane *lane, struct pg_job *job);

/* True when the job was still queued and now is not; it will not be called. */
bool pg_lane_withdraw(struct pg_lane *lane, struct pg_job *job);

/* More connections are up and free than jobs are queued: a job submitted now runs at once. */
bool pg_lane_has_idle(const struct pg_lane *lane);
/* At least one connection is up. */
bool pg_lane_connected(const struct pg_lane *lane);
size_t pg_lane_queued(const struct pg_lane *lane);
/* Connections that are up, and those of them that run nothing. */
size_t pg_lane_up(const struct pg_lane *lane);
size_t pg_lane_idle(const struct pg_lane *lane);
/* Connections that were up and were lost, since the lane began. */
uint64_t pg_lane_lost(const struct pg_lane *lane);

#endif
