/* When a fused statement may start. One statement in flight gathers the most; a second one starts
 * only when the first has taken longer than usual, so that a blocked statement does not hold up
 * the lane. Fewer, larger commits at no loss of latency: PostgreSQL would have to wait for the
 * same disk anyway. */
#ifndef WORKER_FUSE_H
#define WORKER_FUSE_H

#include "worker/worker.h"

struct fuse {
    struct worker *w;
    struct pg_lane **lane;  /* of the worker; made after the fuse */
    struct loop_task *task; /* fires the next statement */
    struct loop_timer overlap_timer;
    unsigned in_flight;
    uint64_t fired_at_ms;
};

void fuse_init(struct fuse *f, struct worker *w, struct pg_lane **lane, struct loop_task *task);
void fuse_stop(struct fuse *f);

/* False: not now; the task is queued again when it may. */
MUST_CHECK bool fuse_may_fire(struct fuse *f);
void fuse_fired(struct fuse *f);
/* A statement counted by fuse_fired() is over, retries included. */
void fuse_ended(struct fuse *f);

#endif
