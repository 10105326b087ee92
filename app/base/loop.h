/* The event loop of the engine, the flusher and the keeper: epoll for descriptors, a heap for
 * deadlines, and a list of things to do once at the end of the current round. One thread only.
 * Handlers never block. */
#ifndef BASE_LOOP_H
#define BASE_LOOP_H

#include "base/err.h"

#include <stdint.h>
#include <sys/epoll.h>
#include <sys/queue.h>

struct loop;

/* A watched descriptor. Embedded in its owner, which must outlive the watch. */
struct loop_io {
    void (*ready)(struct loop_io *io, uint32_t events); /* EPOLL* bits */
    int fd;
    uint32_t generation; /* private: an event of a watch that was removed meanwhile is dropped */
    int slot;            /* private: index in the loop's table, -1 = not watched */
};

/* A deadline. Zero-initialise; embedded in its owner. Fires once, then may be armed again. */
struct loop_timer {
    void (*fire)(struct loop_timer *timer);
    uint64_t at_ms;   /* clock_mono_ms() */
    size_t heap_slot; /* private: position + 1 in the heap, 0 = not armed */
};

/* Work to be done once, after all events of this round were handled: this is where flushes are
 * fired, so that everything that arrived together travels together. */
struct loop_task {
    void (*run)(struct loop_task *task);
    TAILQ_ENTRY(loop_task) link;
    bool queued;
};

/* Never returns NULL. */
struct loop *loop_new(void);
void loop_free(struct loop *loop);

/* Watches fd for `events` (level-triggered). The descriptor stays the caller's. */
MUST_CHECK bool loop_watch(struct loop *loop, struct loop_io *io, int fd, uint32_t events,
                           void (*ready)(struct loop_io *, uint32_t), struct err *err);
/* Changes the watched events of a watched io. */
void loop_rewatch(struct loop *loop, struct loop_io *io, uint32_t events);
/* Stops watching; call before closing the descriptor. Safe on an io that is not watched. */
void loop_unwatch(struct loop *loop, struct loop_io *io);

/* Arms or moves a deadline; fire was set by the owner. */
void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t at_ms);
void loop_timer_cancel(struct loop *loop, struct loop_timer *timer);
static inline bool loop_timer_armed(const struct loop_timer *timer)
{
    return timer->heap_slot != 0;
}

void loop_task_queue(struct loop *loop, struct loop_task *task);
void loop_task_cancel(struct loop *loop, struct loop_task *task);

/* Cached clock_mono_ms() of the current round. */
uint64_t loop_now_ms(const struct loop *loop);

/* Runs until loop_stop(). */
void loop_run(struct loop *loop);
void loop_stop(struct loop *loop);

#endif
