/* Transactions: what one request asks for, and its way through PostgreSQL. */
#ifndef WORKER_TRANSACTION_H
#define WORKER_TRANSACTION_H

#include "shm/registry.h"
#include "worker/ack.h"
#include "worker/kv_ops.h"
#include "worker/push.h"
#include "worker/timer_ops.h"

/* The acks of one (partition, group): one cursor, so one decision. */
struct txn_cursor {
    struct txn_cursor *next; /* in order of first mention */
    size_t first;            /* index of its first ack among the operations */
    struct uuid partition_id;
    struct slice group, lease; /* lease: what the acks themselves carry; empty = none */
    struct ack_item **acks;
    size_t count;
    bool all_completed;
    bool recognised; /* the acks are the whole batch: */
    struct registry_batch batch;
};

/* One flattened operation: a pushed item or an ack. */
struct txn_entry {
    struct push_item *push; /* NULL: an ack */
    struct ack_item *ack;
    struct txn_cursor *cursor;
};

/* The snapshot of a message that the transaction dead-letters. */
struct txn_dead_letter {
    size_t cursor; /* place among the transaction's */
    int64_t offset;
    bool readable;
    struct uuid message_id;
    struct slice transaction_id, payload, reason; /* in the request's arena */
};

/* In the request's arena. */
struct transaction {
    struct worker *w;
    struct request *r;
    struct uuid id; /* the answer's transactionId, and the request id of all tries */

    struct txn_entry *entries;
    size_t entry_count;
    struct push_item *pushes;
    size_t push_count;
    struct ack_item *acks;
    size_t ack_count;
    struct push_group *groups;
    size_t group_count;
    struct txn_cursor **cursors; /* in order of first mention */
    size_t cursor_count;
    struct slice *leases; /* all that the request names; own ones of acks too */
    size_t lease_count;
    bool names_leases; /* even if none of them could be a lease id */
    struct kv_ops kv;
    struct timer_ops timers;
    /* The first ack that cannot be right, whatever the database says; text.p NULL = none. */
    struct {
        size_t index;
        struct slice text;
    } hopeless;

    struct pg_job job;
    struct loop_timer timer;
    uint64_t deadline_ms;
    bool retry; /* an earlier try may have committed */
    struct txn_dead_letter *dead_letters;
    size_t dead_count, dead_cap;
    size_t dead_read; /* those from here on are being read */
};

/* Why a transaction is not done: reason is one of contract 1, section 5. */
struct txn_refusal {
    int status;
    char reason[48];
    struct err text;
};

/* Reads the body, gathers items and acks. */
MUST_CHECK bool transaction_parse(struct transaction *t, struct txn_refusal *refusal);

/* The call of log_transaction_call_v1. */
extern const struct pg_statement transaction_statement;
enum { TXN_OUTCOME, TXN_STATE, TXN_ERROR, TXN_DETAIL }; /* columns */
void transaction_build(struct pg_job *job, struct pg_params *params);

/* After the commit: wake-ups, what this host remembers, and the answer. */
void transaction_committed(struct transaction *t, struct slice outcome);
/* The answer of one that was rolled back or never begun. detail: of a lost precondition, or empty.
 */
void transaction_refuse(struct transaction *t, const struct txn_refusal *refusal,
                        struct slice detail);
/* What SQL answered instead of an outcome, as a refusal. */
void transaction_refused(struct transaction *t, struct slice state, struct slice error,
                         struct slice detail);

#endif
