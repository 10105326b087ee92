/* The maintenance switches: one word, no lock. */
#include "shm/maintenance.h"

#include "shm/layout.h"

enum { SWITCHES = MAINTENANCE_PUSH | MAINTENANCE_POP, CHANGE = 256 };

uint64_t maintenance_read(struct shm *shm)
{
    return atomic_load_explicit(&shm->header->maintenance, memory_order_acquire);
}

void maintenance_post(struct shm *shm, unsigned which, bool enabled)
{
    uint64_t old = maintenance_read(shm), next;
    do
        next = ((enabled ? old | which : old & ~(uint64_t)which)) + CHANGE;
    while (!atomic_compare_exchange_weak(&shm->header->maintenance, &old, next));
}

bool maintenance_refresh(struct shm *shm, uint64_t seen, bool push, bool pop)
{
    uint64_t next = (seen & ~(uint64_t)SWITCHES) | (push ? MAINTENANCE_PUSH : 0u) |
                    (pop ? MAINTENANCE_POP : 0u);
    return next != seen && atomic_compare_exchange_strong(&shm->header->maintenance, &seen, next);
}
