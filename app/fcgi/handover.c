/* Hand-over queues between threads. */
#include "fcgi/internal.h"

void handover_init(struct handover *h)
{
    (void)pthread_mutex_init(&h->lock, NULL);
    (void)pthread_cond_init(&h->filled, NULL);
    TAILQ_INIT(&h->queue);
    h->closed = false;
}

void handover_put(struct handover *h, struct request *r)
{
    (void)pthread_mutex_lock(&h->lock);
    TAILQ_INSERT_TAIL(&h->queue, r, link);
    (void)pthread_cond_signal(&h->filled);
    (void)pthread_mutex_unlock(&h->lock);
}

struct request *handover_take(struct handover *h)
{
    (void)pthread_mutex_lock(&h->lock);
    while (TAILQ_EMPTY(&h->queue) && !h->closed)
        (void)pthread_cond_wait(&h->filled, &h->lock);
    struct request *r = TAILQ_FIRST(&h->queue);
    if (r != NULL)
        TAILQ_REMOVE(&h->queue, r, link);
    (void)pthread_mutex_unlock(&h->lock);
    return r;
}

void handover_drain(struct handover *h, struct request_queue *into)
{
    (void)pthread_mutex_lock(&h->lock);
    TAILQ_CONCAT(into, &h->queue, link);
    (void)pthread_mutex_unlock(&h->lock);
}

void handover_close(struct handover *h)
{
    (void)pthread_mutex_lock(&h->lock);
    h->closed = true;
    (void)pthread_cond_broadcast(&h->filled);
    (void)pthread_mutex_unlock(&h->lock);
}
