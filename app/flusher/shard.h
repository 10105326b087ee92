/* A shard: the acks of some partitions, and at most one statement in flight for them. */
#ifndef FLUSHER_SHARD_H
#define FLUSHER_SHARD_H

#include "flusher/fold.h"
#include "flusher/verdict.h"
#include "pg/lane.h"

/* What all shards share. */
struct shard_shared {
    struct loop *loop;
    struct pg_lane *lane;
    struct verdict_box *verdicts;
    struct slot_counters *counters;
    uint64_t patience_ms;   /* how long one batch is tried */
    uint64_t commits, rows; /* committed since the last summary */
    size_t pending;         /* acks without a verdict, in all shards */
    /* Called when a shard has become idle: there may be a next batch, and room for more records.
     * Not called while closing. */
    void (*idle)(void *owner);
    void *owner;
    bool closing; /* the lane is being freed: no more tries */
};

struct shard {
    struct shard_shared *shared;
    TAILQ_HEAD(fold_batch_list, fold_batch)
    batches;         /* the first is the one in flight, or the next to fly */
    bool busy;       /* the first batch is with the lane, or pauses before its next try */
    bool sealed;     /* ... and its rows are fixed: the statement was built from them */
    bool unsettled;  /* ... and an earlier try may have committed */
    bool one_by_one; /* ... and its rows are tried one at a time, from `row` on */
    size_t row;
    bool complained;      /* ... and its first failure was logged */
    uint64_t deadline_ms; /* of the first batch, once busy */
    struct pg_job job;
    struct loop_timer again;
};

void shard_init(struct shard *s, struct shard_shared *shared);

/* Adds a record: to a batch that is not sealed, or to a new one. */
void shard_add(struct shard *s, const struct ack_record *record, struct slice group);

/* Sends the next batch when there is one and none is in flight. */
void shard_flush(struct shard *s);

/* After pg_lane_free(): answers what is left, with "nothing happened" or, where an earlier try may
 * have committed, "unknown". */
void shard_close(struct shard *s);

#endif
