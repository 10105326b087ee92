/* A TCP connection on the event loop with a buffer each way. */
#include "connection.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void connection_ready(struct loop_io *io, uint32_t events);

void connection_init(struct connection *c, struct loop *loop, const struct sockaddr_in *address,
                     void (*received)(struct connection *), void (*broken)(struct connection *),
                     void *owner)
{
    *c = (struct connection){.loop = loop,
                             .address = *address,
                             .fd = -1,
                             .received = received,
                             .broken = broken,
                             .owner = owner,
                             .io.slot = -1};
}

void connection_close(struct connection *c)
{
    if (c->fd >= 0) {
        loop_unwatch(c->loop, &c->io);
        (void)close(c->fd);
    }
    c->fd = -1;
    c->sent = 0;
    buf_clear(&c->out);
    buf_clear(&c->in);
}

static void connection_broken(struct connection *c)
{
    connection_close(c);
    c->broken(c);
}

static void connection_open(struct connection *c)
{
    struct err err;
    int one = 1;
    c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (c->fd < 0)
        die("socket: %s", strerror(errno));
    (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (connect(c->fd, (const struct sockaddr *)&c->address, sizeof c->address) != 0 &&
        errno != EINPROGRESS)
        die("connect: %s", strerror(errno));
    if (!loop_watch(c->loop, &c->io, c->fd, EPOLLIN | EPOLLOUT, connection_ready, &err))
        die("%s", err.text);
}

void connection_flush(struct connection *c)
{
    if (c->fd < 0) {
        connection_open(c); /* EPOLLOUT comes with the connection */
        return;
    }
    while (c->sent < c->out.n) {
        ssize_t n = send(c->fd, c->out.p + c->sent, c->out.n - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            loop_rewatch(c->loop, &c->io, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0) {
            connection_broken(c);
            return;
        }
        c->sent += (size_t)n;
    }
    c->sent = 0;
    buf_clear(&c->out);
}

static void connection_ready(struct loop_io *io, uint32_t events)
{
    struct connection *c = (struct connection *)((char *)io - offsetof(struct connection, io));
    if (events & EPOLLOUT) {
        loop_rewatch(c->loop, &c->io, EPOLLIN);
        connection_flush(c);
        if (c->fd < 0)
            return;
    }
    if (!(events & (EPOLLIN | EPOLLERR | EPOLLHUP)))
        return;
    buf_reserve(&c->in, 65536);
    ssize_t n = recv(c->fd, c->in.p + c->in.n, c->in.cap - c->in.n, 0);
    if (n < 0 && errno == EAGAIN)
        return;
    if (n <= 0) {
        connection_broken(c);
        return;
    }
    c->in.n += (size_t)n;
    c->received(c);
}
