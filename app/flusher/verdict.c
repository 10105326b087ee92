/* Writing verdicts. */
#include "flusher/verdict.h"

#include "base/buf.h"
#include "base/logger.h"
#include "base/table.h"

#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    VERDICTS_PER_WRITE = PIPE_BUF / sizeof(struct verdict_record),
    VERDICTS_QUEUED_MAX = 65536, /* per worker: 1 MiB */
};

struct verdict_writer {
    struct verdict_box *box;
    struct loop_io io; /* watched for room while the FIFO is full */
    int fd;            /* -1 = not open */
    bool full;
    bool overflowed; /* said so already */
    bool dirty;
    TAILQ_ENTRY(verdict_writer) link; /* while dirty */
    uint32_t slot;
    struct buf queue; /* struct verdict_record, from `sent` on */
    size_t sent;      /* bytes */
};

struct verdict_box {
    struct loop *loop;
    struct shm *shm;
    const char *run_dir;
    void (*drained)(void *owner);
    void *owner;
    struct loop_task task;
    TAILQ_HEAD(verdict_writer_list, verdict_writer) dirty;
    size_t queued; /* verdicts in all queues */
    uint32_t count;
    struct verdict_writer writers[];
};

static void verdict_close(struct verdict_writer *w)
{
    if (w->full)
        loop_unwatch(w->box->loop, &w->io);
    w->full = false;
    if (w->fd >= 0)
        (void)close(w->fd);
    w->fd = -1;
}

static size_t verdict_queued(const struct verdict_writer *w)
{
    return (w->queue.n - w->sent) / sizeof(struct verdict_record);
}

static void verdict_forget(struct verdict_writer *w)
{
    w->box->queued -= verdict_queued(w);
    buf_clear(&w->queue);
    w->sent = 0;
    w->overflowed = false;
}

static bool verdict_open(struct verdict_writer *w)
{
    char path[PATH_MAX];
    if (w->fd >= 0)
        return true;
    fifo_path_verdict(w->box->run_dir, w->slot, path, sizeof path);
    w->fd = fifo_open_writer(path);
    return w->fd >= 0;
}

static void verdict_write(struct verdict_writer *w);

static void verdict_ready(struct loop_io *io, uint32_t events)
{
    (void)events; /* room, or the reader is gone: the write tells */
    struct verdict_writer *w = TABLE_OWNER(io, struct verdict_writer, io);
    verdict_write(w);
    if (w->box->queued == 0)
        w->box->drained(w->box->owner);
}

static void verdict_wait_for_room(struct verdict_writer *w)
{
    struct err err;
    if (w->full)
        return;
    w->full = loop_watch(w->box->loop, &w->io, w->fd, EPOLLOUT, verdict_ready, &err);
    if (!w->full)
        die("watch the verdict FIFO of worker %" PRIu32 ": %s", w->slot, err.text);
}

/* Writes until the queue is empty or the FIFO full. A FIFO without a reader is opened once more:
 * the worker's successor may have made another. */
static void verdict_write(struct verdict_writer *w)
{
    bool reopened = false;
    while (verdict_queued(w) > 0) {
        if (!verdict_open(w)) {
            verdict_forget(w);
            return;
        }
        size_t n = verdict_queued(w);
        if (n > VERDICTS_PER_WRITE)
            n = VERDICTS_PER_WRITE;
        switch (fifo_write(w->fd, w->queue.p + w->sent, n * sizeof(struct verdict_record))) {
        case FIFO_DONE:
            w->sent += n * sizeof(struct verdict_record);
            w->box->queued -= n;
            break;
        case FIFO_FULL:
            verdict_wait_for_room(w);
            return;
        case FIFO_GONE:
            verdict_close(w);
            if (reopened) {
                verdict_forget(w);
                return;
            }
            reopened = true;
            break;
        }
    }
    verdict_forget(w);
    if (w->full)
        loop_unwatch(w->box->loop, &w->io);
    w->full = false;
}

static void verdict_write_dirty(struct verdict_box *box)
{
    struct verdict_writer *w;
    while ((w = TAILQ_FIRST(&box->dirty)) != NULL) {
        TAILQ_REMOVE(&box->dirty, w, link);
        w->dirty = false;
        verdict_write(w);
    }
}

static void verdict_task(struct loop_task *task)
{
    struct verdict_box *box = TABLE_OWNER(task, struct verdict_box, task);
    verdict_write_dirty(box);
    if (box->queued == 0)
        box->drained(box->owner);
}

/* What was written leaves the front of the buffer once it is the larger part. */
static void verdict_compact(struct verdict_writer *w)
{
    if (w->sent < w->queue.n / 2 || w->sent == 0)
        return;
    memmove(w->queue.p, w->queue.p + w->sent, w->queue.n - w->sent);
    w->queue.n -= w->sent;
    w->sent = 0;
}

void verdict_send(struct verdict_box *box, uint32_t worker_slot, uint32_t generation,
                  uint64_t ticket, enum ack_verdict verdict)
{
    if (worker_slot >= box->count || slot_generation(box->shm, worker_slot) != generation)
        return;
    struct verdict_writer *w = &box->writers[worker_slot];
    if (verdict_queued(w) >= VERDICTS_QUEUED_MAX) {
        if (!w->overflowed)
            logger_warn("ack-fusion",
                        "worker %" PRIu32 " does not read its verdicts: dropping some",
                        worker_slot);
        w->overflowed = true;
        return;
    }
    struct verdict_record record = {
        .ticket = ticket, .worker_generation = generation, .verdict = (uint32_t)verdict};
    verdict_compact(w);
    buf_put(&w->queue, &record, sizeof record);
    box->queued++;
    if (!w->dirty && !w->full) {
        w->dirty = true;
        TAILQ_INSERT_TAIL(&box->dirty, w, link);
    }
    loop_task_queue(box->loop, &box->task);
}

bool verdict_box_empty(const struct verdict_box *box)
{
    return box->queued == 0;
}

struct verdict_box *verdict_box_new(struct loop *loop, struct shm *shm, const char *run_dir,
                                    uint32_t worker_slots, void (*drained)(void *owner),
                                    void *owner)
{
    struct verdict_box *box =
        mem_zalloc(sizeof *box + (size_t)worker_slots * sizeof box->writers[0]);
    box->loop = loop;
    box->shm = shm;
    box->run_dir = run_dir;
    box->drained = drained;
    box->owner = owner;
    box->task.run = verdict_task;
    box->count = worker_slots;
    TAILQ_INIT(&box->dirty);
    for (uint32_t i = 0; i < worker_slots; i++) {
        box->writers[i].box = box;
        box->writers[i].slot = i;
        box->writers[i].fd = -1;
    }
    return box;
}

void verdict_box_free(struct verdict_box *box)
{
    verdict_write_dirty(box);
    loop_task_cancel(box->loop, &box->task);
    for (uint32_t i = 0; i < box->count; i++) {
        verdict_close(&box->writers[i]);
        buf_free(&box->writers[i].queue);
    }
    free(box);
}
