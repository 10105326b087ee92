/* Wake-ups between workers, over one FIFO per worker. */
#include "worker/wake.h"

#include "base/clock.h"
#include "shm/fifo.h"
#include "shm/maintenance.h"
#include "worker/pop.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <unistd.h>

enum {
    WAKE_COALESCE_MS = 5,
    WAKE_PENDING_MAX = 256, /* more distinct records than this in 5 ms become one "every queue" */
    WAKE_WRITE_MAX = PIPE_BUF / sizeof(struct wake_record),
};

struct wake_out {
    struct worker *w;
    struct loop_io in;
    struct loop_task flush_task;
    struct loop_timer flush_timer;
    uint64_t flushed_at_ms;
    struct wake_record pending[WAKE_PENDING_MAX];
    size_t pending_count;
    int *writers; /* by worker slot; -1 = not open */
    bool *lost;   /* by worker slot: its FIFO was full, so it is told to look at everything */
};

/* Records are written several at a time; a reader may see a run of them. */
static void wake_read(struct loop_io *io, uint32_t events)
{
    (void)events;
    struct wake_out *wake = TABLE_OWNER(io, struct wake_out, in);
    struct wake_record records[WAKE_WRITE_MAX];
    ssize_t n = read(io->fd, records, sizeof records);
    if (n <= 0)
        return;
    size_t count = (size_t)n / sizeof *records;
    WORKER_COUNT(wake->w, wakes_received, count);
    for (size_t i = 0; i < count; i++)
        pop_wake(wake->w, records[i].queue, records[i].partition, records[i].group);
    /* The switch was set before the wake-up was sent. */
    if (maintenance_is_on(wake->w->shm, MAINTENANCE_POP))
        pop_answer_parked(wake->w);
}

/* What a full FIFO did not take becomes one record for every queue, as soon as there is room. */
static void wake_write_lost(struct wake_out *wake, uint32_t slot)
{
    const struct wake_record everything = {0};
    if (fifo_write(wake->writers[slot], &everything, sizeof everything) == FIFO_FULL)
        loop_timer_set(wake->w->loop, &wake->flush_timer,
                       loop_now_ms(wake->w->loop) + WAKE_COALESCE_MS);
    else
        wake->lost[slot] = false; /* told, or gone: its successor looks when it starts to park */
}

static void wake_write(struct wake_out *wake, uint32_t slot)
{
    int *fd = &wake->writers[slot];
    if (*fd >= 0 && wake->lost[slot]) {
        wake_write_lost(wake, slot);
        return;
    }
    for (size_t at = 0; at < wake->pending_count;) {
        size_t count = wake->pending_count - at;
        if (count > WAKE_WRITE_MAX)
            count = WAKE_WRITE_MAX;
        if (*fd < 0) {
            char path[PATH_MAX];
            fifo_path_wake(wake->w->settings.run_dir, slot, path, sizeof path);
            *fd = fifo_open_writer(path);
            if (*fd < 0)
                return;
        }
        switch (fifo_write(*fd, wake->pending + at, count * sizeof *wake->pending)) {
        case FIFO_DONE:
            WORKER_COUNT(wake->w, wakes_sent, count);
            at += count;
            break;
        case FIFO_FULL:
            wake->lost[slot] = true;
            wake_write_lost(wake, slot);
            return;
        case FIFO_GONE:
            (void)close(*fd);
            *fd = -1;
            return; /* its successor looks at everything when it starts to park */
        }
    }
}

static void wake_flush(struct wake_out *wake)
{
    loop_timer_cancel(wake->w->loop, &wake->flush_timer);
    uint32_t others[1024];
    size_t count = slot_workers(wake->w->shm, &wake->w->slot, others, 1024);
    for (size_t i = 0; i < count; i++)
        if (slot_parked(wake->w->shm, others[i]) > 0)
            wake_write(wake, others[i]);
    wake->pending_count = 0;
    wake->flushed_at_ms = loop_now_ms(wake->w->loop);
}

static void wake_flush_task(struct loop_task *task)
{
    struct wake_out *wake = TABLE_OWNER(task, struct wake_out, flush_task);
    uint64_t next = wake->flushed_at_ms + WAKE_COALESCE_MS;
    if (loop_now_ms(wake->w->loop) >= next)
        wake_flush(wake);
    else if (!loop_timer_armed(&wake->flush_timer))
        loop_timer_set(wake->w->loop, &wake->flush_timer, next);
}

static void wake_flush_timer(struct loop_timer *timer)
{
    wake_flush(TABLE_OWNER(timer, struct wake_out, flush_timer));
}

void wake_send(struct worker *w, uint64_t queue, uint64_t partition, uint64_t group)
{
    struct wake_out *wake = w->wake;
    pop_wake(w, queue, partition, group);
    struct wake_record record = {queue, partition, group};
    for (size_t i = 0; i < wake->pending_count; i++)
        if (memcmp(&wake->pending[i], &record, sizeof record) == 0)
            return;
    if (wake->pending_count == WAKE_PENDING_MAX) {
        wake->pending_count = 0;
        record = (struct wake_record){0};
    }
    wake->pending[wake->pending_count++] = record;
    loop_task_queue(w->loop, &wake->flush_task);
}

bool wake_start(struct worker *w, struct err *err)
{
    struct wake_out *wake = mem_zalloc(sizeof *wake);
    wake->w = w;
    wake->flush_task.run = wake_flush_task;
    wake->flush_timer.fire = wake_flush_timer;
    size_t slots = (size_t)w->settings.worker_slots;
    wake->lost = mem_zalloc(slots * sizeof *wake->lost);
    wake->writers = mem_alloc(slots * sizeof *wake->writers);
    for (size_t i = 0; i < slots; i++)
        wake->writers[i] = -1;
    w->wake = wake;
    char path[PATH_MAX];
    fifo_path_wake(w->settings.run_dir, w->slot.index, path, sizeof path);
    int fd = fifo_open_reader(path, err);
    return fd >= 0 && loop_watch(w->loop, &wake->in, fd, EPOLLIN, wake_read, err);
}

void wake_stop(struct worker *w)
{
    struct wake_out *wake = w->wake;
    wake_flush(wake);
    loop_unwatch(w->loop, &wake->in);
    (void)close(wake->in.fd);
    for (size_t i = 0; i < (size_t)w->settings.worker_slots; i++)
        if (wake->writers[i] >= 0)
            (void)close(wake->writers[i]);
    free(wake->writers);
    free(wake->lost);
    free(wake);
    w->wake = NULL;
}
