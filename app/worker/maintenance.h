/* The maintenance switches and the figures of the push spool, for answers. */
#ifndef WORKER_MAINTENANCE_H
#define WORKER_MAINTENANCE_H

#include "shm/maintenance.h"
#include "worker/worker.h"

/* What lies in the spool of this host, as the keeper saw it last (a fifth of a second ago). */
struct maintenance_buffers {
    uint64_t pending; /* messages */
    uint64_t pending_bytes;
    uint64_t failed_files; /* put aside: refused by PostgreSQL for good, or damaged */
    uint64_t failed_bytes;
    bool healthy; /* no worker's last write to the spool failed */
};
void maintenance_buffers(struct worker *w, struct maintenance_buffers *out);

/* {"pendingCount",...,"failedFiles":{...}} of GET /api/v1/system/maintenance. */
void maintenance_write_buffers(struct worker *w, const struct maintenance_buffers *buffers,
                               struct buf *out);

void maintenance_handle_get(struct worker *w, struct request *r);
void maintenance_handle_set(struct worker *w, struct request *r);
void maintenance_handle_pop_get(struct worker *w, struct request *r);
void maintenance_handle_pop_set(struct worker *w, struct request *r);

#endif
