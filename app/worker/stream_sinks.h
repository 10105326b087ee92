/* The messages that a stream cycle sends to its sinks: reading, segments, results. */
#ifndef WORKER_STREAM_SINKS_H
#define WORKER_STREAM_SINKS_H

#include "log/txn_hash.h"
#include "pg/params.h"
#include "shm/dedup.h"
#include "wire/json.h"
#include "worker/worker.h"

#include <libpq-fe.h>

struct sink_item {
    struct table_node node; /* by id and partition, to find repeats in the call */
    struct slice queue, partition, transaction_id, payload;
    struct uuid message_id;
    struct txn_hash hash;
    struct sink_item *leader; /* an earlier item of the same id and partition; NULL = none */
    bool duplicate;           /* stored before this cycle */
    int64_t offset;
};

/* The items for one partition that are not stored yet, in request order. */
struct sink_segment {
    struct table_node node; /* by (queue, partition) */
    struct sink_item **items;
    size_t count;
    struct dedup_vouch vouch;
};

struct stream_sinks {
    size_t count;
    struct sink_item *items; /* in the arena, as are: */
    struct sink_segment **segments;
    size_t segment_count;
};

/* push_items of a cycle, from a validated text; absent = none. Returns 0 or the HTTP status. */
MUST_CHECK int stream_sinks_parse(struct json_value array, struct arena *arena,
                                  struct stream_sinks *out, struct err *err);

/* Makes the segments of what is not known to be a duplicate. */
void stream_sinks_group(struct stream_sinks *sinks, struct arena *arena);

/* Appends p_queues to p_verified_ids of streams_cycle_v1. */
enum { SINK_PARAMS = 8 };
#define SINK_PARAM_TYPES                                                                           \
    PG_TEXT_ARRAY, PG_TEXT_ARRAY, PG_INT4_ARRAY, PG_BYTEA_ARRAY, PG_INT8_ARRAY, PG_BYTEA_ARRAY,    \
        PG_INT8_ARRAY, PG_UUID_ARRAY
void stream_sinks_bind(struct worker *w, struct stream_sinks *sinks, struct pg_params *params);

/* Columns of streams_cycle_v1's rows of segments. */
enum {
    SINK_ORDINAL,
    SINK_STATUS,
    SINK_BASE_OFFSET,
    SINK_PARTITION_ID,
    SINK_DUP_INDEX,
    SINK_DUP_OFFSET,
    SINK_COLUMNS
};

/* Takes the duplicates that the rows name out; false when they name none. */
MUST_CHECK bool stream_sinks_duplicates(struct stream_sinks *sinks, const PGresult *r);

/* After the commit: offsets, what this host remembers, wake-ups. */
void stream_sinks_committed(struct worker *w, struct stream_sinks *sinks, const PGresult *r);

/* push_results. */
void stream_sinks_write(const struct stream_sinks *sinks, struct buf *out);

#endif
