/* The maintenance switches, as every process of the host sees them at once. queen.system_state is
 * the truth: whoever posts a change sets them after its commit, the keeper reads them every second
 * for what other hosts have changed. */
#ifndef SHM_MAINTENANCE_H
#define SHM_MAINTENANCE_H

#include "shm/shm.h"

enum {
    MAINTENANCE_PUSH = 1, /* pushes go to the spool, which is not drained */
    MAINTENANCE_POP = 2,  /* every pop is answered 204 */
};

/* The switches and, in the upper bits, a number that every posted change raises. */
uint64_t maintenance_read(struct shm *shm);

static inline bool maintenance_is_on(struct shm *shm, unsigned which)
{
    return (maintenance_read(shm) & which) != 0;
}

/* A change that is committed: sets one switch. */
void maintenance_post(struct shm *shm, unsigned which, bool enabled);

/* What a query says that was begun when maintenance_read() gave `seen`. Drops it when a change was
 * posted since: the query may be older. True when a switch is different now. */
bool maintenance_refresh(struct shm *shm, uint64_t seen, bool push, bool pop);

#endif
