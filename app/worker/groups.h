/* Consumer groups: listings, subscriptions, seeks, deletion (contract 2, section 2). Entry points
 * of routes; names come decoded from the path. */
#ifndef WORKER_GROUPS_H
#define WORKER_GROUPS_H

#include "worker/worker.h"

void groups_handle_list(struct worker *w, struct request *r);
void groups_handle_lagging(struct worker *w, struct request *r);
void group_handle_detail(struct worker *w, struct request *r, struct slice group);
void group_handle_subscription(struct worker *w, struct request *r, struct slice group);
void group_handle_seek_queue(struct worker *w, struct request *r, struct slice group,
                             struct slice queue);
void group_handle_seek_partition(struct worker *w, struct request *r, struct slice group,
                                 struct slice queue, struct slice partition);
void group_handle_delete(struct worker *w, struct request *r, struct slice group);
void group_handle_delete_queue(struct worker *w, struct request *r, struct slice group,
                               struct slice queue);

#endif
