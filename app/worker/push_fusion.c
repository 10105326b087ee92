/* Push fusion: items gather per partition while its previous segment is being committed, and one
 * transaction takes the waiting segments of many partitions (design, section 2). Batch size is
 * emergent: an idle lane flushes at the end of the round in which the first item came. */
#include "worker/push_fusion.h"

#include "worker/fuse.h"
#include "worker/push_spool.h"
#include "worker/wake.h"

#include <stdio.h>
#include <stdlib.h>

enum {
    FLUSH_MAX_BYTES = 16 * 1024 * 1024, /* frames of one transaction; one segment may be larger */
    SEGMENT_FUSE_BYTES = 1024 * 1024,   /* a segment this big takes no further request's items */
    EXPIRY_CHECK_MS = 250,
};

struct push_fusion {
    struct worker *w;
    struct table partitions; /* struct push_partition, those with something waiting or in flight */
    TAILQ_HEAD(, push_partition) ready; /* something waiting, nothing in flight; oldest first */
    struct loop_task fire_task;
    struct fuse fuse;
    struct loop_timer expiry_timer; /* armed while anything is ready: the database may be away */
};

struct push_partition_key {
    struct slice queue, partition;
};

static bool push_partition_equal(const struct table_node *node, const void *key)
{
    const struct push_partition *p = TABLE_OWNER(node, const struct push_partition, node);
    const struct push_partition_key *k = key;
    return slice_equal(p->queue, k->queue) && slice_equal(p->partition, k->partition);
}

static struct push_partition *push_partition_get(struct push_fusion *fusion, struct slice queue,
                                                 struct slice partition)
{
    struct push_partition_key key = {queue, partition};
    uint64_t hash = table_hash(queue, partition);
    struct table_node *node = table_find(&fusion->partitions, hash, &key);
    if (node != NULL)
        return TABLE_OWNER(node, struct push_partition, node);
    struct push_partition *p = mem_zalloc(sizeof *p + queue.n + partition.n);
    memcpy(p->names, queue.p, queue.n);
    memcpy(p->names + queue.n, partition.p, partition.n);
    p->queue = (struct slice){p->names, queue.n};
    p->partition = (struct slice){p->names + queue.n, partition.n};
    TAILQ_INIT(&p->waiting);
    table_insert(&fusion->partitions, &p->node, hash);
    return p;
}

static struct push_segment *push_segment_new(struct push_partition *p)
{
    struct push_segment *s = mem_zalloc(sizeof *s);
    s->partition = p;
    return s;
}

void push_segment_free(struct push_segment *s)
{
    free(s->items);
    free(s->index);
    free(s);
}

/* The index finds a hash in a segment: open addressing over item numbers + 1. Small segments are
 * scanned instead. */
enum { SEGMENT_SCAN = 8 };

static size_t push_segment_slot(const struct push_segment *s, const struct txn_hash *hash)
{
    uint64_t h;
    memcpy(&h, hash->bytes, sizeof h);
    size_t at = (size_t)h & s->index_mask;
    while (s->index[at] != 0 && memcmp(&s->items[s->index[at] - 1]->hash, hash, sizeof *hash) != 0)
        at = (at + 1) & s->index_mask;
    return at;
}

static bool push_segment_has(const struct push_segment *s, const struct txn_hash *hash)
{
    if (s->index != NULL)
        return s->index[push_segment_slot(s, hash)] != 0;
    for (size_t i = 0; i < s->count; i++)
        if (memcmp(&s->items[i]->hash, hash, sizeof *hash) == 0)
            return true;
    return false;
}

static void push_segment_reindex(struct push_segment *s)
{
    size_t size = 4 * SEGMENT_SCAN;
    while (size < 2 * s->cap)
        size *= 2;
    free(s->index);
    s->index = mem_zalloc(size * sizeof *s->index);
    s->index_mask = size - 1;
    for (size_t i = 0; i < s->count; i++)
        s->index[push_segment_slot(s, &s->items[i]->hash)] = (uint32_t)i + 1;
}

static void push_segment_append(struct push_segment *s, struct push_item **items, size_t count)
{
    if (s->count + count > s->cap) {
        size_t cap = s->cap == 0 ? count : 2 * (s->count + count);
        s->items = mem_realloc(s->items, cap * sizeof(struct push_item *));
        s->cap = cap;
        if (s->count + count > SEGMENT_SCAN)
            push_segment_reindex(s);
    }
    for (size_t i = 0; i < count; i++) {
        if (s->index != NULL)
            s->index[push_segment_slot(s, &items[i]->hash)] = (uint32_t)s->count + 1;
        s->items[s->count++] = items[i];
    }
}

/* Whether the group may join the segment. An id that another request has already put there may
 * not: whether it is a duplicate depends on the queue's window, which only SQL knows, so it goes
 * into the next segment, which is probed after this one is committed. */
static bool push_segment_admits(const struct push_segment *s, const struct push_group *group)
{
    if (s->closed || s->bytes >= SEGMENT_FUSE_BYTES)
        return false;
    for (size_t i = 0; i < group->count; i++)
        if (push_segment_has(s, &group->items[i]->hash))
            return false;
    return true;
}

static void push_partition_ready(struct push_fusion *fusion, struct push_partition *p)
{
    if (p->in_flight || p->is_ready || TAILQ_EMPTY(&p->waiting))
        return;
    p->is_ready = true;
    TAILQ_INSERT_TAIL(&fusion->ready, p, link);
    loop_task_queue(fusion->w->loop, &fusion->fire_task);
    if (!loop_timer_armed(&fusion->expiry_timer))
        loop_timer_set(fusion->w->loop, &fusion->expiry_timer,
                       loop_now_ms(fusion->w->loop) + EXPIRY_CHECK_MS);
}

