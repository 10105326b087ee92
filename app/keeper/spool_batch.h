/* One batch of spooled records, grouped into one segment per partition. */
#ifndef KEEPER_SPOOL_BATCH_H
#define KEEPER_SPOOL_BATCH_H

#include "base/arena.h"
#include "base/table.h"
#include "log/segment.h"
#include "log/spool.h"
#include "log/txn_hash.h"
#include "pg/params.h"

struct batch_item {
    size_t at, n; /* its frame in the segment's frames */
    struct txn_hash hash;
    int64_t time_us;
    bool stored; /* a duplicate: it was there already */
};

struct batch_segment {
    struct table_node node;
    struct slice queue, partition; /* in the batch's arena */
    struct buf frames;
    struct batch_item *items;
    size_t count, cap;
    bool settled;
};

struct spool_batch {
    struct arena arena;
    struct table table; /* segments by names */
    struct batch_segment **segments;
    size_t count, cap;
    struct table ids; /* every (partition, transaction id) of it */
    size_t records, bytes;
};

/* Zero-initialise to start. Empties it again. */
void spool_batch_clear(struct spool_batch *b);

/* Adds a copy of the record. False, and nothing is added, when the batch already has its
 * transaction id for this partition: whether it is a duplicate is decided after the first one is
 * committed, since it depends on the queue's dedup window. */
MUST_CHECK bool spool_batch_add(struct spool_batch *b, const struct spool_record *record);

/* The first six parameters of log_push_multi_v1 for these segments, of those items that are not
 * stored. */
void spool_batch_build(struct batch_segment *const *segments, size_t count,
                       struct segment_packer *packer, struct pg_params *params);

/* Items that are left to be stored. */
size_t spool_segment_left(const struct batch_segment *s);

/* Appends its items that are not stored as spool records. */
void spool_segment_records(const struct batch_segment *s, struct buf *out);

#endif
