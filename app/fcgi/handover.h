/* The one way from other threads to the engine: a locked queue of connections and an eventfd that
 * the loop watches. Private to app/fcgi. */
#ifndef FCGI_HANDOVER_H
#define FCGI_HANDOVER_H

#include "base/loop.h"

#include <pthread.h>

struct channel;
TAILQ_HEAD(channel_queue, channel);

struct handover {
    pthread_mutex_t lock;
    struct channel_queue queue; /* under the lock */
    struct loop *loop;
    struct loop_io io; /* the eventfd */
    /* In the loop's thread: once for each connection, then arrived(NULL) for each ring. */
    void (*arrived)(struct handover *h, struct channel *c);
};

MUST_CHECK bool handover_open(struct handover *h, struct loop *loop,
                              void (*arrived)(struct handover *h, struct channel *c),
                              struct err *err);
void handover_close(struct handover *h);

/* Any thread. The connection belongs to the engine when this returns. */
void handover_put(struct handover *h, struct channel *c);

/* Any thread. Makes the engine look without handing anything over. */
void handover_ring(struct handover *h);

#endif
