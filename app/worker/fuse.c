/* When a fused statement may start. */
#include "worker/fuse.h"

enum { FUSE_OVERLAP_MS = 20 };

static void fuse_overlap(struct loop_timer *timer)
{
    struct fuse *f = TABLE_OWNER(timer, struct fuse, overlap_timer);
    loop_task_queue(f->w->loop, f->task);
}

void fuse_init(struct fuse *f, struct worker *w, struct pg_lane **lane, struct loop_task *task)
{
    f->w = w;
    f->lane = lane;
    f->task = task;
    f->overlap_timer.fire = fuse_overlap;
}

void fuse_stop(struct fuse *f)
{
    loop_timer_cancel(f->w->loop, &f->overlap_timer);
}

bool fuse_may_fire(struct fuse *f)
{
    uint64_t next = f->fired_at_ms + FUSE_OVERLAP_MS;
    if (!pg_lane_has_idle(*f->lane))
        return false; /* the lane says when */
    if (f->in_flight == 0 || loop_now_ms(f->w->loop) >= next)
        return true;
    if (!loop_timer_armed(&f->overlap_timer))
        loop_timer_set(f->w->loop, &f->overlap_timer, next);
    return false;
}

void fuse_fired(struct fuse *f)
{
    f->in_flight++;
    f->fired_at_ms = loop_now_ms(f->w->loop);
    loop_timer_cancel(f->w->loop, &f->overlap_timer);
}

void fuse_ended(struct fuse *f)
{
    f->in_flight--;
    loop_task_queue(f->w->loop, f->task);
}
