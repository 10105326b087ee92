/* GET and POST /api/v1/system/kv-timers: the operator's switches of key/value and timers. */
#ifndef WORKER_SWITCHES_H
#define WORKER_SWITCHES_H

#include "worker/worker.h"

void switches_handle_get(struct worker *w, struct request *r);
void switches_handle_set(struct worker *w, struct request *r);

#endif
