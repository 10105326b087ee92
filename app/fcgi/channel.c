/* The life of a connection on the engine thread: adopted, idle, readable, asked, answered, closed.
 */
#include "fcgi/channel.h"

#include "base/logger.h"
#include "fcgi/body.h"
#include "fcgi/head.h"
#include "fcgi/parts.h"
#include "fcgi/preview.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/time.h>

enum {
    /* nginx has the whole request before it asks us, so a pause inside one is a dead peer. */
    CHANNEL_READ_SECONDS = 15,
    /* Whoever writes has seen room for it, so a full socket is a peer that reads no answers. */
    CHANNEL_WRITE_SECONDS = 1,
};
#define CHANNEL_LEFT (EPOLLRDHUP | EPOLLHUP | EPOLLERR)

static void channel_ready(struct loop_io *io, uint32_t events);

struct channel *channel_new(struct fcgi_server *server)
{
    struct channel *c = mem_zalloc(sizeof *c);
    c->server = server;
    c->job = IO_ADOPT;
    c->stage = CHANNEL_POOLED;
    c->io.slot = -1;
    (void)FCGX_InitRequest(&c->fcgi, server->config.listen_fd, FCGI_FAIL_ACCEPT_ON_INTR);
    return c;
}

void channel_set_timeouts(struct channel *c)
{
    struct timeval read_limit = {.tv_sec = CHANNEL_READ_SECONDS};
    struct timeval write_limit = {.tv_sec = CHANNEL_WRITE_SECONDS};
    (void)setsockopt(c->fcgi.ipcFd, SOL_SOCKET, SO_RCVTIMEO, &read_limit, sizeof read_limit);
    (void)setsockopt(c->fcgi.ipcFd, SOL_SOCKET, SO_SNDTIMEO, &write_limit, sizeof write_limit);
}

int channel_accept(struct channel *c)
{
    int rc = FCGX_Accept_r(&c->fcgi);
    if (rc != 0)
        return rc < 0 ? -rc : rc;
    /* libfcgi takes the end of the connection between two parameters for the end of PARAMS. */
    if (FCGX_GetError(c->fcgi.in) == 0)
        return 0;
    FCGX_Free(&c->fcgi, 1);
    return ECONNABORTED;
}

bool channel_watch(struct channel *c, uint32_t events)
{
    struct err err;
    if (events == 0) {
        loop_unwatch(c->server->loop, &c->io);
    } else if (c->watched == 0) {
        if (!loop_watch(c->server->loop, &c->io, c->fcgi.ipcFd, events, channel_ready, &err)) {
            logger_error("fcgi", "cannot watch a connection: %s", err.text);
            return false;
        }
    } else if (events != c->watched) {
        loop_rewatch(c->server->loop, &c->io, events);
    }
    c->watched = events;
    return true;
}

void channel_submit(struct channel *c, enum io_job job)
{
    /* Not watched meanwhile: the I/O thread may close the descriptor. */
    (void)channel_watch(c, 0);
    c->stage = CHANNEL_POOLED;
    c->job = job;
    io_pool_submit(&c->server->pool, c);
}

static void channel_forget_request(struct channel *c)
{
    struct request *r = &c->request;
    body_memory_release(&c->server->memory, c);
    buf_free(&r->body);
    buf_free(&r->answer);
    arena_free(&r->arena);
    *r = (struct request){0};
    c->whole = false;
}

void channel_close(struct channel *c)
{
    struct fcgi_server *s = c->server;
    if (c->stage == CHANNEL_WAITING)
        body_memory_leave(&s->memory, c);
    (void)channel_watch(c, 0);
    channel_forget_request(c);
    FCGX_Free(&c->fcgi, 1);
    TAILQ_REMOVE(&s->connections, c, link);
    free(c);
    acceptor_closed_one(&s->acceptor);
    fcgi_server_check_drained(s);
}

void channel_finished(struct channel *c)
{
    channel_forget_request(c);
    c->stage = CHANNEL_IDLE;
    /* A descriptor that libfcgi has closed must not be touched: its number may be in use again.
     * Only the engine adds descriptors to its loop, so unwatching it is still safe here. */
    if (c->fcgi.ipcFd < 0 || c->server->stopping || !channel_watch(c, EPOLLIN | EPOLLRDHUP))
        channel_close(c);
}

/* Answers without asking the application. What is left of the body goes first: nginx takes a
 * connection that closes under its body for a failure of ours, and would not show the answer. */
static void channel_refuse(struct channel *c, int status, const char *text)
{
    c->request.status = status;
    c->request.refusal = text;
    channel_submit(c, IO_DRAIN);
}

static void channel_drained(struct channel *c)
{
    struct request *r = &c->request;
    if (c->result == IO_DEAD) {
        channel_close(c);
        return;
    }
    if (c->result == IO_LONG)
        c->fcgi.keepConnection = 0;
    c->stage = CHANNEL_OPEN;
    request_answer_error(r, r->status, "%s", r->refusal);
}

