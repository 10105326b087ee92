/* Acks: one request, its groups, and the ways a group is decided. */
#ifndef WORKER_ACK_H
#define WORKER_ACK_H

#include "log/txn_hash.h"
#include "wire/json.h"
#include "worker/worker.h"

enum ack_status { ACK_COMPLETED, ACK_FAILED, ACK_RETRY, ACK_DLQ };

/* Exact and case-sensitive; anything unknown is a nack (contract 1, section 3). text: of v when it
 * is a string. */
enum ack_status ack_status_of(struct json_value v, struct slice text);

/* The text of a member that may be absent or null: then empty. */
MUST_CHECK bool ack_text(struct arena *arena, const char *field, struct json_value v,
                         struct slice *out, struct err *err);

/* A lease id that a text column could hold; none that this server minted is longer. */
enum { ACK_MAX_LEASE_BYTES = 128 };
bool ack_lease_is_plausible(struct slice lease);

/* One acknowledgement. In the request's arena. */
struct ack_item {
    struct slice transaction_id;
    struct txn_hash hash;
    enum ack_status status;
    struct slice reason;     /* why it failed; empty = none */
    struct ack_group *group; /* NULL in a transaction */
    /* The answer. */
    bool success, lease_released, dlq, noop;
    struct slice error; /* p NULL = null */
};

/* The items of one (partition, lease): decided together, independent of other groups. */
struct ack_group {
    struct ack_request *request;
    struct ack_group *next;
    struct slice partition_text, lease_text; /* as sent; lease empty = lease-less */
    struct uuid partition_id, lease_id;      /* lease_id only when lease_is_uuid */
    bool lease_is_uuid, all_completed;
    struct ack_item **items;
    size_t count;
    bool unsettled; /* an earlier try may have committed */
    uint64_t queue; /* hash, for the wake-up after a release; 0 = not known */
    /* The step under way. */
    struct pg_job job;
    struct loop_timer timer; /* next try, or the flusher's deadline */
    struct table_node ticket_node;
    uint64_t ticket;
    int64_t batch_end; /* of a recognised batch */
    uint32_t message_count;
    int32_t conflated; /* undelivered messages that this ack retires too; -1 = not conflated */
    /* A poison message being dead-lettered. */
    struct {
        int64_t offset;
        bool readable;
        struct uuid message_id;
        struct slice transaction_id, payload; /* in the request's arena */
    } poison;
};

struct ack_request {
    struct worker *w;
    struct request *r;
    struct slice consumer_group;
    struct ack_item *items;
    size_t count;
    struct ack_group *groups;
    size_t open;  /* groups not decided yet */
    bool unknown; /* some group's outcome could not be settled: the answer is 503 */
    uint64_t deadline_ms;
};

/* Ends a group; answers the request after the last. */
void ack_group_done(struct ack_group *g);
/* The same with one error on every item. text must be a literal or live in the request's arena. */
void ack_group_fail(struct ack_group *g, struct slice text);
/* Every item succeeded and the lease is released: the recognised whole batch. */
void ack_group_committed(struct ack_group *g);
/* After a release: the partition may have more to give. */
void ack_group_wake(struct ack_group *g);

#define ACK_INVALID_LEASE SLICE_LITERAL("invalid or expired lease")
#define ACK_UNRESOLVABLE                                                                           \
    SLICE_LITERAL("unresolvable: transaction not in the ack window (hash purged or never "         \
                  "pushed); if leased, the message redelivers")
#define ACK_FLUSH_FAILED  SLICE_LITERAL("ack flush failed; lease will expire and redeliver")
#define ACK_DATABASE_AWAY SLICE_LITERAL("database unavailable; if leased, the message redelivers")

/* Decides a group: fast path if the registry knows the batch, else by hash. */
void ack_group_start(struct ack_group *g);
/* log_ack_by_hash_v1, the authoritative procedure. */
void ack_hash_start(struct ack_group *g);
/* One positional advance by this worker: no flusher, or it did not answer. */
void ack_positional_start(struct ack_group *g);
/* Why a message is dead-lettered: the item marked dlq is its own nack. Fit for a text column. */
struct slice ack_dead_letter_reason(struct ack_item *const *items, size_t count);
/* Files the dead letter at g->poison.offset; then ends the group. */
void ack_dead_letter_start(struct ack_group *g);

/* After a statement failed: tries again later, or ends the group. `again` restarts the step. */
void ack_group_retry(struct ack_group *g, const struct pg_outcome *outcome,
                     void (*again)(struct loop_timer *timer), struct slice refused);

/* The way to the flusher and back. */
MUST_CHECK bool ack_pipe_start(struct worker *w, struct err *err);
void ack_pipe_stop(struct worker *w);
/* False: no flusher, or its FIFO is full. */
MUST_CHECK bool ack_pipe_send(struct ack_group *g);

#endif
