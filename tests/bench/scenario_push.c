/* push: every connection pushes; closed loop, or open loop at --rate. */
#include "bench.h"

#include "base/clock.h"

#include <stdlib.h>

struct pusher {
    struct client client;
    struct bench *b;
    struct loop_timer due;
    struct buf body;
    int number;
    uint64_t turn, interval_us, next_us; /* open loop */
};

static void pusher_send(struct pusher *p, uint64_t due_us)
{
    struct bench *b = p->b;
    uint64_t n = (uint64_t)p->number + (uint64_t)b->connections * p->turn++;
    int queue = (int)(n % (uint64_t)b->queues);
    int partition = (int)(n / (uint64_t)b->queues % (uint64_t)b->partitions);
    buf_clear(&p->body);
    bench_push_body(b, &p->body, queue, partition, b->messages);
    client_send(&p->client, "POST", SLICE_LITERAL("/api/v1/push"), buf_slice(&p->body), due_us);
}

static void pusher_due(struct loop_timer *timer)
{
    struct pusher *p = (struct pusher *)((char *)timer - offsetof(struct pusher, due));
    uint64_t due = p->next_us;
    p->next_us += p->interval_us;
    pusher_send(p, due);
}

static void pusher_answered(struct client *c, int status, struct slice body)
{
    struct pusher *p = c->owner;
    struct bench *b = p->b;
    (void)body;
    if (status == 201)
        bench_done(b, STEP_PUSH, c->started_us, (uint64_t)b->messages);
    else
        b->errors++;
    if (b->stopping)
        return;
    if (p->interval_us == 0 && status != 0)
        pusher_send(p, 0);
    else if (p->interval_us == 0)
        loop_timer_set(b->loop, &p->due, loop_now_ms(b->loop) + 100);
    else if (p->next_us <= clock_mono_us())
        pusher_due(&p->due); /* late: send at once, the latency counts from when it was due */
    else
        loop_timer_set(b->loop, &p->due, p->next_us / 1000);
}

void pushers_start(struct bench *b, int count)
{
    for (int i = 0; i < count; i++) {
        struct pusher *p = mem_zalloc(sizeof *p);
        p->b = b;
        p->number = i;
        p->due.fire = pusher_due;
        client_init(&p->client, b->loop, &b->address, pusher_answered, p);
        if (b->rate > 0) {
            p->interval_us = (uint64_t)(1e6 * count * b->messages / b->rate);
            p->next_us = clock_mono_us() + p->interval_us * (uint64_t)i / (uint64_t)count;
            loop_timer_set(b->loop, &p->due, p->next_us / 1000);
        } else {
            pusher_send(p, 0);
        }
    }
}

static void push_start(struct bench *b)
{
    pushers_start(b, b->connections);
}

const struct scenario scenario_push = {"push", "every connection pushes --messages a request",
                                       push_start};
