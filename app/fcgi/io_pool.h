/* The threads that may block in libfcgi. A connection handed to them is theirs until it comes back
 * through the handover. Private to app/fcgi. */
#ifndef FCGI_IO_POOL_H
#define FCGI_IO_POOL_H

#include "fcgi/handover.h"

struct io_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;
    struct channel_queue queue; /* under the lock */
    bool stopping;              /* under the lock */
    struct handover *back;
    pthread_t *threads;
    int thread_count; /* running */
};

/* Call with all signals blocked: the threads inherit the mask. */
MUST_CHECK bool io_pool_start(struct io_pool *p, int threads, struct handover *back,
                              struct err *err);
/* Waits for the jobs that run; those still queued stay in the queue. */
void io_pool_stop(struct io_pool *p);

/* c->job says what is to be done, c->result will say what came of it. */
void io_pool_submit(struct io_pool *p, struct channel *c);

#endif
