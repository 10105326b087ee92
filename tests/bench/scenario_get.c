/* get: every connection asks for --target, closed loop: the ceilings of HTTP and FastCGI. */
#include "bench.h"

static void get_answered(struct client *c, int status, struct slice body)
{
    struct bench *b = c->owner;
    (void)body;
    if (status == 200)
        bench_done(b, STEP_GET, c->started_us, 0);
    else
        b->errors++;
    if (!b->stopping && status != 0)
        client_send(c, "GET", slice_of(b->target), (struct slice){0}, 0);
}

static void get_start(struct bench *b)
{
    for (int i = 0; i < b->connections; i++) {
        struct client *c = mem_zalloc(sizeof *c);
        client_init(c, b->loop, &b->address, get_answered, b);
        client_send(c, "GET", slice_of(b->target), (struct slice){0}, 0);
    }
}

const struct scenario scenario_get = {"get", "every connection asks for --target", get_start};
