/* Traces: what consumers note about messages (contract 2, section 4). Entry points of routes; path
 * parts come decoded. */
#ifndef WORKER_TRACES_H
#define WORKER_TRACES_H

#include "worker/worker.h"

void traces_handle_add(struct worker *w, struct request *r);
void traces_handle_message(struct worker *w, struct request *r, struct slice partition_id,
                           struct slice transaction_id);
void traces_handle_by_name(struct worker *w, struct request *r, struct slice name);
void traces_handle_names(struct worker *w, struct request *r);

#endif
