/* One connection of a lane: connecting, session set-up, running one statement. Private to app/pg.
 */
#ifndef PG_CONNECTION_H
#define PG_CONNECTION_H

#include "pg/lane.h"

enum conn_state {
    CONN_DOWN,      /* timer: when to try again */
    CONN_OPENING,   /* libpq connects; timer: when to give up */
    CONN_SESSION,   /* the session is set up and checked; timer as before */
    CONN_IDLE,      /* up and free */
    CONN_PREPARING, /* a job waits for its statement to be prepared */
    CONN_EXECUTING, /* a job's statement runs */
};

enum { CONN_STATEMENTS = 64 };

struct connection {
    struct pg_lane *lane;
    struct loop *loop;
    const char *conninfo;
    char application_name[64];
    PGconn *pg; /* NULL when down */
    enum conn_state state;
    struct loop_io io;
    struct loop_timer timer;
    unsigned failures;   /* attempts since it last was up for a second */
    unsigned first_host; /* see pg_connect_start() */
    uint64_t up_since_ms;

    struct pg_job *job; /* PREPARING, EXECUTING */
    bool unsent;        /* part of the current message is still in our buffer */
    /* What the server said about the current statement. It counts only once the server is ready
     * for the next one: a commit happens after the rows were sent, and can fail. */
    PGresult *rows;
    bool refused;   /* ERROR or FATAL: rolled back */
    bool broken;    /* libpq lost the connection before the server was ready again */
    bool uncertain; /* it may have committed, whatever else was said */
    bool replan;    /* the statement has to be prepared anew, on a fresh connection */
    char sqlstate[6];
    char text[256];

    struct pg_params params; /* scratch */

    const struct pg_statement *prepared[CONN_STATEMENTS];
    size_t prepared_count;
};

void connection_open(struct connection *c, struct pg_lane *lane, struct loop *loop,
                     const struct pg_lane_config *config);

/* Takes a job; the connection is idle. Either the job runs now, or the connection is down and the
 * job came back by lane_job_again() or lane_job_over(). */
void connection_run(struct connection *c, struct pg_job *job);

/* The running job's time is up: the server is told, the connection closed and opened anew. Returns
 * whether anything of the job's statement may take effect. */
MUST_CHECK bool connection_abandon(struct connection *c);

/* Closes for good; no callbacks. */
void connection_close(struct connection *c);

/* What a connection tells its lane (lane.c). */
void lane_connection_up(struct pg_lane *lane);
void lane_connection_down(struct pg_lane *lane, bool was_up, const char *why);
/* The connection is free again, or down, when it reports a job's outcome. */
void lane_job_over(struct pg_lane *lane, struct pg_job *job, const struct pg_outcome *outcome);
/* Nothing of the job has happened; it goes back to the head of the queue. */
void lane_job_again(struct pg_lane *lane, struct pg_job *job);

#endif
