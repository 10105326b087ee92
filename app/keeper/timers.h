/* Timers: fires those that are due and wakes the pops that wait for their messages. */
#ifndef KEEPER_TIMERS_H
#define KEEPER_TIMERS_H

#include "keeper/hints.h"
#include "keeper/keeper.h"

struct timers;

/* Works from now on. Sleeps until the next timer is due; workers of this host tell of new ones over
 * a FIFO, those of other hosts are found within QUEEN_FALLBACK_POLL_MS. NULL with err. */
MUST_CHECK struct timers *timers_new(struct keeper *keeper, struct hints *hints, struct err *err);
/* While hints still are. */
void timers_free(struct timers *timers);

#endif
