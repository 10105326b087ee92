/* Verdicts on their way to the workers: one FIFO and one bounded queue per worker slot. */
#ifndef FLUSHER_VERDICT_H
#define FLUSHER_VERDICT_H

#include "base/loop.h"
#include "shm/fifo.h"
#include "shm/slots.h"

struct verdict_box;

/* run_dir stays the caller's. drained() is called from the loop when the last queued verdict has
 * been written or dropped. */
struct verdict_box *verdict_box_new(struct loop *loop, struct shm *shm, const char *run_dir,
                                    uint32_t worker_slots, void (*drained)(void *owner),
                                    void *owner);
/* Tries once more to write what is queued, then drops it. */
void verdict_box_free(struct verdict_box *box);

/* Queues one verdict; it is written at the end of the loop's round, or when the worker's FIFO has
 * room again. Dropped when the worker is gone (its slot has another generation, nobody reads its
 * FIFO) or lets too many pile up: a worker that gets no verdict asks PostgreSQL itself. */
void verdict_send(struct verdict_box *box, uint32_t worker_slot, uint32_t generation,
                  uint64_t ticket, enum ack_verdict verdict);

bool verdict_box_empty(const struct verdict_box *box);

#endif
