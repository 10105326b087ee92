/* The command line of both generators. */
#include "options.h"

#include "base/clock.h"

#include <arpa/inet.h>
#include <getopt.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>

enum option_kind { OPTION_INT, OPTION_TEXT, OPTION_REAL, OPTION_COUNT };

struct option_field {
    const char *name;
    enum option_kind kind;
    void *value;
};

static void pin(int cpu)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)cpu, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0)
        perror("cannot pin");
}

static void option_set(const struct option_field *f, char *text)
{
    switch (f->kind) {
    case OPTION_INT:
        *(int *)f->value = atoi(text);
        break;
    case OPTION_TEXT:
        *(const char **)f->value = text;
        break;
    case OPTION_REAL:
        *(double *)f->value = atof(text);
        break;
    case OPTION_COUNT:
        *(uint64_t *)f->value = strtoull(text, NULL, 10);
        break;
    }
}

static void options_parse(struct options *o, int argc, char **argv, void (*usage)(void))
{
    struct bench *b = o->b;
    const struct option_field fields[] = {
        {"port", OPTION_INT, &o->port},
        {"scenario", OPTION_TEXT, &b->scenario},
        {"connections", OPTION_INT, &b->connections},
        {"messages", OPTION_INT, &b->messages},
        {"batch", OPTION_INT, &b->batch},
        {"payload", OPTION_INT, &o->payload},
        {"queues", OPTION_INT, &b->queues},
        {"partitions", OPTION_INT, &b->partitions},
        {"rate", OPTION_REAL, &b->rate},
        {"seconds", OPTION_INT, &b->seconds},
        {"warmup", OPTION_INT, &o->warmup},
        {"prefix", OPTION_TEXT, &b->prefix},
        {"target", OPTION_TEXT, &b->target},
        {"cpu", OPTION_INT, &o->cpu},
        {"peer", OPTION_TEXT, &o->peer},
        {"expect", OPTION_COUNT, &o->expect},
    };
    enum { FIELDS = sizeof fields / sizeof *fields };
    struct option longs[FIELDS + 1] = {0};
    for (int i = 0; i < FIELDS; i++)
        longs[i] = (struct option){fields[i].name, required_argument, NULL, 256 + i};
    for (int c; (c = getopt_long(argc, argv, "", longs, NULL)) != -1;) {
        if (c < 256)
            usage();
        option_set(&fields[c - 256], optarg);
    }
}

void options_read(struct options *o, struct bench *b, int argc, char **argv,
                  void (*usage)(void) __attribute__((noreturn)))
{
    static char unique[32];
    *o = (struct options){.b = b, .port = 6632, .warmup = 1, .cpu = -1, .payload = 100};
    (void)snprintf(unique, sizeof unique, "b%llx", (unsigned long long)clock_wall_us());
    b->prefix = unique;
    b->target = "/status";
    b->connections = 64;
    b->messages = b->queues = b->partitions = 1;
    b->batch = 100;
    b->seconds = 10;
    options_parse(o, argc, argv, usage);
    if (o->cpu >= 0)
        pin(o->cpu);
    for (int i = 0; i < o->payload; i++)
        buf_putc(&b->payload, (char)('a' + i * 7 % 26));
    b->address = (struct sockaddr_in){.sin_family = AF_INET,
                                      .sin_port = htons((uint16_t)o->port),
                                      .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    b->loop = loop_new();
}
