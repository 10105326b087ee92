/* A TCP connection on the event loop with a buffer each way: what the clients of all protocols
 * share. */
#ifndef BENCH_CONNECTION_H
#define BENCH_CONNECTION_H

#include "base/buf.h"
#include "base/loop.h"

#include <netinet/in.h>

struct connection {
    struct loop *loop;
    struct sockaddr_in address;
    struct loop_io io;
    int fd;             /* -1 = not connected */
    struct buf out, in; /* what is to be sent; what has come and is not read yet */
    size_t sent;        /* of out */
    /* More bytes are at the end of `in`; the callee removes what it has read. */
    void (*received)(struct connection *c);
    /* The other side closed, or an error; the connection is closed already. */
    void (*broken)(struct connection *c);
    void *owner;
};

/* Does not connect yet. */
void connection_init(struct connection *c, struct loop *loop, const struct sockaddr_in *address,
                     void (*received)(struct connection *), void (*broken)(struct connection *),
                     void *owner);
/* Sends what is in `out`, and connects first when that is needed. May call broken(). */
void connection_flush(struct connection *c);
/* Closes, and forgets both buffers. */
void connection_close(struct connection *c);

#endif
