/* Segments to be as parameters of a statement. */
#ifndef WORKER_PUSH_BIND_H
#define WORKER_PUSH_BIND_H

#include "pg/params.h"
#include "shm/dedup.h"
#include "worker/push.h"

/* Appends p_queues, p_partitions, p_counts, p_hashes, p_verified and p_blobs of log_push_multi_v1,
 * one element a group. vouches: `count` elements, filled; for push_bind_vouches(). */
void push_bind(struct worker *w, const struct push_group *groups, size_t count,
               struct pg_params *params, struct dedup_vouch *vouches);

/* Appends p_verified_from and p_verified_ids. */
void push_bind_vouches(const struct dedup_vouch *vouches, size_t count, struct pg_params *params);

/* After the commit: remembers the group's hashes, so that the next push need not look for them in
 * SQL. */
void push_note(struct worker *w, const struct push_group *group, const struct uuid *partition_id,
               int64_t base);

#endif
