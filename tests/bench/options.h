/* The command line of both generators. */
#ifndef BENCH_OPTIONS_H
#define BENCH_OPTIONS_H

#include "bench.h"

struct options {
    struct bench *b; /* most options are its fields */
    int port, warmup, cpu, payload;
    /* Of peer-loadgen only. */
    const char *peer;
    uint64_t expect; /* messages that are there to be consumed; 0 = unknown */
};

#define OPTIONS_HELP                                                                               \
    "  --connections N   clients (64)\n"                                                           \
    "  --messages N      messages a push (1)\n"                                                    \
    "  --batch N         messages a pop at most (100)\n"                                           \
    "  --payload N       payload bytes (100)\n"                                                    \
    "  --queues N        spread (1)\n"                                                             \
    "  --seconds S       measured time (10), after --warmup S (1)\n"                               \
    "  --prefix P        queue names are P-<n> (unique)\n"                                         \
    "  --cpu N           pin to this core\n"

/* Fills in the defaults, then reads the command line; pins, makes the loop and the payload. An
 * option that does not exist ends in usage(). */
void options_read(struct options *o, struct bench *b, int argc, char **argv,
                  void (*usage)(void) __attribute__((noreturn)));

#endif
