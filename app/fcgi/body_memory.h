/* The budget of memory for request bodies, and the queue of requests that wait for it unread.
 * Engine thread only. Private to app/fcgi. */
#ifndef FCGI_BODY_MEMORY_H
#define FCGI_BODY_MEMORY_H

#include "fcgi/handover.h"

struct body_memory {
    size_t max;  /* bytes */
    size_t used; /* bytes promised to requests; above max only for one body larger than max */
    struct channel_queue waiting; /* first come, first served */
    struct loop *loop;
    struct loop_task admit; /* lets waiting requests in at the end of the round */
    /* The memory for c's body is there. */
    void (*admitted)(struct channel *c);
};

void body_memory_open(struct body_memory *m, struct loop *loop, size_t max,
                      void (*admitted)(struct channel *c));
void body_memory_close(struct body_memory *m);

/* Takes the memory for c's announced body. False: c waits in the queue; admitted() follows, unless
 * body_memory_leave() comes first. A small body passes the large ones that wait, as long as it
 * fits. */
MUST_CHECK bool body_memory_take(struct body_memory *m, struct channel *c);
void body_memory_leave(struct body_memory *m, struct channel *c);

/* Gives back what c holds, if anything. */
void body_memory_release(struct body_memory *m, struct channel *c);

#endif
