/* One queen-worker process: what its parts share. Everything here belongs to the engine thread. */
#ifndef WORKER_WORKER_H
#define WORKER_WORKER_H

#include "base/loop.h"
#include "base/settings.h"
#include "base/table.h"
#include "fcgi/server.h"
#include "log/segment.h"
#include "pg/lane.h"
#include "shm/shm.h"
#include "shm/slots.h"

struct push_fusion;
struct push_spool;
struct pop_engine;
struct ack_pipe;
struct wake_out;

struct worker {
    struct settings settings;
    struct loop *loop;
    struct shm *shm;
    struct slot slot;
    struct fcgi_server *server;
    /* One lane per kind of work, so that one kind cannot starve another. */
    struct pg_lane *push_lane, *pop_lane, *ack_lane, *admin_lane;
    struct pg_lane *kv_lane; /* key/value and timers */
    struct pg_lane *transaction_lane;
    struct pg_lane *streams_lane;
    struct pg_lane *report_lane; /* listings that read a row per partition, seeks */
    int timers_fifo;             /* to the keeper; -1 = not open */
    struct push_fusion *push;
    struct push_spool *spool;
    struct pop_engine *pop;
    struct ack_pipe *ack;
    struct wake_out *wake;
    struct segment_packer *packer;
    struct segment_unpacker *unpacker;
    struct buf frames; /* scratch: the unpacked frames of the segment being read */
    bool stopping;     /* SIGTERM came: answer, park nothing, exit when drained */
};

#define WORKER_COUNT(w, field, n) slot_count(&(w)->slot.counters->field, (n))

/* Contract 1, section 1.5. */
enum { NAME_MAX_BYTES = 512, TRANSACTION_ID_MAX_BYTES = 1024 };

#define QUEUE_MODE_GROUP "__QUEUE_MODE__"

/* Checks a queue, partition or group name: 1 to 512 bytes, UTF-8, no NUL. Returns 0, or the HTTP
 * status (400, 413) with err naming the field, the limit and what was found. */
MUST_CHECK int name_check(const char *field, struct slice name, struct err *err);

/* Entry points of the routes, called by routes.c. segments: the path's parts, still encoded. */
void push_handle(struct worker *w, struct request *r);
void pop_handle_queue(struct worker *w, struct request *r, struct slice queue);
void pop_handle_partition(struct worker *w, struct request *r, struct slice queue,
                          struct slice partition);
void pop_handle_discovery(struct worker *w, struct request *r);
void ack_handle_single(struct worker *w, struct request *r);
void ack_handle_batch(struct worker *w, struct request *r);
void transaction_handle(struct worker *w, struct request *r);
void lease_handle_extend(struct worker *w, struct request *r, struct slice lease_id);
void configure_handle(struct worker *w, struct request *r);
void queue_handle_delete(struct worker *w, struct request *r, struct slice queue);
void dlq_handle_list(struct worker *w, struct request *r);
void health_handle(struct worker *w, struct request *r);
void status_handle(struct worker *w, struct request *r);
void metrics_handle_prometheus(struct worker *w, struct request *r);

/* Finds the route of a request and calls its handler; 404 and 405 are answered here. */
void routes_dispatch(struct worker *w, struct request *r);

#endif
