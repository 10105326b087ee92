/* Pops: one struct per call from its arrival to its answer, claims that travel together, and sets
 * of parked calls that wait for the same thing. */
#ifndef WORKER_POP_H
#define WORKER_POP_H

#include "pg/result.h"
#include "worker/fuse.h"

enum pop_state {
    POP_IDLE,     /* being handled right now */
    POP_QUEUED,   /* waits for a connection to claim with */
    POP_CLAIMING, /* its claim is on its way */
    POP_PARKED,   /* waits for a wake-up, in its set */
};

/* How a (queue, group) is delivered: as PostgreSQL has it stored. */
enum pop_policy {
    POP_POLICY_UNKNOWN, /* nobody has looked yet */
    POP_PLAIN,
    POP_CONFLATES, /* the newest message of each partition only */
    POP_MIXED,     /* discovery: the queues differ */
};

/* What a parameter that may be left out says. */
enum pop_wish { POP_UNSAID, POP_NO, POP_YES };

/* Calls that wait for the same thing: same queue (or namespace and task), partition and group. */
struct pop_set {
    struct table_node node; /* in pop_engine.sets */
    LIST_ENTRY(pop_set) gate_link;
    struct pop_engine *engine;
    struct pop_gate *gate;
    TAILQ_HEAD(, pop_call) parked; /* oldest first */
    size_t members;                /* calls that name this set, parked or not */
    unsigned probing;              /* claims of members on their way */
    bool again;                    /* a wake-up came that no later claim has looked at yet */
    bool known_empty;              /* the last claim came back empty, no wake-up since */
    struct loop_timer look_timer;  /* SQL said when something may become claimable */
    enum pop_policy policy;        /* what the last claim was told */
    uint64_t queue_hash, partition_hash, group_hash;
    bool pinned, discovery;
    struct slice key; /* owned */
};

struct pop_call {
    struct worker *w;
    struct request *r; /* NULL: the client left while the claim was on its way */
    enum pop_state state;
    TAILQ_ENTRY(pop_call) link; /* in the claim queue or in set->parked */
    struct pop_set *set;        /* only with wait */
    struct loop_timer deadline_timer;
    uint64_t deadline_ms;    /* when the caller is answered */
    bool looked;             /* its first claim was sent */
    uint64_t claim_until_ms; /* no claim starts later: the caller may be gone before its answer */
    /* The request, copied: the call may outlive it. Slices point into text. */
    bool wait, auto_ack, discovery, pinned;
    int32_t batch, partitions; /* 0: SQL chooses (autopilot) */
    int32_t lease_seconds;
    int32_t width; /* partitions, when the group conflates */
    enum pop_wish conflation;
    enum pop_policy policy; /* what its own claim was told */
    struct slice queue, partition, group, mode, from, namespace, task;
    struct uuid lease_id;
    char lease_text[UUID_TEXT_SIZE];
    char text[];
};

struct pop_engine {
    struct worker *w;
    TAILQ_HEAD(, pop_call) queued; /* calls that want a claim */
    struct loop_task claim_task;
    struct fuse fuse;
    struct table sets;  /* by key */
    struct table gates; /* by queue hash; discovery sets hang on the gate of queue 0 */
    uint64_t waiting;   /* calls with wait=true, for the gauge that other workers look at */
};

void pop_engine_start(struct worker *w);
void pop_engine_stop(struct worker *w);
/* The pop lane has a free connection. */
void pop_lane_idle(void *worker);
/* A wake-up (struct wake_record): parked calls that match look again. */
void pop_wake(struct worker *w, uint64_t queue, uint64_t partition, uint64_t group);
/* SIGTERM: every parked call is answered 204. */
void pop_answer_parked(struct worker *w);

/* --- between the pop files --- */

/* Queues a call for a claim. */
void pop_call_claim(struct pop_call *call);
/* Takes a queued call out of the claim queue; its set goes on looking with another call. */
void pop_call_unclaim(struct pop_call *call);
/* What a claim brought. rows [first, last) of r belong to the call; none with a partition: empty.
 */
void pop_call_deliver(struct pop_call *call, const PGresult *r, int first, int last);
/* Nothing claimable; look again in retry_after_ms (-1: when woken). held: there is something, but
 * less than the call waits for (minPopWaitTime). */
void pop_call_empty(struct pop_call *call, int64_t retry_after_ms, bool held);
/* The claim failed. */
void pop_call_failed(struct pop_call *call);
/* Ends the call with an answer. */
void pop_call_answer_empty(struct pop_call *call);
void pop_call_free(struct pop_call *call);

/* Columns of log_pop_multi_v1 and log_pop_discover_v1. */
enum {
    POP_CLAIM,
    POP_QUEUE,
    POP_PARTITION_ID,
    POP_PARTITION,
    POP_BATCH_END,
    POP_LEASE_SECONDS,
    POP_ATTEMPT,
    POP_BASE,
    POP_START,
    POP_TAKE,
    POP_CREATED,
    POP_BLOB,
    POP_RETRY_MS,
    POP_CONFLATION,
    POP_CONFLATED,
    POP_HELD,
    POP_AUTO_PARTITIONS,
    POP_AUTO_BATCH,
};
#define POP_COLUMNS                                                                                \
    "claim, queue, partition_id, partition, batch_end, lease_seconds, attempt, base_offset,"       \
    " start_idx, take, created_at, blob, retry_after_ms, conflation, conflated, held,"             \
    " auto_partitions, auto_batch"

/* Renders the delivered rows, registers the leases; body gets the whole JSON answer. Returns the
 * number of messages. */
size_t pop_render(struct pop_call *call, const PGresult *r, int first, int last, struct buf *body);
/* The answer of a call that got nothing, when it has a policy to tell; false: it has not. */
bool pop_render_empty(const struct pop_call *call, struct buf *body);

/* Parking. */
void pop_sets_init(struct pop_engine *engine);
void pop_park_join(struct pop_call *call);  /* names its set; before its first claim */
void pop_park_leave(struct pop_call *call); /* no longer waits */
/* A member's claim is over: it got something. */
void pop_park_served(struct pop_set *set);
/* A member's claim is over: it got nothing. See pop_call_empty(). */
void pop_park_probed(struct pop_set *set, int64_t retry_after_ms, bool held);
/* How long a claim that starts now may be held for more to come; 0 = not at all. */
int32_t pop_park_hold_ms(const struct pop_call *call);
/* A member that was to look left before it did. */
void pop_park_unprobed(struct pop_set *set);
void pop_park_call(struct pop_call *call, bool at_head);
bool pop_park_known_empty(const struct pop_call *call);

#endif
