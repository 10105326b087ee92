/* Purge: hash rows (queen.log_txns) that no dedup window and no late ack can ask for any more. */
#ifndef KEEPER_PURGE_H
#define KEEPER_PURGE_H

#include "keeper/keeper.h"

struct purge;

/* Works every ten seconds from now on; of several hosts, one at a time does. */
struct purge *purge_new(struct keeper *keeper);
/* After the lane is gone. */
void purge_free(struct purge *purge);

#endif
