/* What the sessions of a run do: push, cycle, drain. */
#include "peer.h"

#include "base/clock.h"

static void producer_send(struct session *s)
{
    struct run *run = s->run;
    struct bench *b = run->b;
    static struct buf payload; /* copied by publish() */
    uint64_t n = (uint64_t)s->number + (uint64_t)b->connections * s->turn++;
    s->sent_us = clock_mono_us();
    for (int i = 0; i < b->messages; i++) {
        buf_clear(&payload);
        bench_payload(b, &payload);
        run->peer->publish(s, (int)(n % (uint64_t)b->queues), buf_slice(&payload));
    }
    s->unconfirmed += b->messages;
    run->published += (uint64_t)b->messages;
}

/* All confirmations of the last write are there, or the handshake is done. */
static void producer_progress(struct session *s)
{
    struct run *run = s->run;
    if (s->unconfirmed > 0)
        return;
    if (s->turn > 0) {
        run->confirmed += (uint64_t)run->b->messages;
        bench_done(run->b, STEP_PUSH, s->sent_us, (uint64_t)run->b->messages);
    }
    if (run->b->stopping)
        run_settle(run);
    else
        producer_send(s);
}

static void push_start(struct run *run)
{
    run_sessions(run, run->b->connections, producer_progress);
}

static bool push_finished(const struct run *run)
{
    return run->confirmed == run->published;
}

const struct peer_scenario peer_scenario_push = {
    "push", "every connection publishes --messages in a write, then waits for their confirmations",
    push_start, push_finished};

static void cycle_progress(struct session *s)
{
    if (s->number < s->run->b->connections) {
        producer_progress(s);
        return;
    }
    s->wait = true;
    s->queue = s->number - s->run->b->connections;
    s->progress = consumer_progress;
    consumer_progress(s);
}

static void cycle_start(struct run *run)
{
    run_sessions(run, run->b->connections + run->b->queues, cycle_progress);
}

static bool cycle_finished(const struct run *run)
{
    return run->confirmed == run->published && run->consumed == run->confirmed;
}

const struct peer_scenario peer_scenario_cycle = {
    "cycle", "one blocking consumer a queue, --connections producers", cycle_start, cycle_finished};

static void drain_progress(struct session *s)
{
    consumer_progress(s);
    if (s->run->expect > 0 && s->run->received >= s->run->expect)
        window_close(&s->run->window);
}

static void drain_join(struct session *s)
{
    s->queue = s->number % s->run->b->queues;
    s->progress = drain_progress;
    drain_progress(s);
}

static void drain_start(struct run *run)
{
    run_sessions(run, run->b->connections, drain_join);
}

static bool drain_finished(const struct run *run)
{
    for (int i = 0; i < run->count; i++)
        if (!run->sessions[i].left)
            return false;
    return true;
}

const struct peer_scenario peer_scenario_drain = {
    "drain",
    "--connections consumers fetch and ack what an earlier run with the same --prefix pushed",
    drain_start, drain_finished};
