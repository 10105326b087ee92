/* peer-loadgen: loadgen's scenarios on another broker, in its own protocol. One process, one
 * thread. */
#include "../options.h"
#include "peer.h"

#include "base/clock.h"

#include <stdio.h>
#include <stdlib.h>

enum { GRACE_MS = 10000 };

static const struct peer *const peers[] = {&peer_redis, &peer_nats, &peer_amqp};
static const struct peer_scenario *const scenarios[] = {&peer_scenario_push, &peer_scenario_cycle,
                                                        &peer_scenario_drain};
#define COUNT(a) (sizeof(a) / sizeof *(a))

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: peer-loadgen --peer NAME --scenario NAME --port N [options]\n"
                    "  --port N          the broker on 127.0.0.1\n" OPTIONS_HELP
                    "  --expect N        drain: messages to be there\n"
                    "peers:\n");
    for (size_t i = 0; i < COUNT(peers); i++)
        fprintf(stderr, "  %s\n", peers[i]->name);
    fprintf(stderr, "scenarios:\n");
    for (size_t i = 0; i < COUNT(scenarios); i++)
        fprintf(stderr, "  %-8s %s\n", scenarios[i]->name, scenarios[i]->help);
    exit(2);
}

void run_sessions(struct run *run, int count, void (*progress)(struct session *))
{
    run->count = count;
    run->sessions = mem_zalloc((size_t)count * sizeof *run->sessions);
    for (int i = 0; i < count; i++)
        session_start(&run->sessions[i], run, i, progress);
}

void run_settle(struct run *run)
{
    if (run->b->stopping && run->scenario->finished(run))
        loop_stop(run->b->loop);
}

static void run_overdue(struct loop_timer *timer)
{
    struct run *run = (struct run *)((char *)timer - offsetof(struct run, grace));
    session_failed(&run->setup, SLICE_LITERAL("unfinished 10 s after the end"));
    loop_stop(run->b->loop);
}

/* The window is closed. Consumers that the broker sends nothing anymore must hear of it. */
static void run_closed(struct bench *b)
{
    struct run *run = (struct run *)((char *)b - offsetof(struct run, bench));
    run->grace.fire = run_overdue;
    loop_timer_set(b->loop, &run->grace, clock_mono_ms() + GRACE_MS);
    for (int i = 0; i < run->count; i++) {
        struct session *s = &run->sessions[i];
        if (s->ready)
            s->progress(s);
        if (s->connection.fd >= 0)
            connection_flush(&s->connection);
    }
    run_settle(run);
}

/* The setup's session: all queues, one after the other, then the scenario. */
static void setup_progress(struct session *s)
{
    struct run *run = s->run;
    if (s->unconfirmed > 0 || run->count > 0)
        return;
    if (s->queue < run->b->queues) {
        run->peer->declare(s, s->queue++);
        return;
    }
    window_start(&run->window, run->b, run->warmup_s, run_closed);
    run->scenario->start(run);
}

int main(int argc, char **argv)
{
    struct run *run = mem_zalloc(sizeof *run);
    struct bench *b = run->b = &run->bench;
    struct options o;
    options_read(&o, b, argc, argv, usage);
    for (size_t i = 0; o.peer != NULL && i < COUNT(peers); i++)
        if (strcmp(peers[i]->name, o.peer) == 0)
            run->peer = peers[i];
    for (size_t i = 0; b->scenario != NULL && i < COUNT(scenarios); i++)
        if (strcmp(scenarios[i]->name, b->scenario) == 0)
            run->scenario = scenarios[i];
    if (run->peer == NULL || run->scenario == NULL)
        usage();
    run->expect = o.expect;
    run->warmup_s = o.warmup;
    session_start(&run->setup, run, -1, setup_progress);
    loop_run(b->loop);
    window_report(&run->window);
    printf("total published=%llu confirmed=%llu received=%llu consumed=%llu\n",
           (unsigned long long)run->published, (unsigned long long)run->confirmed,
           (unsigned long long)run->received, (unsigned long long)run->consumed);
    return b->errors > 0 && run->count == 0 ? 1 : 0;
}
