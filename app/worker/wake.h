/* Wake-ups between workers: whoever makes work claimable says so, whoever has parked pops hears it.
 * A wake-up is a hint: one that is lost costs at most one fallback interval. */
#ifndef WORKER_WAKE_H
#define WORKER_WAKE_H

#include "worker/worker.h"

/* Opens this worker's wake FIFO and starts listening. */
MUST_CHECK bool wake_start(struct worker *w, struct err *err);
void wake_stop(struct worker *w);

/* Says that there may be work: hashes as in struct wake_record, 0 = any. This worker's own parked
 * pops look at once; other workers get a record at the end of the round, or, under load, at most
 * every 5 ms, each distinct record once. */
void wake_send(struct worker *w, uint64_t queue, uint64_t partition, uint64_t group);

#endif
