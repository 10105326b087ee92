/* Spooling of pushed items: the records of one round are one write and one fdatasync, done by a
 * thread so that a slow disk never holds up the engine. What comes meanwhile is the next write. */
#include "worker/push_spool.h"

#include "base/clock.h"
#include "base/logger.h"
#include "log/spool.h"
#include "worker/push_fusion.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

enum {
    IDLE_CLOSE_S = 1 /* a file that nothing was written to for that long is ended */
};

struct spool_entry {
    struct push_item *item;
    enum push_status otherwise;
};

struct spool_batch {
    struct buf records;
    struct spool_entry *entries;
    size_t count, cap;
};

struct push_spool {
    struct worker *w;
    struct loop_task hand_task;
    struct loop_io done_io;
    int64_t last_us;         /* time of the newest record: never goes back */
    struct spool_batch open; /* gathers */
    struct spool_batch flying;
    bool busy; /* the thread has `flying` */

    pthread_t thread;
    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t work;
    bool handed, stopping;
    bool ok; /* of the write that is done */
    struct err why;

    struct spool_writer writer; /* the thread's */
};

static void wait_for_work(struct push_spool *spool)
{
    struct timespec until;
    if (spool->writer.fd < 0) {
        (void)pthread_cond_wait(&spool->work, &spool->lock);
        return;
    }
    (void)clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += IDLE_CLOSE_S;
    if (pthread_cond_timedwait(&spool->work, &spool->lock, &until) == ETIMEDOUT && !spool->handed)
        spool_writer_close(&spool->writer);
}

static void *push_spool_thread(void *owner)
{
    struct push_spool *spool = owner;
    (void)pthread_mutex_lock(&spool->lock);
    while (!spool->stopping) {
        if (!spool->handed) {
            wait_for_work(spool);
            continue;
        }
        (void)pthread_mutex_unlock(&spool->lock);
        struct err err = {0};
        bool ok = spool_writer_append(&spool->writer, &spool->flying.records, &err);
        (void)pthread_mutex_lock(&spool->lock);
        spool->handed = false;
        spool->ok = ok;
        spool->why = err;
        uint64_t one = 1;
        (void)!write(spool->done_io.fd, &one, sizeof one);
    }
    (void)pthread_mutex_unlock(&spool->lock);
    return NULL;
}

static void push_spool_hand_over(struct loop_task *task)
{
    struct push_spool *spool = TABLE_OWNER(task, struct push_spool, hand_task);
    if (spool->busy || spool->open.count == 0)
        return;
    struct spool_batch empty = spool->flying;
    spool->flying = spool->open;
    spool->open = empty;
    spool->busy = true;
    (void)pthread_mutex_lock(&spool->lock);
    spool->handed = true;
    (void)pthread_cond_signal(&spool->work);
    (void)pthread_mutex_unlock(&spool->lock);
}

static void push_spool_settle(struct push_spool *spool, bool ok, const char *why)
{
    struct worker *w = spool->w;
    struct spool_batch *batch = &spool->flying;
    atomic_store(&w->slot.counters->spool_broken, ok ? 0 : 1);
    if (!ok)
        logger_error("push", "cannot spool %zu messages: %s", batch->count, why);
    for (size_t i = 0; i < batch->count; i++) {
        struct push_request *push = batch->entries[i].item->request;
        if (!ok && push->failure[0] == '\0')
            (void)snprintf(push->failure, sizeof push->failure, "%.200s", why);
        push_item_settle(batch->entries[i].item, ok ? PUSH_BUFFERED : batch->entries[i].otherwise);
    }
    batch->count = 0;
    buf_free(&batch->records); /* one large push must not keep its memory */
}

static void push_spool_done(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct push_spool *spool = TABLE_OWNER(io, struct push_spool, done_io);
    uint64_t count;
    if (read(io->fd, &count, sizeof count) != (ssize_t)sizeof count)
        return;
    (void)pthread_mutex_lock(&spool->lock);
    bool ok = spool->ok;
    struct err why = spool->why;
    (void)pthread_mutex_unlock(&spool->lock);
    push_spool_settle(spool, ok, why.text);
    spool->busy = false;
    if (spool->open.count > 0)
        loop_task_queue(spool->w->loop, &spool->hand_task);
}

void push_spool_add(struct worker *w, struct push_item *item, enum push_status otherwise)
{
    struct push_spool *spool = w->spool;
    struct spool_batch *batch = &spool->open;
    int64_t now = clock_wall_us();
    spool->last_us = now > spool->last_us ? now : spool->last_us + 1;
    struct spool_record record = {.time_us = spool->last_us,
                                  .message_id = item->message_id,
                                  .queue = item->queue,
                                  .partition = item->partition,
                                  .transaction_id = item->transaction_id,
                                  .payload = item->payload};
    spool_put(&batch->records, &record);
    if (batch->count == batch->cap) {
        batch->cap = batch->cap == 0 ? 64 : 2 * batch->cap;
        batch->entries = mem_realloc(batch->entries, batch->cap * sizeof *batch->entries);
    }
    batch->entries[batch->count++] = (struct spool_entry){item, otherwise};
    loop_task_queue(w->loop, &spool->hand_task);
}

void push_spool_segment(struct worker *w, struct push_segment *s, enum push_status otherwise)
{
    for (size_t i = 0; i < s->count; i++)
        push_spool_add(w, s->items[i], otherwise);
    s->count = 0;
}

bool push_spool_start(struct worker *w, struct err *err)
{
    struct push_spool *spool = mem_zalloc(sizeof *spool);
    char dir[PATH_MAX];
    pthread_condattr_t attr;
    spool->w = w;
    spool->hand_task.run = push_spool_hand_over;
    w->spool = spool;
    spool_path(&w->settings, dir, sizeof dir);
    if (!spool_writer_open(&spool->writer, dir, err))
        return false;
    int fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (fd < 0)
        return err_set(err, "eventfd: %s", strerror(errno));
    if (!loop_watch(w->loop, &spool->done_io, fd, EPOLLIN, push_spool_done, err))
        return false;
    (void)pthread_mutex_init(&spool->lock, NULL);
    (void)pthread_condattr_init(&attr);
    (void)pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    (void)pthread_cond_init(&spool->work, &attr);
    (void)pthread_condattr_destroy(&attr);
    int rc = pthread_create(&spool->thread, NULL, push_spool_thread, spool);
    return rc == 0 || err_set(err, "spool thread: %s", strerror(rc));
}

void push_spool_stop(struct worker *w)
{
    struct push_spool *spool = w->spool;
    (void)pthread_mutex_lock(&spool->lock);
    spool->stopping = true;
    (void)pthread_cond_signal(&spool->work);
    (void)pthread_mutex_unlock(&spool->lock);
    (void)pthread_join(spool->thread, NULL);
    spool_writer_close(&spool->writer);
    loop_unwatch(w->loop, &spool->done_io);
    (void)close(spool->done_io.fd);
    loop_task_cancel(w->loop, &spool->hand_task);
    buf_free(&spool->open.records);
    buf_free(&spool->flying.records);
    free(spool->open.entries);
    free(spool->flying.entries);
    free(spool);
    w->spool = NULL;
}
