/* Who may read a body now, and who waits. */
#include "fcgi/body_memory.h"

#include "fcgi/channel.h"

static bool body_memory_fits(const struct body_memory *m, uint64_t n)
{
    return m->used == 0 || (m->used <= m->max && n <= m->max - m->used);
}

static void body_memory_grant(struct body_memory *m, struct channel *c)
{
    c->request.body_reserved = (size_t)c->request.head.content_length;
    m->used += c->request.body_reserved;
}

static void body_memory_admit(struct loop_task *task)
{
    struct body_memory *m =
        (struct body_memory *)((char *)task - offsetof(struct body_memory, admit));
    struct channel *c;
    while ((c = TAILQ_FIRST(&m->waiting)) != NULL &&
           body_memory_fits(m, c->request.head.content_length)) {
        TAILQ_REMOVE(&m->waiting, c, queue_link);
        body_memory_grant(m, c);
        m->admitted(c);
    }
}

void body_memory_open(struct body_memory *m, struct loop *loop, size_t max,
                      void (*admitted)(struct channel *c))
{
    *m = (struct body_memory){.max = max, .loop = loop, .admitted = admitted};
    m->admit.run = body_memory_admit;
    TAILQ_INIT(&m->waiting);
}

void body_memory_close(struct body_memory *m)
{
    loop_task_cancel(m->loop, &m->admit);
}

bool body_memory_take(struct body_memory *m, struct channel *c)
{
    uint64_t n = c->request.head.content_length;
    if (n == 0)
        return true;
    if (body_memory_fits(m, n) && (n <= FCGI_SMALL_BYTES || TAILQ_EMPTY(&m->waiting))) {
        body_memory_grant(m, c);
        return true;
    }
    TAILQ_INSERT_TAIL(&m->waiting, c, queue_link);
    return false;
}

void body_memory_leave(struct body_memory *m, struct channel *c)
{
    TAILQ_REMOVE(&m->waiting, c, queue_link);
    if (!TAILQ_EMPTY(&m->waiting))
        loop_task_queue(m->loop, &m->admit);
}

void body_memory_release(struct body_memory *m, struct channel *c)
{
    m->used -= c->request.body_reserved;
    c->request.body_reserved = 0;
    /* Not at once: we may be inside request_answer(), called by the application's handler. */
    if (!TAILQ_EMPTY(&m->waiting))
        loop_task_queue(m->loop, &m->admit);
}
