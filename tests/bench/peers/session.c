/* A connection to a peer: reading through the protocol, and counting what it reports. */
#include "peer.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

static void session_received(struct connection *connection)
{
    struct session *s = connection->owner;
    struct buf *in = &connection->in;
    size_t at = 0;
    while (at < in->n) {
        size_t n = s->run->peer->read(s, (struct slice){in->p + at, in->n - at});
        if (n == 0)
            break;
        at += n;
    }
    if (at > 0) {
        memmove(in->p, in->p + at, in->n - at);
        in->n -= at;
    }
    if (s->ready)
        s->progress(s);
    if (connection->fd >= 0)
        connection_flush(connection);
}

static void session_broken(struct connection *connection)
{
    struct session *s = connection->owner;
    bool left = s->left;
    s->ready = false;
    s->left = true;
    if (!left)
        session_failed(s, SLICE_LITERAL("the connection broke"));
    run_settle(s->run);
}

void session_start(struct session *s, struct run *run, int number,
                   void (*progress)(struct session *))
{
    *s = (struct session){.run = run, .number = number, .progress = progress};
    connection_init(&s->connection, run->b->loop, &run->b->address, session_received,
                    session_broken, s);
    run->peer->hello(s);
    connection_flush(&s->connection);
}

void session_confirmed(struct session *s, int count)
{
    s->unconfirmed -= count;
    if (s->unconfirmed < 0)
        session_failed(s, SLICE_LITERAL("more answers than requests"));
}

void session_failed(struct session *s, struct slice text)
{
    struct bench *b = s->run->b;
    if (b->errors++ == 0)
        fprintf(stderr, "peer-loadgen: %s, session %d: %.*s\n", s->run->peer->name, s->number,
                SLICE_ARGS(text));
}

void session_message(struct session *s, struct slice payload)
{
    const char *t = payload.n < 5 ? NULL : memmem(payload.p, payload.n, "{\"t\":", 5);
    if (t == NULL) {
        session_failed(s, SLICE_LITERAL("a message that is not ours"));
        return;
    }
    bench_done(s->run->b, STEP_DELIVERY, strtoull(t + 5, NULL, 10), 1);
    s->run->received++;
    s->pending++;
    s->got++;
}

void session_fetched(struct session *s)
{
    s->fetched = true;
}

void session_left(struct session *s)
{
    s->left = true;
}
