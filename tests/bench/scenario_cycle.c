/* cycle: one long-polling consumer a queue, producers beside them: push, pop, ack. drain: the same
 * consumers on queues that were filled before. */
#include "bench.h"

#include <stdlib.h>

void pushers_start(struct bench *b, int count);

struct consumer {
    struct client client;
    struct bench *b;
    int queue, popped;
    bool acking, wait;
    struct buf target, body;
};

static void consumer_pop(struct consumer *c)
{
    c->acking = false;
    client_send(&c->client, "GET", buf_slice(&c->target), (struct slice){0}, 0);
}

static void consumer_answered(struct client *client, int status, struct slice answer)
{
    struct consumer *c = client->owner;
    struct bench *b = c->b;
    if (status == 0 || status >= 400)
        b->errors++;
    if (b->stopping)
        return;
    if (c->acking) {
        if (status == 200)
            bench_done(b, STEP_ACK, client->started_us, (uint64_t)c->popped);
        consumer_pop(c);
        return;
    }
    if (status != 200) {
        if (c->wait || status != 204)
            consumer_pop(c);
        return; /* a drained queue ends its consumer */
    }
    buf_clear(&c->body);
    c->popped = bench_ack_body(b, answer, &c->body);
    bench_done(b, STEP_POP, client->started_us, (uint64_t)c->popped);
    c->acking = true;
    client_send(client, "POST", SLICE_LITERAL("/api/v1/ack/batch"), buf_slice(&c->body), 0);
}

static void consumers_start(struct bench *b, int count, bool wait)
{
    for (int i = 0; i < count; i++) {
        struct consumer *c = mem_zalloc(sizeof *c);
        c->b = b;
        c->queue = i % b->queues;
        c->wait = wait;
        bench_pop_target(b, &c->target, c->queue, wait);
        client_init(&c->client, b->loop, &b->address, consumer_answered, c);
        consumer_pop(c);
    }
}

static void cycle_start(struct bench *b)
{
    consumers_start(b, b->queues, true);
    pushers_start(b, b->connections);
}

const struct scenario scenario_cycle = {
    "cycle", "one long-polling consumer a queue, --connections producers", cycle_start};

static void drain_start(struct bench *b)
{
    consumers_start(b, b->connections, true);
}

const struct scenario scenario_drain = {
    "drain",
    "--connections consumers pop and ack what an earlier run with the same --prefix pushed",
    drain_start};

static void park_start(struct bench *b)
{
    consumers_start(b, b->connections, true);
}

const struct scenario scenario_park = {
    "park", "--connections consumers wait on --queues empty queues", park_start};
