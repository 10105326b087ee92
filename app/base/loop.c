/* The event loop: epoll, a binary heap of deadlines, end-of-round tasks. */
#include "base/loop.h"

#include "base/clock.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { LOOP_EVENTS = 256 };

struct loop {
    int epoll_fd;
    bool stopping;
    uint64_t now_ms;
    struct loop_io **watched; /* by slot; epoll carries slot and generation */
    size_t watched_cap;
    int *free_slots; /* stack */
    size_t free_count;
    uint32_t generation;
    struct loop_timer **heap; /* heap[0] is the earliest */
    size_t heap_count, heap_cap;
    TAILQ_HEAD(loop_tasks, loop_task) tasks;
};

struct loop *loop_new(void)
{
    struct loop *loop = mem_zalloc(sizeof *loop);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    if (loop->epoll_fd < 0)
        die("epoll_create1: %s", strerror(errno));
    loop->now_ms = clock_mono_ms();
    TAILQ_INIT(&loop->tasks);
    return loop;
}

void loop_free(struct loop *loop)
{
    if (loop == NULL)
        return;
    (void)close(loop->epoll_fd);
    free(loop->watched);
    free(loop->free_slots);
    free(loop->heap);
    free(loop);
}

static int loop_slot_take(struct loop *loop)
{
    if (loop->free_count == 0) {
        size_t old = loop->watched_cap, cap = old == 0 ? 64 : old * 2;
        loop->watched = mem_realloc(loop->watched, cap * sizeof *loop->watched);
        loop->free_slots = mem_realloc(loop->free_slots, cap * sizeof *loop->free_slots);
        for (size_t i = cap; i-- > old;) {
            loop->watched[i] = NULL;
            loop->free_slots[loop->free_count++] = (int)i;
        }
        loop->watched_cap = cap;
    }
    return loop->free_slots[--loop->free_count];
}

static uint64_t loop_io_token(const struct loop_io *io)
{
    return (uint64_t)io->generation << 32 | (uint32_t)io->slot;
}

bool loop_watch(struct loop *loop, struct loop_io *io, int fd, uint32_t events,
                void (*ready)(struct loop_io *, uint32_t), struct err *err)
{
    io->fd = fd;
    io->ready = ready;
    io->slot = loop_slot_take(loop);
    io->generation = ++loop->generation;
    struct epoll_event ev = {.events = events, .data.u64 = loop_io_token(io)};
    if (epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &ev) != 0) {
        loop->free_slots[loop->free_count++] = io->slot;
        io->slot = -1;
        return err_set(err, "epoll_ctl add fd %d: %s", fd, strerror(errno));
    }
    loop->watched[io->slot] = io;
    return true;
}

static bool loop_is_watched(const struct loop *loop, const struct loop_io *io)
{
    return io->slot >= 0 && (size_t)io->slot < loop->watched_cap && loop->watched[io->slot] == io;
}

void loop_rewatch(struct loop *loop, struct loop_io *io, uint32_t events)
{
    struct epoll_event ev = {.events = events, .data.u64 = loop_io_token(io)};
    if (!loop_is_watched(loop, io) || epoll_ctl(loop->epoll_fd, EPOLL_CTL_MOD, io->fd, &ev) != 0)
        die("rewatch of fd %d that is not watched", io->fd);
}

void loop_unwatch(struct loop *loop, struct loop_io *io)
{
    if (!loop_is_watched(loop, io))
        return;
    (void)epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, io->fd, NULL);
    loop->watched[io->slot] = NULL;
    loop->free_slots[loop->free_count++] = io->slot;
    io->slot = -1;
}

static void loop_heap_place(struct loop *loop, size_t i, struct loop_timer *t)
{
    loop->heap[i] = t;
    t->heap_slot = i + 1;
}

