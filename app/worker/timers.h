/* Timer routes; called by routes.c. Names come from the path, decoded; a key may hold slashes. */
#ifndef WORKER_TIMERS_H
#define WORKER_TIMERS_H

#include "worker/worker.h"

void timers_handle_batch(struct worker *w, struct request *r);
void timers_handle_get(struct worker *w, struct request *r, struct slice queue, struct slice key);
void timers_handle_cancel(struct worker *w, struct request *r, struct slice queue,
                          struct slice key);
void timers_handle_list(struct worker *w, struct request *r, struct slice queue);

#endif
