/* The thread that accepts new connections and reads their first head. Private to app/fcgi. */
#ifndef FCGI_ACCEPTOR_H
#define FCGI_ACCEPTOR_H

#include "base/loop.h"

#include <pthread.h>
#include <stdatomic.h>

struct fcgi_server;

struct acceptor {
    struct fcgi_server *server;
    pthread_t thread;
    bool running; /* engine: started and not yet joined */
    int wake_fd;  /* eventfd: stop, or a connection was closed while at the limit; -1 = none */
    size_t max;   /* connections */
    atomic_size_t connections; /* open ones, counted by whoever opens and closes them */
    atomic_bool stopping, ended;
    /* When the current FCGX_Accept_r began (clock_mono_ms), 0 = none: it waits for a peer only. */
    _Atomic uint64_t busy_since_ms;
    struct loop_timer watch; /* engine: interrupts a thread that a silent peer holds up */
};

/* Call with all signals blocked. */
MUST_CHECK bool acceptor_start(struct acceptor *a, struct fcgi_server *server, size_t max,
                               struct err *err);

/* Engine: asks the thread to end; it rings the handover when it has. */
void acceptor_stop(struct acceptor *a);
/* Engine: joins the thread if it has ended. */
bool acceptor_stopped(struct acceptor *a);
/* Stops and waits; also of one that was never started. */
void acceptor_close(struct acceptor *a);

/* Engine: a connection was closed. */
void acceptor_closed_one(struct acceptor *a);

#endif
