/* What this host's shared memory says, without the database: GET /metrics and
 * /api/v1/system/shared-state (contract 2, section 8). */
#ifndef WORKER_HOST_H
#define WORKER_HOST_H

#include "worker/worker.h"

void metrics_handle_json(struct worker *w, struct request *r);
void shared_state_handle(struct worker *w, struct request *r);

#endif
