/* The ack registry: which batch each lease delivered, so that an ack of exactly that batch becomes
 * one positional cursor advance (seed "Ack internals", accelerator one). */
#ifndef SHM_REGISTRY_H
#define SHM_REGISTRY_H

#include "base/slice.h"
#include "base/uuid.h"
#include "log/txn_hash.h"
#include "shm/shm.h"

struct registry_batch {
    struct uuid lease_id;
    int64_t batch_end;           /* inclusive offset */
    uint32_t message_count;      /* that its ack retires */
    int32_t conflated;           /* of those, not delivered; -1 = not a conflated batch */
    struct txn_hash fingerprint; /* of the distinct delivered hashes */
    uint64_t expires_mono_ms;    /* lease + 10 s; memory bound, not correctness */
    uint64_t queue;              /* table_hash(queue name, ""): who to wake when it is released */
};

/* Remembers the batch; replaces an older one of the same partition and group. */
void registry_put(struct shm *shm, const struct uuid *partition_id, struct slice group,
                  const struct registry_batch *batch);

/* The three hit conditions: an entry for (partition, group), its lease is lease_id, its fingerprint
 * is `fingerprint` (the caller has checked that every item is completed). On a hit the entry is
 * removed and copied out. Otherwise nothing changes: the caller's SQL path calls registry_drop. */
MUST_CHECK bool registry_take(struct shm *shm, const struct uuid *partition_id, struct slice group,
                              const struct uuid *lease_id, const struct txn_hash *fingerprint,
                              struct registry_batch *out);

/* Any SQL-path outcome for the key ends its entry (only when it is lease_id's; NULL = whosever). */
void registry_drop(struct shm *shm, const struct uuid *partition_id, struct slice group,
                   const struct uuid *lease_id);

struct registry_stats {
    uint64_t entries, capacity, inserts, hits, misses, evictions, expired, shards_emptied;
};
void registry_stats(struct shm *shm, struct registry_stats *out);

#endif