void push_fusion_add(struct worker *w, const struct push_group *group)
{
    struct push_fusion *fusion = w->push;
    struct push_partition *p = push_partition_get(fusion, group->queue, group->partition);
    struct push_segment *s = TAILQ_LAST(&p->waiting, push_segments);
    if (s == NULL || !push_segment_admits(s, group)) {
        s = push_segment_new(p);
        s->since_ms = loop_now_ms(w->loop);
        TAILQ_INSERT_TAIL(&p->waiting, s, link);
    }
    push_segment_append(s, group->items, group->count);
    s->bytes += group->bytes;
    uint64_t deadline = group->items[0]->request->deadline_ms;
    if (deadline > s->deadline_ms)
        s->deadline_ms = deadline;
    push_partition_ready(fusion, p);
}

/* A partition without waiting segments and flight is forgotten. */
static void push_partition_done(struct push_fusion *fusion, struct push_partition *p)
{
    if (p->in_flight || !TAILQ_EMPTY(&p->waiting))
        return;
    if (p->is_ready)
        TAILQ_REMOVE(&fusion->ready, p, link);
    table_remove(&fusion->partitions, &p->node);
    free(p);
}

void push_segment_settled(struct worker *w, struct push_segment *s)
{
    struct push_partition *p = s->partition;
    p->in_flight = false;
    push_segment_free(s);
    push_partition_ready(w->push, p);
    push_partition_done(w->push, p);
}

void push_segment_again(struct worker *w, struct push_segment *s)
{
    struct push_partition *p = s->partition;
    s->closed = true;
    p->in_flight = false;
    TAILQ_INSERT_HEAD(&p->waiting, s, link);
    push_partition_ready(w->push, p);
}

/* Takes the oldest ready segments into one flush. */
static void push_fire(struct loop_task *task)
{
    struct push_fusion *fusion = TABLE_OWNER(task, struct push_fusion, fire_task);
    while (!TAILQ_EMPTY(&fusion->ready) && fuse_may_fire(&fusion->fuse)) {
        struct push_flush *flush = push_flush_new(fusion->w);
        size_t bytes = 0;
        struct push_partition *p;
        while ((p = TAILQ_FIRST(&fusion->ready)) != NULL && flush->count < FLUSH_MAX_SEGMENTS) {
            struct push_segment *s = TAILQ_FIRST(&p->waiting);
            if (flush->count > 0 && bytes + s->bytes > FLUSH_MAX_BYTES)
                break;
            bytes += s->bytes;
            TAILQ_REMOVE(&p->waiting, s, link);
            TAILQ_REMOVE(&fusion->ready, p, link);
            p->is_ready = false;
            p->in_flight = true;
            flush->segments[flush->count++] = s;
        }
        push_flush_submit(flush);
    }
}

struct fuse *push_fuse(struct worker *w)
{
    return &w->push->fuse;
}

void push_fusion_lane_idle(void *owner)
{
    struct worker *w = owner;
    if (!TAILQ_EMPTY(&w->push->ready))
        loop_task_queue(w->loop, &w->push->fire_task);
}

bool push_outage(const struct worker *w, uint64_t since_ms)
{
    return !pg_lane_connected(w->push_lane) &&
           loop_now_ms(w->loop) >= since_ms + (uint64_t)w->settings.push_spool_after_ms;
}

/* What waits for a database that is away goes to the spool, and so does what no connection comes
 * free for until its deadline. None of it was sent. */
static void push_expire(struct loop_timer *timer)
{
    struct push_fusion *fusion = TABLE_OWNER(timer, struct push_fusion, expiry_timer);
    uint64_t now = loop_now_ms(fusion->w->loop);
    struct push_partition *p, *next;
    for (p = TAILQ_FIRST(&fusion->ready); p != NULL; p = next) {
        next = TAILQ_NEXT(p, link);
        struct push_segment *s = TAILQ_FIRST(&p->waiting);
        if (s->deadline_ms > now && !push_outage(fusion->w, s->since_ms))
            continue;
        TAILQ_REMOVE(&p->waiting, s, link);
        push_spool_segment(fusion->w, s, PUSH_FAILED);
        push_segment_free(s);
        push_partition_done(fusion, p);
        next = TAILQ_FIRST(&fusion->ready);
    }
    if (!TAILQ_EMPTY(&fusion->ready))
        loop_timer_set(fusion->w->loop, timer, now + EXPIRY_CHECK_MS);
}

void push_segment_fail(struct push_segment *s, enum push_status status, const char *why)
{
    for (size_t i = 0; i < s->count; i++) {
        struct push_request *push = s->items[i]->request;
        if (push->failure[0] == '\0')
            (void)snprintf(push->failure, sizeof push->failure, "%s", why);
        push_item_settle(s->items[i], status);
    }
    s->count = 0;
}

void push_fusion_start(struct worker *w)
{
    struct push_fusion *fusion = mem_zalloc(sizeof *fusion);
    fusion->w = w;
    fusion->partitions.equal = push_partition_equal;
    TAILQ_INIT(&fusion->ready);
    fusion->fire_task.run = push_fire;
    fuse_init(&fusion->fuse, w, &w->push_lane, &fusion->fire_task);
    fusion->expiry_timer.fire = push_expire;
    w->push = fusion;
}

void push_fusion_stop(struct worker *w)
{
    loop_task_cancel(w->loop, &w->push->fire_task);
    fuse_stop(&w->push->fuse);
    loop_timer_cancel(w->loop, &w->push->expiry_timer);
    table_free(&w->push->partitions);
    free(w->push);
    w->push = NULL;
}
