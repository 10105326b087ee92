/* A keep-alive HTTP/1.1 client: one request at a time on a connection. */
#include "client.h"

#include "base/clock.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

void client_send(struct client *c, const char *method, struct slice target, struct slice body,
                 uint64_t due_us)
{
    struct buf *out = &c->connection.out;
    c->connection.sent = 0;
    buf_clear(out);
    buf_put_slice(out, slice_of(method));
    buf_putc(out, ' ');
    buf_put_slice(out, target);
    BUF_PUT_LITERAL(out, " HTTP/1.1\r\nHost: bench\r\n");
    if (body.n > 0 || strcmp(method, "POST") == 0) {
        BUF_PUT_LITERAL(out, "Content-Type: application/json\r\nContent-Length: ");
        buf_put_int(out, (int64_t)body.n);
        BUF_PUT_LITERAL(out, "\r\n");
    }
    BUF_PUT_LITERAL(out, "\r\n");
    buf_put_slice(out, body);
    c->busy = true;
    c->started_us = due_us != 0 ? due_us : clock_mono_us();
    connection_flush(&c->connection);
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

static void client_received(struct connection *connection)
{
    struct client *c = connection->owner;
    struct buf *in = &connection->in;
    if (in->n < 16)
        return;
    const char *end = memmem(in->p, in->n, "\r\n\r\n", 4);
    if (end == NULL)
        return;
    size_t at = (size_t)(end - in->p) + 4, size = 0;
    int status = atoi(in->p + 9);
    const char *length = client_header(in->p, end + 2, "content-length");
    const char *encoding = client_header(in->p, end + 2, "transfer-encoding");
    if (encoding != NULL) {
        if (!client_dechunk(in, at, &size))
            return;
    } else if (length != NULL) {
        size = strtoul(length, NULL, 10);
        if (in->n - at < size)
            return;
    }
    c->busy = false;
    struct buf whole = *in; /* the callback may send again, which must not touch this answer */
    *in = (struct buf){0};
    c->answered(c, status, (struct slice){whole.p + at, size});
    if (in->p == NULL) {
        buf_clear(&whole);
        *in = whole;
    } else {
        buf_free(&whole);
    }
}

static void client_broken(struct connection *connection)
{
    struct client *c = connection->owner;
    bool busy = c->busy;
    c->busy = false;
    if (busy)
        c->answered(c, 0, (struct slice){0});
}

void client_init(struct client *c, struct loop *loop, const struct sockaddr_in *address,
                 void (*answered)(struct client *, int, struct slice), void *owner)
{
    *c = (struct client){.answered = answered, .owner = owner};
    connection_init(&c->connection, loop, address, client_received, client_broken, c);
}
