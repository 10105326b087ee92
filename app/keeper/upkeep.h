/* Upkeep: what is due for deletion, in bounded steps: hash rows, expired keys, retention, empty
 * partitions. Each is one SQL function that lets one host at a time in and says how much it did. */
#ifndef KEEPER_UPKEEP_H
#define KEEPER_UPKEEP_H

#include "keeper/keeper.h"

struct upkeep;

/* Works from now on, each task on its own clock. */
struct upkeep *upkeep_new(struct keeper *keeper);
/* After the lane is gone. */
void upkeep_free(struct upkeep *upkeep);

#endif
