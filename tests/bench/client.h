/* A keep-alive HTTP/1.1 client: one request at a time on a connection. */
#ifndef BENCH_CLIENT_H
#define BENCH_CLIENT_H

#include "connection.h"

struct client {
    struct connection connection;
    bool busy;
    uint64_t started_us; /* when the request was due (open loop) or sent */
    /* The whole answer is there; body is valid during the call. status 0: the connection broke. */
    void (*answered)(struct client *c, int status, struct slice body);
    void *owner;
};

void client_init(struct client *c, struct loop *loop, const struct sockaddr_in *address,
                 void (*answered)(struct client *, int, struct slice), void *owner);
/* Sends a request; the answer comes to answered(). body may be empty. due_us: the time the latency
 * counts from; 0 = now. */
void client_send(struct client *c, const char *method, struct slice target, struct slice body,
                 uint64_t due_us);

#endif
