/* Hints: parked pops of this host hear of writes that no worker of this host told them about:
 * those of other hosts, and those whose worker died before it could say so. */
#ifndef KEEPER_HINTS_H
#define KEEPER_HINTS_H

#include "keeper/keeper.h"
#include "shm/fifo.h"

struct hints;

/* Looks every QUEEN_FALLBACK_POLL_MS from now on. */
struct hints *hints_new(struct keeper *keeper);
/* Tells every worker of this host that has somebody waiting; at most PIPE_BUF bytes of records. */
void hints_wake(struct hints *hints, const struct wake_record *records, size_t count);
/* After the lane is gone. */
void hints_free(struct hints *hints);

#endif
