/* The load generator's command line and report. One process, one thread, one core (--cpu). */
#include "bench.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

static const struct scenario *const scenarios[] = {&scenario_get, &scenario_push, &scenario_cycle,
                                                   &scenario_drain, &scenario_park};
static const char *const steps[STEP_COUNT] = {"get", "push", "pop", "ack", "delivery"};

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: loadgen --scenario NAME [options]\n"
                    "  --port N          nginx on 127.0.0.1 (6632)\n"
                    "  --connections N   clients (64)\n"
                    "  --messages N      messages a push (1)\n"
                    "  --batch N         messages a pop at most (100)\n"
                    "  --payload N       payload bytes (100)\n"
                    "  --queues N --partitions N   spread (1, 1)\n"
                    "  --rate R          messages a second, open loop; 0 = closed loop (0)\n"
                    "  --seconds S       measured time (10), after --warmup S (1)\n"
                    "  --prefix P        queue names are P-<n> (unique)\n"
                    "  --target PATH     of get (/status)\n"
                    "  --cpu N           pin to this core\n"
                    "scenarios:\n");
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        fprintf(stderr, "  %-8s %s\n", scenarios[i]->name, scenarios[i]->help);
    exit(2);
}

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        perror("cannot pin");
}

enum {
    OPT_PORT = 256,
    OPT_SCENARIO,
    OPT_CONNECTIONS,
    OPT_MESSAGES,
    OPT_BATCH,
    OPT_PAYLOAD,
    OPT_QUEUES,
    OPT_PARTITIONS,
    OPT_RATE,
    OPT_SECONDS,
    OPT_WARMUP,
    OPT_PREFIX,
    OPT_CPU,
    OPT_TARGET
};

struct options {
    struct bench *b;
    int port, warmup, cpu, payload;
};

static void parse(struct options *o, int argc, char **argv)
{
    static const struct option longs[] = {{"port", 1, NULL, OPT_PORT},
                                          {"scenario", 1, NULL, OPT_SCENARIO},
                                          {"connections", 1, NULL, OPT_CONNECTIONS},
                                          {"messages", 1, NULL, OPT_MESSAGES},
                                          {"batch", 1, NULL, OPT_BATCH},
                                          {"payload", 1, NULL, OPT_PAYLOAD},
                                          {"queues", 1, NULL, OPT_QUEUES},
                                          {"partitions", 1, NULL, OPT_PARTITIONS},
                                          {"rate", 1, NULL, OPT_RATE},
                                          {"seconds", 1, NULL, OPT_SECONDS},
                                          {"warmup", 1, NULL, OPT_WARMUP},
                                          {"prefix", 1, NULL, OPT_PREFIX},
                                          {"cpu", 1, NULL, OPT_CPU},
                                          {"target", 1, NULL, OPT_TARGET},
                                          {NULL, 0, NULL, 0}};
    struct bench *b = o->b;
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        switch (c) {
        case OPT_PORT:
            o->port = atoi(optarg);
            break;
        case OPT_SCENARIO:
            b->scenario = optarg;
            break;
        case OPT_CONNECTIONS:
            b->connections = atoi(optarg);
            break;
        case OPT_MESSAGES:
            b->messages = atoi(optarg);
            break;
        case OPT_BATCH:
            b->batch = atoi(optarg);
            break;
        case OPT_PAYLOAD:
            o->payload = atoi(optarg);
            break;
        case OPT_QUEUES:
            b->queues = atoi(optarg);
            break;
        case OPT_PARTITIONS:
            b->partitions = atoi(optarg);
            break;
        case OPT_RATE:
            b->rate = atof(optarg);
            break;
        case OPT_SECONDS:
            b->seconds = atoi(optarg);
            break;
        case OPT_WARMUP:
            o->warmup = atoi(optarg);
            break;
        case OPT_PREFIX:
            b->prefix = optarg;
            break;
        case OPT_TARGET:
            b->target = optarg;
            break;
        case OPT_CPU:
            o->cpu = atoi(optarg);
            break;
        default:
            usage();
        }
    }
}

static double cpu_seconds(void)
{
    struct rusage u;
    (void)getrusage(RUSAGE_SELF, &u);
    return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
           (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) / 1e6;
}

static void report(const struct bench *b, double cpu)
{
    double s = (double)b->seconds;
    for (int i = 0; i < STEP_COUNT; i++) {
        const struct histogram *h = &b->latency[i];
        if (h->count == 0)
            continue;
        printf("%s ops_per_s=%.0f msgs_per_s=%.0f p50_ms=%.2f p99_ms=%.2f p999_ms=%.2f "
               "max_ms=%.2f\n",
               steps[i], (double)b->operations[i] / s, (double)b->carried[i] / s,
               (double)histogram_quantile(h, 0.5) / 1e3, (double)histogram_quantile(h, 0.99) / 1e3,
               (double)histogram_quantile(h, 0.999) / 1e3, (double)h->max_us / 1e3);
    }
    printf("loadgen errors=%llu cpu_share=%.2f\n", (unsigned long long)b->errors, cpu / s);
}

struct clock_timer {
    struct loop_timer timer;
    struct bench *b;
    double cpu;
};

static void window_ends(struct loop_timer *timer)
{
    struct clock_timer *t = (struct clock_timer *)timer;
    t->b->stopping = true;
    t->cpu = cpu_seconds() - t->cpu;
    loop_stop(t->b->loop);
}

static void window_starts(struct loop_timer *timer)
{
    struct clock_timer *t = (struct clock_timer *)timer;
    t->cpu = cpu_seconds();
    t->timer.fire = window_ends;
    loop_timer_set(t->b->loop, timer, loop_now_ms(t->b->loop) + (uint64_t)t->b->seconds * 1000);
}

int main(int argc, char **argv)
{
    char unique[32];
    struct bench *b = mem_zalloc(sizeof *b);
    struct options o = {.b = b, .port = 6632, .warmup = 1, .cpu = -1, .payload = 100};
    (void)snprintf(unique, sizeof unique, "b%llx", (unsigned long long)clock_wall_us());
    b->prefix = unique;
    b->target = "/status";
    b->connections = 64;
    b->messages = b->queues = b->partitions = 1;
    b->batch = 100;
    b->seconds = 10;
    parse(&o, argc, argv);
    const struct scenario *s = NULL;
    for (size_t i = 0; b->scenario != NULL && i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(b->scenario, scenarios[i]->name) == 0)
            s = scenarios[i];
    if (s == NULL)
        usage();
    if (o.cpu >= 0)
        pin(o.cpu);
    for (int i = 0; i < o.payload; i++)
        buf_putc(&b->payload, (char)('a' + i * 7 % 26));
    b->address = (struct sockaddr_in){.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)o.port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    b->loop = loop_new();
    b->started_us = clock_mono_us() + (uint64_t)o.warmup * 1000000u;
    b->stop_us = b->started_us + (uint64_t)b->seconds * 1000000u;
    struct clock_timer window = {.timer.fire = window_starts, .b = b};
    loop_timer_set(b->loop, &window.timer, clock_mono_ms() + (uint64_t)o.warmup * 1000u);
    s->start(b);
    loop_run(b->loop);
    report(b, window.cpu);
    return 0;
}
