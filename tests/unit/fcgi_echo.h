/* A small application on the FastCGI server, for its tests. Not shipped.
 *
 *   /echo      the body
 *   /size      the number of bytes of the body
 *   /null      {}
 *   /empty     204
 *   /header    201 with a header of its own
 *   /big?N     N bytes, the one at i being 'a' + i % 23
 *   /park      parked until /release
 *   /hold      open, not parked, until /release, and keeps its body
 *   /lazy      open until /release, then parked until the next /release
 *   /brief     parked, un-parked at once, open until /release
 *   /release   answers (lazy: parks) all that wait; says how many
 *   /status    requests (these aside), gone, answers, waiting, connections */
#ifndef TESTS_FCGI_ECHO_H
#define TESTS_FCGI_ECHO_H

#include "base/logger.h"
#include "fcgi/server.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/signalfd.h>
#include <unistd.h>

struct echo_options {
    size_t max_body, max_connections, max_memory; /* 0 = plenty */
};

struct echo_waiting {
    TAILQ_ENTRY(echo_waiting) link;
    struct echo *echo;
    struct request *request;
    bool park_first;
};

struct echo {
    struct loop *loop;
    struct fcgi_server *server;
    struct loop_io signals;
    TAILQ_HEAD(, echo_waiting) waiting;
    unsigned waiting_count, requests, gone, answers;
};

static inline void echo_text(struct request *r, int status, const char *text)
{
    struct buf body = {0};
    buf_put_slice(&body, slice_of(text));
    request_answer(r, status, "text/plain", (struct slice){0}, &body);
}

static inline void echo_forget(struct echo_waiting *w)
{
    TAILQ_REMOVE(&w->echo->waiting, w, link);
    w->echo->waiting_count--;
}

static inline void echo_gone(struct request *r)
{
    struct echo_waiting *w = request_state(r);
    w->echo->gone++;
    echo_forget(w);
}

static inline struct echo_waiting *echo_wait(struct echo *e, struct request *r)
{
    struct echo_waiting *w = arena_zarray(request_arena(r), 1, sizeof *w);
    w->echo = e;
    w->request = r;
    TAILQ_INSERT_TAIL(&e->waiting, w, link);
    e->waiting_count++;
    request_set_state(r, w);
    return w;
}

static inline unsigned echo_release(struct echo *e)
{
    struct echo_waiting *w = TAILQ_FIRST(&e->waiting), *next;
    unsigned n = 0;
    for (; w != NULL; w = next, n++) {
        next = TAILQ_NEXT(w, link);
        if (w->park_first) {
            w->park_first = false;
            request_park(w->request, echo_gone);
            continue;
        }
        char text[32];
        (void)snprintf(text, sizeof text, "held %zu", request_body(w->request).n);
        echo_forget(w);
        echo_text(w->request, 200, text);
    }
    return n;
}

static inline void echo_big(struct request *r, size_t n)
{
    struct buf body = {0};
    buf_reserve(&body, n + 1);
    for (size_t i = 0; i < n; i++)
        body.p[i] = (char)('a' + i % 23);
    body.n = n;
    request_answer(r, 200, "text/plain", (struct slice){0}, &body);
}

static inline void echo_tell(struct echo *e, struct request *r, const char *target)
{
    char text[128];
    if (strcmp(target, "/release") == 0)
        (void)snprintf(text, sizeof text, "released %u", echo_release(e));
    else if (strcmp(target, "/size") == 0)
        (void)snprintf(text, sizeof text, "%zu", request_body(r).n);
    else
        (void)snprintf(text, sizeof text,
                       "requests=%u gone=%u answers=%u waiting=%u connections=%zu", e->requests,
                       e->gone, e->answers, e->waiting_count, fcgi_server_connections(e->server));
    echo_text(r, 200, text);
}

static inline void echo_handle(struct request *r, void *owner)
{
    struct echo *e = owner;
    const char *target = arena_cstr(request_arena(r), request_head(r)->target);
    struct buf body = {0};
    if (strcmp(target, "/status") != 0)
        e->requests++;
    if (strcmp(target, "/null") == 0) {
        BUF_PUT_LITERAL(&body, "{}");
        request_answer(r, 200, NULL, (struct slice){0}, &body);
    } else if (strcmp(target, "/echo") == 0) {
        buf_put_slice(&body, request_body(r));
        request_answer(r, 200, "application/octet-stream", (struct slice){0}, &body);
    } else if (strcmp(target, "/empty") == 0) {
        request_answer(r, 204, NULL, (struct slice){0}, &body);
    } else if (strcmp(target, "/header") == 0) {
        BUF_PUT_LITERAL(&body, "{\"a\":1}");
        request_answer(r, 201, NULL, SLICE_LITERAL("X-One: 1\r\nX-Two: 2\r\n"), &body);
    } else if (strncmp(target, "/big?", 5) == 0) {
        echo_big(r, strtoul(target + 5, NULL, 10));
    } else if (strcmp(target, "/park") == 0) {
        (void)echo_wait(e, r);
        request_park(r, echo_gone);
    } else if (strcmp(target, "/hold") == 0) {
        (void)echo_wait(e, r);
    } else if (strcmp(target, "/lazy") == 0) {
        echo_wait(e, r)->park_first = true;
    } else if (strcmp(target, "/brief") == 0) {
        (void)echo_wait(e, r);
        request_park(r, echo_gone);
        request_unpark(r);
    } else {
        echo_tell(e, r, target);
    }
}

static inline void echo_answered(int status, void *owner)
{
    (void)status;
    ((struct echo *)owner)->answers++;
}

static inline void echo_drained(void *owner)
{
    loop_stop(((struct echo *)owner)->loop);
}

static inline void echo_signal(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct echo *e = (struct echo *)((char *)io - offsetof(struct echo, signals));
    struct signalfd_siginfo info;
    if (read(io->fd, &info, sizeof info) != (ssize_t)sizeof info)
        return;
    fcgi_server_stop(e->server);
    while (echo_release(e) > 0)
        ;
}

/* Serves until SIGTERM, answers what waits, and returns the exit code. */
static inline int echo_serve(int listen_fd, const struct echo_options *o)
{
    struct echo e = {.loop = loop_new()};
    struct err err;
    sigset_t set;
    (void)sigemptyset(&set);
    (void)sigaddset(&set, SIGTERM);
    (void)pthread_sigmask(SIG_BLOCK, &set, NULL);
    logger_init("echo", LOGGER_INFO);
    TAILQ_INIT(&e.waiting);
    struct fcgi_server_config config = {
        .listen_fd = listen_fd,
        .io_threads = 2,
        .max_body_bytes = o->max_body != 0 ? o->max_body : 64U << 20,
        .max_connections = o->max_connections != 0 ? o->max_connections : 10000,
        .max_body_memory = o->max_memory != 0 ? o->max_memory : 512U << 20,
        .handle = echo_handle,
        .answered = echo_answered,
        .drained = echo_drained,
        .owner = &e,
    };
    int fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
    if (!fcgi_server_start(e.loop, &config, &e.server, &err) ||
        !loop_watch(e.loop, &e.signals, fd, EPOLLIN, echo_signal, &err)) {
        logger_error("echo", "%s", err.text);
        return 1;
    }
    loop_run(e.loop);
    fcgi_server_free(e.server);
    loop_unwatch(e.loop, &e.signals);
    (void)close(fd);
    loop_free(e.loop);
    return 0;
}

#endif
