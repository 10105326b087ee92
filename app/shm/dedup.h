/* The dedup memory: which transaction hashes this host has pushed to a partition lately, so that a
 * push can vouch "none of these occurs in offsets [from, upto]" and SQL need not look there. It
 * never decides a duplicate: a hash that may be known is simply not vouched for. */
#ifndef SHM_DEDUP_H
#define SHM_DEDUP_H

#include "base/slice.h"
#include "base/uuid.h"
#include "log/txn_hash.h"
#include "shm/shm.h"

struct dedup_vouch {
    struct uuid partition_id; /* the vouch holds for this incarnation of the names only */
    int64_t from, upto;       /* inclusive offsets; from > upto: nothing is vouched for */
};

/* What can be vouched for these hashes, all of them, on the partition of these names. */
struct dedup_vouch dedup_ask(struct shm *shm, struct slice queue, struct slice partition,
                             const struct txn_hash *hashes, size_t count);

/* These hashes are committed at [base, base + count). Call after every commit of this host: an
 * offset nobody told of is a gap, and what lies below it is no longer vouched for. */
void dedup_note(struct shm *shm, struct slice queue, struct slice partition,
                const struct uuid *partition_id, int64_t base, const struct txn_hash *hashes,
                size_t count);

struct dedup_stats {
    uint64_t asked, vouched, noted, rotations, shards_emptied;
};
void dedup_stats(struct shm *shm, struct dedup_stats *out);

#endif
