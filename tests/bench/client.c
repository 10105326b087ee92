/* A keep-alive HTTP/1.1 client connection on the event loop. */
#include "client.h"

#include "base/clock.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

static void client_ready(struct loop_io *io, uint32_t events);

void client_init(struct client *c, struct loop *loop, const struct sockaddr_in *address,
                 void (*answered)(struct client *, int, struct slice), void *owner)
{
    *c = (struct client){.loop = loop,
                         .address = *address,
                         .fd = -1,
                         .answered = answered,
                         .owner = owner,
                         .io.slot = -1};
}

void client_close(struct client *c)
{
    if (c->fd >= 0) {
        loop_unwatch(c->loop, &c->io);
        (void)close(c->fd);
    }
    c->fd = -1;
    c->busy = false;
    buf_clear(&c->in);
}

static void client_broken(struct client *c)
{
    client_close(c);
    c->answered(c, 0, (struct slice){0});
}

static void client_connect(struct client *c)
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
    c->connecting = true;
    if (!loop_watch(c->loop, &c->io, c->fd, EPOLLIN | EPOLLOUT, client_ready, &err))
        die("%s", err.text);
}

static void client_flush(struct client *c)
{
    while (c->sent < c->out.n) {
        ssize_t n = send(c->fd, c->out.p + c->sent, c->out.n - c->sent, MSG_NOSIGNAL);
        if (n < 0 && errno == EAGAIN) {
            loop_rewatch(c->loop, &c->io, EPOLLIN | EPOLLOUT);
            return;
        }
        if (n < 0) {
            client_broken(c);
            return;
        }
        c->sent += (size_t)n;
    }
}

void client_send(struct client *c, const char *method, struct slice target, struct slice body,
                 uint64_t due_us)
{
    buf_clear(&c->out);
    c->sent = 0;
    buf_put_slice(&c->out, slice_of(method));
    buf_putc(&c->out, ' ');
    buf_put_slice(&c->out, target);
    BUF_PUT_LITERAL(&c->out, " HTTP/1.1\r\nHost: bench\r\n");
    if (body.n > 0 || strcmp(method, "POST") == 0) {
        BUF_PUT_LITERAL(&c->out, "Content-Type: application/json\r\nContent-Length: ");
        buf_put_int(&c->out, (int64_t)body.n);
        BUF_PUT_LITERAL(&c->out, "\r\n");
    }
    BUF_PUT_LITERAL(&c->out, "\r\n");
    buf_put_slice(&c->out, body);
    c->busy = true;
    c->started_us = due_us != 0 ? due_us : clock_mono_us();
    if (c->fd < 0)
        client_connect(c);
    else
        client_flush(c);
}

/* Value of a header in [head, end), or NULL. */
static const char *client_header(const char *head, const char *end, const char *name)
{
    size_t n = strlen(name);
    for (const char *p = head; p < end;) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        if (eol == NULL)
            return NULL;
        if ((size_t)(eol - p) > n && strncasecmp(p, name, n) == 0 && p[n] == ':')
            return p + n + 1;
        p = eol + 1;
    }
    return NULL;
}

/* Joins the chunks in place; true when the last one is there. *size becomes the body's. */
static bool client_dechunk(struct buf *in, size_t at, size_t *size)
{
    char *to = in->p + at;
    const char *p = to, *end = in->p + in->n;
    size_t total = 0;
    /* First check that everything is there: the text must not be moved before. */
    for (const char *scan = p;;) {
        const char *eol = memchr(scan, '\n', (size_t)(end - scan));
        if (eol == NULL)
            return false;
        size_t n = strtoul(scan, NULL, 16);
        if ((size_t)(end - eol - 1) < n + 2)
            return false;
        scan = eol + 1 + n + 2;
        if (n == 0)
            break;
    }
    for (;;) {
        const char *eol = memchr(p, '\n', (size_t)(end - p));
        size_t n = strtoul(p, NULL, 16);
        if (n == 0)
            break;
        memmove(to + total, eol + 1, n);
        total += n;
        p = eol + 1 + n + 2;
    }
    *size = total;
    return true;
}

static void client_parse(struct client *c)
{
    if (c->in.n < 16)
        return;
    const char *end = memmem(c->in.p, c->in.n, "\r\n\r\n", 4);
    if (end == NULL)
        return;
    size_t at = (size_t)(end - c->in.p) + 4, size = 0;
    int status = atoi(c->in.p + 9);
    const char *length = client_header(c->in.p, end + 2, "content-length");
    const char *encoding = client_header(c->in.p, end + 2, "transfer-encoding");
    if (encoding != NULL) {
        if (!client_dechunk(&c->in, at, &size))
            return;
    } else if (length != NULL) {
        size = strtoul(length, NULL, 10);
        if (c->in.n - at < size)
            return;
    }
    c->busy = false;
    struct buf whole = c->in; /* the callback may send again, which must not touch this answer */
    c->in = (struct buf){0};
    c->answered(c, status, (struct slice){whole.p + at, size});
    if (c->in.p == NULL) {
        buf_clear(&whole);
        c->in = whole;
    } else {
        buf_free(&whole);
    }
}

static void client_ready(struct loop_io *io, uint32_t events)
{
    struct client *c = (struct client *)((char *)io - offsetof(struct client, io));
    if (events & EPOLLOUT) {
        c->connecting = false;
        loop_rewatch(c->loop, &c->io, EPOLLIN);
        client_flush(c);
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
        bool busy = c->busy;
        if (busy)
            client_broken(c);
        else
            client_close(c);
        return;
    }
    c->in.n += (size_t)n;
    client_parse(c);
}
