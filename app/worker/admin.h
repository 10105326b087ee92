/* Calls that are one statement: parameters in, one rendered answer out. */
#ifndef WORKER_ADMIN_H
#define WORKER_ADMIN_H

#include "pg/result.h"
#include "worker/worker.h"

struct admin_call {
    struct pg_job job;
    struct loop_timer timer;
    struct worker *w;
    struct request *r;
    struct pg_lane *lane;
    uint64_t deadline_ms;
    bool unsettled; /* an earlier try may have committed */
    bool once;      /* not repeatable: an unknown outcome is answered as such */
    /* The statement's parameters, as far as the call has them; live as long as the request. */
    struct slice text[6];
    int64_t number[3];
    /* Writes the answer's body for the result and returns the HTTP status, or goes on with
     * admin_call_next() and returns 0. */
    int (*render)(struct admin_call *call, const PGresult *result, struct buf *body);
    struct slice headers; /* of the answer, whole lines; render may set them; live as the request */
    /* Answers a failure in the route's own shape; NULL = the common one. */
    void (*fail)(struct admin_call *call, const struct pg_outcome *outcome);
};

/* A call in the request's arena, deadline set. */
struct admin_call *admin_call_new(struct worker *w, struct request *r, struct pg_lane *lane,
                                  const struct pg_statement *statement,
                                  void (*build)(struct pg_job *, struct pg_params *));

/* The same for a call that is embedded in a larger, zeroed object of the request's arena. */
void admin_call_init(struct admin_call *call, struct worker *w, struct request *r,
                     struct pg_lane *lane, const struct pg_statement *statement,
                     void (*build)(struct pg_job *, struct pg_params *));

/* Runs it; the statement must be repeatable, since a broken connection makes it run again, or else
 * be marked `once`. A
 * refusal of class 22 (data exception) is the client's fault and becomes 400 with its text; other
 * failures are 500 and 503 with an {"error"} body. */
void admin_call_start(struct admin_call *call);

/* From render(): another statement decides about the answer, with its own build and render; the
 * deadline stays. */
void admin_call_next(struct admin_call *call, const struct pg_statement *statement,
                     void (*build)(struct pg_job *, struct pg_params *),
                     int (*render)(struct admin_call *, const PGresult *, struct buf *));

#endif
