/* Process slots: who is alive on this host, under which number, and what it has counted. */
#ifndef SHM_SLOTS_H
#define SHM_SLOTS_H

#include "shm/shm.h"

#include <stdatomic.h>
#include <stdint.h>

enum slot_kind { SLOT_FREE, SLOT_WORKER, SLOT_FLUSHER, SLOT_KEEPER };

struct slot_counters {
#define COUNTER(field, prometheus, help) _Atomic uint64_t field;
#define GAUGE(field, prometheus, help)   _Atomic uint64_t field;
#include "shm/counters.def"
#undef COUNTER
#undef GAUGE
};

/* This process's claim on a slot. */
struct slot {
    struct shm *shm;
    uint32_t index;
    uint32_t generation;            /* differs from every earlier owner of the index */
    struct slot_counters *counters; /* in shared memory; single writer: this process */
};

/* Takes a free slot (or one whose owner is dead); workers take one of settings->worker_slots, the
 * flusher and the keeper have one each and taking it while a live process holds it is an error. */
MUST_CHECK bool slot_claim(struct shm *shm, enum slot_kind kind, struct slot *out, struct err *err);
void slot_release(struct slot *slot);

/* Writes the heartbeat, and what the process has used so far; call it every SLOT_HEARTBEAT_MS, from
 * its event loop. */
enum { SLOT_HEARTBEAT_MS = 1000 };
void slot_heartbeat(struct slot *slot);

/* Frees slots whose owner is gone (no process of that pid and start time): adds their counters to
 * the host-wide total. Returns how many. Any process may call it. */
size_t slot_sweep(struct shm *shm);

struct slot_info {
    enum slot_kind kind;
    uint32_t index, generation;
    int32_t pid;
    uint64_t heartbeat_age_ms;
    uint64_t age_ms; /* of the process; 0 when it is not alive */
    bool alive;
};
/* Copies the state of slot `index`; false behind the last. */
MUST_CHECK bool slot_read(struct shm *shm, uint32_t index, struct slot_info *out);

/* Claimed worker slots other than `except` (may be NULL); fills at most max indexes. One whose
 * owner has died counts until the next sweep. */
size_t slot_workers(struct shm *shm, const struct slot *except, uint32_t *indexes, size_t max);

/* Generation of the process that holds slot `index`; 0 for a free one. No lock, no system call. */
uint32_t slot_generation(struct shm *shm, uint32_t index);

/* The pop_parked gauge of one slot; 0 for a free one. */
uint64_t slot_parked(struct shm *shm, uint32_t index);

/* Sum over all slots, plus the host-wide total of dead ones. */
void slot_counters_sum(struct shm *shm, struct slot_counters *out);

static inline void slot_count(_Atomic uint64_t *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

#endif
