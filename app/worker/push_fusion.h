/* Inside of push fusion: partitions, their waiting segments, flushes. */
#ifndef WORKER_PUSH_FUSION_H
#define WORKER_PUSH_FUSION_H

#include "worker/fuse.h"
#include "worker/push.h"

/* A segment to be: the items that will be one log_segments row. */
struct push_segment {
    TAILQ_ENTRY(push_segment) link;
    struct push_partition *partition;
    struct push_item **items; /* owned array; the items belong to their requests */
    size_t count, cap;
    uint32_t *index; /* see push_fusion.c; NULL while small */
    size_t index_mask;
    size_t bytes;         /* of the frames, uncompressed */
    uint64_t since_ms;    /* its first item came then */
    uint64_t deadline_ms; /* the latest of its requests' */
    bool closed;          /* takes no further items: it was sent once already */
};

TAILQ_HEAD(push_segments, push_segment);

struct push_partition {
    struct table_node node;
    TAILQ_ENTRY(push_partition) link; /* in the ready list */
    struct slice queue, partition;    /* point into names */
    struct push_segments waiting;
    bool in_flight; /* at most one segment of a partition is being committed */
    bool is_ready;
    char names[];
};

enum { FLUSH_MAX_SEGMENTS = 256 };

/* One transaction: one call of log_push_multi_v1. */
struct push_flush {
    struct pg_job job;
    struct worker *w;
    struct uuid request_id; /* the same over all retries (contract 1, section 7) */
    bool retry;             /* an earlier try may have committed */
    uint64_t deadline_ms;
    struct loop_timer retry_timer;
    size_t count;
    struct push_segment *segments[FLUSH_MAX_SEGMENTS];
};

struct push_flush *push_flush_new(struct worker *w);
void push_flush_submit(struct push_flush *flush);

/* The segment's transaction has been decided and every item settled: frees it, lets the
 * partition's next segment go. */
void push_segment_settled(struct worker *w, struct push_segment *s);
/* Puts it back at the head of its partition: some items are left to be stored. */
void push_segment_again(struct worker *w, struct push_segment *s);
/* Settles all its items. */
void push_segment_fail(struct push_segment *s, enum push_status status, const char *why);
void push_segment_free(struct push_segment *s);

/* Counts the flushes under way. */
struct fuse *push_fuse(struct worker *w);
/* The database is away, and has been for long enough to spool what came at since_ms and was not
 * sent. */
MUST_CHECK bool push_outage(const struct worker *w, uint64_t since_ms);

/* The push lane has a free connection. */
void push_fusion_lane_idle(void *worker);

#endif
