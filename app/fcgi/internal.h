/* Inside of the FastCGI side: the request object and the threads' hand-over. */
#ifndef FCGI_INTERNAL_H
#define FCGI_INTERNAL_H

#include "fcgi/server.h"

#include <fcgiapp.h>
#include <pthread.h>

enum request_phase {
    REQUEST_ACCEPTED, /* parameters read; handed to the engine */
    REQUEST_WAITING,  /* its body waits for room in the memory budget */
    REQUEST_READING,  /* an I/O thread reads its body */
    REQUEST_OPEN,     /* with the application */
    REQUEST_WRITING,  /* an I/O thread writes its answer */
    REQUEST_KEPT,     /* answered; the connection waits for the next one */
};

struct request {
    FCGX_Request fcgx; /* never moves: libfcgi's streams point to it */
    struct fcgi_server *server;
    enum request_phase phase;
    TAILQ_ENTRY(request) link;      /* in one hand-over queue at a time */
    TAILQ_ENTRY(request) live_link; /* all requests, engine thread only */
    struct loop_io io;              /* the connection, while parked or kept */
    struct request_head head;
    struct arena arena;
    struct buf body;
    size_t reserved; /* bytes of the body budget it holds */
    void *state;
    void (*gone)(struct request *r);
    bool body_ok; /* all bytes announced did come */
    bool head_only;
    int status;
    struct buf answer; /* header and body as they go out */
};

TAILQ_HEAD(request_queue, request);

/* A queue into another thread. */
struct handover {
    pthread_mutex_t lock;
    pthread_cond_t filled;
    struct request_queue queue;
    bool closed;
};

void handover_init(struct handover *h);
void handover_put(struct handover *h, struct request *r);
/* Blocks; NULL when closed and empty. */
struct request *handover_take(struct handover *h);
/* Everything there is, without blocking. */
void handover_drain(struct handover *h, struct request_queue *into);
void handover_close(struct handover *h);

struct fcgi_server {
    struct loop *loop;
    struct fcgi_server_config config;
    pthread_t acceptor, *io_threads;
    pthread_mutex_t gate_lock; /* guards connections and stopping */
    pthread_cond_t gate;       /* the acceptor waits here above max_connections */
    size_t connections;
    bool stopping, acceptor_done, drained_told;
    struct handover arrived; /* to the engine: accepted, read, written */
    struct handover io_work; /* to the I/O threads */
    int wake_fd;             /* eventfd: something arrived */
    struct loop_io wake;
    struct request_queue live;    /* engine only */
    struct request_queue waiting; /* engine only: for the body budget */
    size_t body_bytes;            /* engine only: reserved */
    size_t open;                  /* engine only: requests that are not kept */
};

/* request.c: engine thread */
void request_begin(struct request *r);
void request_body_read(struct request *r);
void request_keep(struct request *r);
void request_close(struct request *r);
void request_serve_waiting(struct fcgi_server *server);
void server_check_drained(struct fcgi_server *server);

/* What an I/O thread does with a request, by its phase. */
void request_io(struct request *r);

#endif
