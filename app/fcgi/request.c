/* What the application sees of a request: accessors, parking. Answers are in answer.c. */
#include "fcgi/parts.h"

const struct request_head *request_head(const struct request *r)
{
    return &r->head;
}

struct slice request_body(const struct request *r)
{
    return buf_slice(&r->body);
}

struct arena *request_arena(struct request *r)
{
    return &r->arena;
}

void request_set_state(struct request *r, void *state)
{
    r->state = state;
}

void *request_state(const struct request *r)
{
    return r->state;
}

void request_park(struct request *r, void (*gone)(struct request *r))
{
    struct channel *c = channel_of(r);
    r->gone = gone;
    c->stage = CHANNEL_PARKED;
    /* A client that has left already is found in the loop's next round: never from inside this
     * call, whose caller has not finished with its request. */
    if (c->watched == 0)
        (void)channel_watch(c, EPOLLRDHUP);
}

void request_unpark(struct request *r)
{
    channel_of(r)->stage = CHANNEL_OPEN;
}
