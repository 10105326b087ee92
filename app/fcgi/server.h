/* The FastCGI side of a worker: acceptor thread, kept connections, reader and writer pool, orderly
 * stop. Built on libfcgi; what each of its calls blocks on decides which thread may make it
 * (see fcgi/README.md). */
#ifndef FCGI_SERVER_H
#define FCGI_SERVER_H

#include "fcgi/request.h"

struct fcgi_server;

struct fcgi_server_config {
    int listen_fd; /* from spawn-fcgi or systemd: 0 */
    int io_threads;
    size_t max_body_bytes;  /* larger: answered 413 without reading */
    size_t max_connections; /* accepting pauses above it */
    size_t max_body_memory; /* bytes of bodies held at a time; beyond it requests wait unread */
    /* A complete request. Called in the loop's thread; ends in exactly one request_answer(). */
    void (*handle)(struct request *r, void *owner);
    /* Every answer, for counters. May be NULL. */
    void (*answered)(int status, void *owner);
    /* Called once when, after fcgi_server_stop(), the last request was answered. */
    void (*drained)(void *owner);
    void *owner;
};

MUST_CHECK bool fcgi_server_start(struct loop *loop, const struct fcgi_server_config *config,
                                  struct fcgi_server **out, struct err *err);

/* Stops accepting, closes idle kept connections, lets open requests finish; then drained(). The
 * application answers its parked requests itself. */
void fcgi_server_stop(struct fcgi_server *server);
void fcgi_server_free(struct fcgi_server *server);

size_t fcgi_server_connections(const struct fcgi_server *server);

#endif
