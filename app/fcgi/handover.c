/* Connections on their way to the engine thread. */
#include "fcgi/handover.h"

#include "fcgi/channel.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

static void handover_ready(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct handover *h = (struct handover *)((char *)io - offsetof(struct handover, io));
    struct channel_queue taken = TAILQ_HEAD_INITIALIZER(taken);
    eventfd_t rings;
    (void)eventfd_read(io->fd, &rings);
    (void)pthread_mutex_lock(&h->lock);
    TAILQ_CONCAT(&taken, &h->queue, queue_link);
    (void)pthread_mutex_unlock(&h->lock);
    struct channel *c;
    while ((c = TAILQ_FIRST(&taken)) != NULL) {
        TAILQ_REMOVE(&taken, c, queue_link);
        h->arrived(h, c);
    }
    h->arrived(h, NULL);
}

bool handover_open(struct handover *h, struct loop *loop,
                   void (*arrived)(struct handover *h, struct channel *c), struct err *err)
{
    h->loop = loop;
    h->arrived = arrived;
    TAILQ_INIT(&h->queue);
    (void)pthread_mutex_init(&h->lock, NULL);
    int fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (fd < 0)
        return err_set(err, "eventfd: %s", strerror(errno));
    if (!loop_watch(loop, &h->io, fd, EPOLLIN, handover_ready, err)) {
        (void)close(fd);
        return false;
    }
    return true;
}

void handover_close(struct handover *h)
{
    loop_unwatch(h->loop, &h->io);
    (void)close(h->io.fd);
    (void)pthread_mutex_destroy(&h->lock);
}

void handover_put(struct handover *h, struct channel *c)
{
    (void)pthread_mutex_lock(&h->lock);
    bool first = TAILQ_EMPTY(&h->queue);
    TAILQ_INSERT_TAIL(&h->queue, c, queue_link);
    (void)pthread_mutex_unlock(&h->lock);
    if (first)
        handover_ring(h);
}

void handover_ring(struct handover *h)
{
    /* Fails only when the counter is full, and then the engine is already being woken. */
    (void)eventfd_write(h->io.fd, 1);
}
