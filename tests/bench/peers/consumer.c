/* The state machine of a consumer: a request for messages, their ack, the next request. */
#include "peer.h"

#include "base/clock.h"

static void consumer_fetch(struct session *s)
{
    s->fetching = true;
    s->fetched = false;
    s->got = 0;
    s->fetch_sent_us = clock_mono_us();
    s->run->peer->fetch(s);
}

/* The broker has, or by its protocol will have, all acks sent so far. */
static void consumer_acked(struct session *s)
{
    s->run->consumed += (uint64_t)s->acked;
    bench_done(s->run->b, STEP_ACK, s->sent_us, (uint64_t)s->acked);
    s->acked = 0;
}

static void consumer_ack(struct session *s)
{
    /* A request that waits measures the producers; the delivery latency says how fast it was. */
    if (!s->wait)
        bench_done(s->run->b, STEP_POP, s->fetch_sent_us, (uint64_t)s->pending);
    s->acked = s->pending;
    s->pending = 0;
    s->sent_us = clock_mono_us();
    s->run->peer->ack(s);
}

static void consumer_leave(struct session *s)
{
    s->leaving = true;
    if (s->run->peer->leave != NULL)
        s->run->peer->leave(s);
    else
        s->left = true;
    run_settle(s->run);
}

/* A request was answered and its messages are acked; the queues are asked in turn. */
static void consumer_next(struct session *s)
{
    struct bench *b = s->run->b;
    s->empty = s->fetching && s->got == 0 ? s->empty + 1 : 0;
    if (!s->wait && (b->stopping || s->empty >= b->queues)) {
        consumer_leave(s);
        return;
    }
    if (!s->wait && s->fetching)
        s->queue = (s->queue + b->connections) % b->queues;
    consumer_fetch(s);
}

static void consumer_requests(struct session *s)
{
    if (s->unconfirmed > 0)
        return;
    if (s->acked > 0)
        consumer_acked(s);
    /* Waiting consumers ack what there is, the others what one request brought. */
    if (s->pending > 0 && (s->fetched || s->wait))
        consumer_ack(s);
    else if (s->fetched || !s->fetching)
        consumer_next(s);
}

static void consumer_subscribes(struct session *s)
{
    struct bench *b = s->run->b;
    if (!s->fetching) {
        /* A waiting consumer has one queue; the others share the queues, each its own. */
        for (; s->queue < b->queues; s->queue += s->wait ? b->queues : b->connections)
            consumer_fetch(s);
    }
    bool leave = b->stopping && !s->wait;
    if (s->pending >= (s->wait || leave ? 1 : b->batch)) {
        consumer_ack(s);
        consumer_acked(s);
        s->fetch_sent_us = clock_mono_us();
    }
    if (leave)
        consumer_leave(s);
}

void consumer_progress(struct session *s)
{
    if (!s->leaving && s->run->peer->subscribes)
        consumer_subscribes(s);
    else if (!s->leaving)
        consumer_requests(s);
    if (s->run->b->stopping)
        run_settle(s->run);
}
