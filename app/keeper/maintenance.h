/* The maintenance switches of queen.system_state, kept fresh in shared memory. */
#ifndef KEEPER_MAINTENANCE_H
#define KEEPER_MAINTENANCE_H

#include "keeper/hints.h"

struct maintenance;

/* Looks every second from now on; a change wakes every worker. */
struct maintenance *maintenance_new(struct keeper *keeper, struct hints *hints);
/* They have been read at least once. */
bool maintenance_known(const struct maintenance *m);
/* After the lane is gone. */
void maintenance_free(struct maintenance *m);

#endif
