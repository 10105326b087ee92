/* A FastCGI connection and the one request on it, from accept to close. Private to app/fcgi.
 *
 * A connection belongs to one thread at a time: the acceptor while it is made, an I/O thread while
 * its stage is POOLED, else the engine. It is never moved in memory: libfcgi's streams point into
 * its FCGX_Request. */
#ifndef FCGI_CHANNEL_H
#define FCGI_CHANNEL_H

#include "fcgi/handover.h"
#include "fcgi/request.h"

#include <fcgiapp.h>

/* Bodies and answers up to this are read and written by the engine itself. An answer of this size
 * fits into the empty send buffer of a socket (212,992 bytes by default). */
enum { FCGI_SMALL_BYTES = 65536 };

struct fcgi_server;

enum channel_stage {
    CHANNEL_IDLE,    /* kept: waits for its next request */
    CHANNEL_POOLED,  /* an I/O thread has it, or it is on its way there or back */
    CHANNEL_WAITING, /* head read, body unread: in the queue for body memory */
    CHANNEL_OPEN,    /* the application has the request */
    CHANNEL_PARKED,  /* the same, and a client that leaves is reported */
    CHANNEL_SENDING, /* a large answer waits for room in the socket */
};

/* What another thread did or shall do, and what came of it. */
enum io_job {
    IO_ADOPT,  /* the acceptor made it: head read */
    IO_ACCEPT, /* read the head of the next request of a kept connection */
    IO_READ,   /* read the body */
    IO_DRAIN,  /* throw away the body of a refused request */
    IO_WRITE,  /* go on writing the answer */
};
enum io_result {
    IO_DONE,
    IO_DEAD,    /* the peer is gone or broke the protocol */
    IO_SHORT,   /* less body than announced */
    IO_LONG,    /* more body than announced, or than anybody would drain */
    IO_BLOCKED, /* no room in the socket */
};

struct request {
    struct request_head head;
    struct buf body;
    size_t body_reserved; /* bytes of the body memory budget held */
    struct arena arena;
    void *state;                     /* the application's */
    void (*gone)(struct request *r); /* while parked */
    int status;                      /* of the answer */
    const char *refusal; /* answer this (with status) instead of asking the application */
    struct buf answer;   /* large answer: bytes still to be written ... */
    size_t answer_sent;  /* ... after these */
};

struct channel {
    FCGX_Request fcgi;
    struct fcgi_server *server;
    struct request request;
    enum channel_stage stage;
    enum io_job job;
    enum io_result result;
    bool whole;       /* the whole request was seen in the socket: reading it cannot block */
    uint32_t watched; /* EPOLL* bits, 0 = not in the loop */
    struct loop_io io;
    TAILQ_ENTRY(channel) link;       /* engine: all connections of the server */
    TAILQ_ENTRY(channel) queue_link; /* handover, I/O pool or body memory: one at a time */
};

/* Acceptor thread. The listening socket is the server's; never NULL. */
struct channel *channel_new(struct fcgi_server *server);
/* Acceptor thread, after FCGX_Accept_r succeeded: bounds how long libfcgi may block on it. */
void channel_set_timeouts(struct channel *c);

/* Acceptor, I/O thread, or engine when it cannot block: reads the head of the next request, of a
 * new connection if it has none. Returns 0, or an errno; then it has no connection any more. */
MUST_CHECK int channel_accept(struct channel *c);

/* Engine, everything below. */

/* A connection that came through the handover: goes on from c->job and c->result. */
void channel_returned(struct channel *c);

/* The memory for the body was granted. */
void channel_read_body(struct channel *c);

/* Hands the connection to the I/O pool. */
void channel_submit(struct channel *c, enum io_job job);

/* The answer was written and FCGX_Finish_r called: keep or close. */
void channel_finished(struct channel *c);

/* Stop: closes it if it is idle and nothing waits in its socket. */
void channel_close_if_idle(struct channel *c);

/* Drops the connection whatever it was doing, except POOLED. */
void channel_close(struct channel *c);

/* Watches for these events only; 0 = not at all. False: the loop cannot (logged). */
bool channel_watch(struct channel *c, uint32_t events);

static inline struct channel *channel_of(const struct request *r)
{
    return (struct channel *)((char *)(uintptr_t)r - offsetof(struct channel, request));
}

#endif
