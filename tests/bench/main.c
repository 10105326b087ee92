/* The load generator's scenarios. One process, one thread, one core (--cpu). */
#include "bench.h"
#include "options.h"
#include "window.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct scenario *const scenarios[] = {&scenario_get, &scenario_push, &scenario_cycle,
                                                   &scenario_drain, &scenario_park};

static _Noreturn void usage(void)
{
    fprintf(stderr, "usage: loadgen --scenario NAME [options]\n"
                    "  --port N          nginx on 127.0.0.1 (6632)\n" OPTIONS_HELP
                    "  --partitions N    spread in a queue (1)\n"
                    "  --rate R          messages a second, open loop; 0 = closed loop (0)\n"
                    "  --target PATH     of get (/status)\n"
                    "scenarios:\n");
    for (size_t i = 0; i < sizeof scenarios / sizeof *scenarios; i++)
        fprintf(stderr, "  %-8s %s\n", scenarios[i]->name, scenarios[i]->help);
    exit(2);
}

int main(int argc, char **argv)
{
    struct bench *b = mem_zalloc(sizeof *b);
    struct options o;
    struct window window;
    const struct scenario *s = NULL;
    options_read(&o, b, argc, argv, usage);
    for (size_t i = 0; b->scenario != NULL && i < sizeof scenarios / sizeof *scenarios; i++)
        if (strcmp(b->scenario, scenarios[i]->name) == 0)
            s = scenarios[i];
    if (s == NULL)
        usage();
    window_start(&window, b, o.warmup, NULL);
    s->start(b);
    loop_run(b->loop);
    window_report(&window);
    return 0;
}
