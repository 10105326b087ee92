/* Pushes: what one request asked for, and the fusion of many requests into few transactions. */
#ifndef WORKER_PUSH_H
#define WORKER_PUSH_H

#include "log/txn_hash.h"
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
    struct push_request *request;
    struct slice queue, partition, transaction_id, payload;
    struct uuid message_id; /* minted */
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

/* The items of one request for one partition, in request order, without in-request repeats. */
struct push_group {
    struct slice queue, partition;
    struct push_item **items;
    size_t count;
    size_t bytes; /* of their frames */
};

/* Hands a group to the fusion: it becomes (part of) one segment of the partition's next flush. */
void push_fusion_add(struct worker *w, const struct push_group *group);

/* Settles an item; answers the request when it was the last one. */
void push_item_settle(struct push_item *item, enum push_status status);

void push_fusion_start(struct worker *w);
void push_fusion_stop(struct worker *w);

#endif
