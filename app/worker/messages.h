/* Stored messages: listing, detail, dead letters of one message (contract 2, section 3). Entry
 * points of routes; path parts come decoded. */
#ifndef WORKER_MESSAGES_H
#define WORKER_MESSAGES_H

#include "log/frame.h"
#include "worker/worker.h"

void messages_handle_list(struct worker *w, struct request *r);
void message_handle_get(struct worker *w, struct request *r, struct slice partition_id,
                        struct slice transaction_id);
void message_handle_delete(struct worker *w, struct request *r, struct slice partition_id,
                           struct slice transaction_id);
/* POST .../dlq: the next message of queue mode becomes a dead letter by request. */
void message_handle_dead_letter(struct worker *w, struct request *r, struct slice partition_id,
                                struct slice transaction_id);

/* A message as the listing and the detail show it. */
struct message_view {
    struct uuid partition_id;
    struct slice queue, partition, namespace, task, status;
    int64_t base_offset, offset, created_us;
    int consumed_by, total_groups; /* named groups */
    bool leased;
    int64_t lease_us;          /* only when leased */
    const struct frame *frame; /* NULL: cannot be read */
};

/* Writes the members without braces. */
void message_write(struct buf *body, const struct message_view *m);

/* {"hasQueueMode":...} */
void message_write_mode(struct buf *body, bool queue_mode, int64_t bus_groups);

#endif
