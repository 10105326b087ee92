/* Pushes: what one request asked for, and the fusion of many requests into few transactions. */
#ifndef WORKER_PUSH_H
#define WORKER_PUSH_H

#include "log/txn_hash.h"
#include "wire/json.h"
#include "worker/worker.h"

enum push_status {
    PUSH_PENDING,
    PUSH_QUEUED,    /* committed */
    PUSH_DUPLICATE, /* message_id is the original's; all zero when its segment is gone */
    PUSH_BUFFERED,  /* durable in the spool */
    PUSH_FAILED,    /* stored nowhere; request->failure says why */
    PUSH_UNKNOWN,   /* the deadline passed before it could be settled whether it is stored */
};

struct push_request;

/* One item of a request. In the request's arena; slices point into its body. */
struct push_item {
    struct push_request *request; /* NULL in a transaction */
    struct slice queue, partition, transaction_id, payload;
    struct uuid message_id; /* minted */
    struct uuid trace_id;   /* when traced */
    bool traced;
    struct txn_hash hash;
    enum push_status status;
    struct push_item *leader; /* the request's first item of the same id and partition, or NULL */
};

struct push_request {
    struct worker *w;
    struct request *r;
    struct push_item *items;
    size_t count;
    bool maintenance;     /* all of it went to the spool */
    size_t unsettled;     /* items in a segment that is not settled yet */
    uint64_t deadline_ms; /* clock_mono_ms() */
    char failure[256];    /* text of the first failure, "" = none */
};

enum { PUSH_MAX_ITEMS = 100000 }; /* bounds the memory of one request: about 250 bytes an item */

/* Reads an item from a validated text. in_transaction: `data` stands in for a payload, a missing
 * one is {}, an empty transactionId counts as absent, and a traceId is kept (contract 1, section
 * 5). Returns 0, or the HTTP status of the refusal with a text that does not say which item. */
MUST_CHECK int push_item_parse(struct arena *arena, struct json_value element, bool in_transaction,
                               struct push_item *item, struct err *err);

/* Sets the leader of every item that repeats an earlier one's id and partition. */
void push_items_mark_repeats(struct arena *arena, struct push_item *items, size_t count);

/* The items of one request for one partition, in request order, without in-request repeats. */
struct push_group {
    struct push_group *next; /* in order of first mention */
    struct slice queue, partition;
    struct push_item **items;
    size_t count;
    size_t bytes; /* of their frames */
};

/* Collects the items that have no leader. NULL when there are none. */
struct push_group *push_items_group(struct arena *arena, struct push_item *items, size_t count);

/* Hands a group to the fusion: it becomes (part of) one segment of the partition's next flush. */
void push_fusion_add(struct worker *w, const struct push_group *group);

/* Settles an item; answers the request when it was the last one. */
void push_item_settle(struct push_item *item, enum push_status status);

void push_fusion_start(struct worker *w);
void push_fusion_stop(struct worker *w);

#endif