static void channel_body_done(struct channel *c)
{
    switch (c->result) {
    case IO_SHORT:
        channel_refuse(c, 400, "the body is shorter than its Content-Length");
        return;
    case IO_LONG:
        channel_refuse(c, 400, "the body is longer than its Content-Length");
        return;
    case IO_DONE:
        c->stage = CHANNEL_OPEN;
        c->server->config.handle(&c->request, c->server->config.owner);
        return;
    default:
        channel_close(c);
    }
}

void channel_read_body(struct channel *c)
{
    if (!c->whole || c->request.head.content_length > FCGI_SMALL_BYTES) {
        channel_submit(c, IO_READ);
        return;
    }
    c->result = body_read(c);
    channel_body_done(c);
}

static void channel_head_read(struct channel *c)
{
    struct request *r = &c->request;
    struct fcgi_server *s = c->server;
    const char *wrong = head_parse(c->fcgi.envp, &r->head);
    if (wrong != NULL) {
        channel_refuse(c, 400, wrong);
    } else if (r->head.content_length > s->config.max_body_bytes) {
        channel_refuse(c, 413, "request body too large");
    } else if (body_memory_take(&s->memory, c)) {
        channel_read_body(c);
    } else {
        c->stage = CHANNEL_WAITING;
        if (!channel_watch(c, EPOLLRDHUP))
            channel_close(c);
    }
}

/* Adopts what the acceptor made. From now on the connection has no listening socket: libfcgi falls
 * into accept() when a kept connection ends, and that must fail, not block or steal. */
static void channel_adopt(struct channel *c)
{
    TAILQ_INSERT_TAIL(&c->server->connections, c, link);
    c->fcgi.listen_sock = -1;
    /* Every close of ours is a plain one, without libfcgi's wait for the peer's. */
    (void)FCGX_Detach(&c->fcgi);
    channel_head_read(c);
}

void channel_returned(struct channel *c)
{
    switch (c->job) {
    case IO_ADOPT:
        channel_adopt(c);
        return;
    case IO_ACCEPT:
        if (c->result == IO_DONE)
            channel_head_read(c);
        else
            channel_close(c);
        return;
    case IO_READ:
        channel_body_done(c);
        return;
    case IO_DRAIN:
        channel_drained(c);
        return;
    case IO_WRITE:
        if (c->result == IO_DONE) {
            channel_finished(c);
            return;
        }
        c->stage = CHANNEL_SENDING;
        if (!channel_watch(c, EPOLLOUT))
            channel_close(c);
    }
}

/* Bytes of the next request that wait in the socket: > 0; 0 = the peer closed; < 0 = none. */
static ssize_t channel_peek(struct channel *c)
{
    ssize_t n =
        recv(c->fcgi.ipcFd, c->server->preview, sizeof c->server->preview, MSG_PEEK | MSG_DONTWAIT);
    if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK && errno != EINTR)
        return 0;
    return n;
}

static void channel_next_request(struct channel *c)
{
    ssize_t n = channel_peek(c);
    if (n < 0)
        return;
    if (n == 0) {
        channel_close(c);
        return;
    }
    enum preview seen = preview_scan(c->server->preview, (size_t)n);
    if (seen == PREVIEW_PARTIAL) {
        channel_submit(c, IO_ACCEPT);
        return;
    }
    if (channel_accept(c) != 0) {
        channel_close(c);
        return;
    }
    c->whole = seen == PREVIEW_WHOLE;
    channel_head_read(c);
}

void channel_close_if_idle(struct channel *c)
{
    if (c->stage == CHANNEL_IDLE && channel_peek(c) <= 0)
        channel_close(c);
}

static void channel_ready(struct loop_io *io, uint32_t events)
{
    struct channel *c = (struct channel *)((char *)io - offsetof(struct channel, io));
    switch (c->stage) {
    case CHANNEL_IDLE:
        channel_next_request(c);
        return;
    case CHANNEL_SENDING:
        channel_submit(c, IO_WRITE);
        return;
    case CHANNEL_WAITING:
    case CHANNEL_PARKED:
    case CHANNEL_OPEN:
        break;
    case CHANNEL_POOLED:
        die("event of a connection that an I/O thread has");
    }
    if ((events & CHANNEL_LEFT) == 0) {
        /* Bytes of a next request, before this one was answered: they can wait. */
        (void)channel_watch(c, EPOLLRDHUP);
    } else if (c->stage == CHANNEL_PARKED) {
        c->request.gone(&c->request);
        channel_close(c);
    } else if (c->stage == CHANNEL_WAITING) {
        channel_close(c);
    } else {
        /* Nobody wants to know yet; parking or the end of the request will look again. */
        (void)channel_watch(c, 0);
    }
}
