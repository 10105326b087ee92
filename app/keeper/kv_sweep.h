/* Sweep: deletes expired keys of the key/value store. They count as absent before that. */
#ifndef KEEPER_KV_SWEEP_H
#define KEEPER_KV_SWEEP_H

#include "keeper/keeper.h"

struct kv_sweep;

/* Works every few seconds from now on. */
struct kv_sweep *kv_sweep_new(struct keeper *keeper);
/* After the lane is gone. */
void kv_sweep_free(struct kv_sweep *sweep);

#endif
