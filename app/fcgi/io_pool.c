/* A queue of blocking jobs and the threads that do them. */
#include "fcgi/io_pool.h"

#include "fcgi/answer.h"
#include "fcgi/body.h"
#include "fcgi/channel.h"

#include <stdlib.h>

static enum io_result io_job_run(struct channel *c)
{
    switch (c->job) {
    case IO_ACCEPT:
        return channel_accept(c) == 0 ? IO_DONE : IO_DEAD;
    case IO_READ:
        return body_read(c);
    case IO_DRAIN:
        return body_drain(c);
    case IO_WRITE:
        return answer_write(c);
    case IO_ADOPT:
        break;
    }
    die("connection with job %d in the I/O pool", (int)c->job);
}

static void *io_pool_run(void *arg)
{
    struct io_pool *p = arg;
    (void)pthread_mutex_lock(&p->lock);
    for (;;) {
        while (TAILQ_EMPTY(&p->queue) && !p->stopping)
            (void)pthread_cond_wait(&p->work, &p->lock);
        if (p->stopping)
            break;
        struct channel *c = TAILQ_FIRST(&p->queue);
        TAILQ_REMOVE(&p->queue, c, queue_link);
        (void)pthread_mutex_unlock(&p->lock);
        c->result = io_job_run(c);
        handover_put(p->back, c);
        (void)pthread_mutex_lock(&p->lock);
    }
    (void)pthread_mutex_unlock(&p->lock);
    return NULL;
}

bool io_pool_start(struct io_pool *p, int threads, struct handover *back, struct err *err)
{
    (void)pthread_mutex_init(&p->lock, NULL);
    (void)pthread_cond_init(&p->work, NULL);
    TAILQ_INIT(&p->queue);
    p->back = back;
    p->threads = mem_alloc((size_t)threads * sizeof *p->threads);
    for (int i = 0; i < threads; i++) {
        int rc = pthread_create(&p->threads[i], NULL, io_pool_run, p);
        if (rc != 0)
            return err_set(err, "cannot start an I/O thread: %s", strerror(rc));
        p->thread_count++;
    }
    return true;
}

void io_pool_stop(struct io_pool *p)
{
    (void)pthread_mutex_lock(&p->lock);
    p->stopping = true;
    (void)pthread_cond_broadcast(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
    for (int i = 0; i < p->thread_count; i++)
        (void)pthread_join(p->threads[i], NULL);
    free(p->threads);
    (void)pthread_cond_destroy(&p->work);
    (void)pthread_mutex_destroy(&p->lock);
}

void io_pool_submit(struct io_pool *p, struct channel *c)
{
    (void)pthread_mutex_lock(&p->lock);
    TAILQ_INSERT_TAIL(&p->queue, c, queue_link);
    (void)pthread_cond_signal(&p->work);
    (void)pthread_mutex_unlock(&p->lock);
}
