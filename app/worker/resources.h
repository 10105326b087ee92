/* What is there and how much of it: queues, partitions, namespaces, tasks, depth, overview, and
 * clearing a queue (contract 2, section 1). Entry points of routes; names come decoded from the
 * path. */
#ifndef WORKER_RESOURCES_H
#define WORKER_RESOURCES_H

#include "worker/worker.h"

void resources_handle_queues(struct worker *w, struct request *r);
void resources_handle_queue(struct worker *w, struct request *r, struct slice queue);
void resources_handle_depth(struct worker *w, struct request *r, struct slice queue);
void resources_handle_overview(struct worker *w, struct request *r);
void resources_handle_namespaces(struct worker *w, struct request *r);
void resources_handle_tasks(struct worker *w, struct request *r);
void resources_handle_partitions(struct worker *w, struct request *r);
void queue_handle_clear(struct worker *w, struct request *r, struct slice queue);

#endif
