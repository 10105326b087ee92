/* Status pages and time series (contract 2, section 8). Entry points of routes; names come decoded
 * from the path. */
#ifndef WORKER_STATUS_H
#define WORKER_STATUS_H

#include "worker/worker.h"

void status_handle_overall(struct worker *w, struct request *r);
void status_handle_queues(struct worker *w, struct request *r);
void status_handle_queue(struct worker *w, struct request *r, struct slice queue);
void status_handle_analytics(struct worker *w, struct request *r);
void status_handle_buffers(struct worker *w, struct request *r);
void status_handle_refresh(struct worker *w, struct request *r);
void analytics_handle_system(struct worker *w, struct request *r);
void analytics_handle_workers(struct worker *w, struct request *r);
void analytics_handle_postgres(struct worker *w, struct request *r);
void analytics_handle_queue_lag(struct worker *w, struct request *r);
void analytics_handle_queue_ops(struct worker *w, struct request *r);
void analytics_handle_retention(struct worker *w, struct request *r);

#endif
