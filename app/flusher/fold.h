/* Folding: many acks, few rows. A batch is what one statement commits: rows in the order in which
 * they came, and who waits for each. Pure: no database, no descriptor, no clock. */
#ifndef FLUSHER_FOLD_H
#define FLUSHER_FOLD_H

#include "base/arena.h"
#include "base/table.h"
#include "shm/fifo.h"

#include <sys/queue.h>

/* Rows of one statement: 60,000 rows/s were measured at 100 a commit, and a larger commit only
 * holds its row locks longer. */
enum { FOLD_ROWS_MAX = 1000 };

struct fold_waiter {
    STAILQ_ENTRY(fold_waiter) link;
    uint64_t ticket;
    uint32_t worker_slot, worker_generation;
};

/* One (partition, group, lease). A cursor advance is monotone, so that all who wait for the row
 * get the verdict on the greatest end. Another lease on the same partition and group is another
 * row: each is validated for itself. */
struct fold_row {
    struct table_node by_key;
    struct uuid partition_id, lease_id;
    struct slice group; /* in the batch's arena */
    int64_t batch_end;
    int32_t message_count;
    STAILQ_HEAD(fold_waiter_list, fold_waiter)
    waiters; /* in order of arrival; empty once answered */
};

struct fold_batch {
    TAILQ_ENTRY(fold_batch) link; /* the owner's */
    struct fold_row *rows[FOLD_ROWS_MAX];
    size_t count;   /* rows */
    size_t waiting; /* waiters without an answer */
    struct table by_key;
    struct arena arena; /* rows, waiters, group names */
};

struct fold_batch *fold_batch_new(void);
void fold_batch_free(struct fold_batch *b);

/* Adds the record. False when it needs a new row and the batch is full: nothing was added. */
MUST_CHECK bool fold_add(struct fold_batch *b, const struct ack_record *record, struct slice group);

typedef void fold_answer(const struct fold_waiter *waiter, enum ack_verdict verdict, void *owner);

/* Calls answer() for everybody who waits for row `index` (0 is the first) and forgets them, so that
 * nobody is answered twice. An index out of range or an answered row is no error: 0 is returned,
 * else how many were answered. */
size_t fold_answer_row(struct fold_batch *b, size_t index, enum ack_verdict verdict,
                       fold_answer *answer, void *owner);
/* The same for all rows that have no answer yet. */
size_t fold_answer_rest(struct fold_batch *b, enum ack_verdict verdict, fold_answer *answer,
                        void *owner);
/* Index of the first row at or after `from` that has no answer; b->count when there is none. */
size_t fold_unanswered(const struct fold_batch *b, size_t from);

#endif
