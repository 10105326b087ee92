/* Dead letters: replay by id or by address, purge (contract 2, section 3). Entry points of routes;
 * path parts come decoded. The listing's is in worker.h. */
#ifndef WORKER_DLQ_H
#define WORKER_DLQ_H

#include "worker/worker.h"

/* POST /api/v1/dlq/:id/replay; the body may name a destination. */
void dlq_handle_replay(struct worker *w, struct request *r, struct slice id);
/* POST /api/v1/messages/:partitionId/:transactionId/retry: the newest of the address. */
void dlq_handle_retry(struct worker *w, struct request *r, struct slice partition_id,
                      struct slice transaction_id);
void dlq_handle_purge(struct worker *w, struct request *r);

#endif