static void loop_heap_sift(struct loop *loop, size_t i)
{
    struct loop_timer *t = loop->heap[i];
    while (i > 0 && loop->heap[(i - 1) / 2]->at_ms > t->at_ms) {
        loop_heap_place(loop, i, loop->heap[(i - 1) / 2]);
        i = (i - 1) / 2;
    }
    for (;;) {
        size_t child = 2 * i + 1;
        if (child + 1 < loop->heap_count && loop->heap[child + 1]->at_ms < loop->heap[child]->at_ms)
            child++;
        if (child >= loop->heap_count || loop->heap[child]->at_ms >= t->at_ms)
            break;
        loop_heap_place(loop, i, loop->heap[child]);
        i = child;
    }
    loop_heap_place(loop, i, t);
}

void loop_timer_set(struct loop *loop, struct loop_timer *timer, uint64_t at_ms)
{
    timer->at_ms = at_ms;
    if (timer->heap_slot == 0) {
        if (loop->heap_count == loop->heap_cap) {
            loop->heap_cap = loop->heap_cap == 0 ? 64 : loop->heap_cap * 2;
            loop->heap = mem_realloc(loop->heap, loop->heap_cap * sizeof(struct loop_timer *));
        }
        loop_heap_place(loop, loop->heap_count++, timer);
    }
    loop_heap_sift(loop, timer->heap_slot - 1);
}

void loop_timer_cancel(struct loop *loop, struct loop_timer *timer)
{
    if (timer->heap_slot == 0)
        return;
    size_t i = timer->heap_slot - 1;
    struct loop_timer *last = loop->heap[--loop->heap_count];
    timer->heap_slot = 0;
    if (last != timer) {
        loop_heap_place(loop, i, last);
        loop_heap_sift(loop, i);
    }
}

void loop_task_queue(struct loop *loop, struct loop_task *task)
{
    if (task->queued)
        return;
    task->queued = true;
    TAILQ_INSERT_TAIL(&loop->tasks, task, link);
}

void loop_task_cancel(struct loop *loop, struct loop_task *task)
{
    if (!task->queued)
        return;
    task->queued = false;
    TAILQ_REMOVE(&loop->tasks, task, link);
}

uint64_t loop_now_ms(const struct loop *loop)
{
    return loop->now_ms;
}

static int loop_wait_ms(const struct loop *loop)
{
    if (!TAILQ_EMPTY(&loop->tasks)) /* queued between two rounds, before the loop ran */
        return 0;
    if (loop->heap_count == 0)
        return -1;
    uint64_t at = loop->heap[0]->at_ms, now = clock_mono_ms();
    if (at <= now)
        return 0;
    return at - now > 60000 ? 60000 : (int)(at - now);
}

static void loop_round(struct loop *loop)
{
    struct epoll_event events[LOOP_EVENTS];
    int n = epoll_wait(loop->epoll_fd, events, LOOP_EVENTS, loop_wait_ms(loop));
    if (n < 0 && errno != EINTR)
        die("epoll_wait: %s", strerror(errno));
    loop->now_ms = clock_mono_ms();
    for (int i = 0; i < n; i++) {
        uint32_t slot = (uint32_t)events[i].data.u64;
        uint32_t generation = (uint32_t)(events[i].data.u64 >> 32);
        struct loop_io *io = slot < loop->watched_cap ? loop->watched[slot] : NULL;
        if (io != NULL && io->generation == generation)
            io->ready(io, events[i].events);
    }
    /* Timers that a handler arms for "now" wait for the next round: no handler can starve I/O. */
    size_t due = loop->heap_count;
    while (due-- > 0 && loop->heap_count > 0 && loop->heap[0]->at_ms <= loop->now_ms) {
        struct loop_timer *t = loop->heap[0];
        loop_timer_cancel(loop, t);
        t->fire(t);
    }
    struct loop_task *task;
    while ((task = TAILQ_FIRST(&loop->tasks)) != NULL) {
        loop_task_cancel(loop, task);
        task->run(task);
    }
}

void loop_run(struct loop *loop)
{
    loop->stopping = false;
    while (!loop->stopping)
        loop_round(loop);
}

void loop_stop(struct loop *loop)
{
    loop->stopping = true;
}
