/* Process slots: claim, release, reclaim of dead owners, and the counters. */
#include "shm/slots.h"

#include "base/clock.h"
#include "shm/layout.h"
#include "shm/process.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <unistd.h>

void slots_init(struct shm *shm)
{
    struct slot_table *t = shm->slots;
    shm_lock_init(&t->lock);
    /* Not from 1: a verdict meant for a process of a removed segment must not fit one of this. */
    if (getrandom(&t->next_generation, sizeof t->next_generation, 0) !=
        (ssize_t)sizeof t->next_generation)
        die("getrandom: %s", strerror(errno));
    t->next_generation |= 1u;
}

static uint32_t slot_count_all(const struct shm *shm)
{
    return shm->worker_slots + SHM_SPECIAL_SLOTS;
}

static uint64_t counter_read(const _Atomic uint64_t *counter)
{
    return atomic_load_explicit(counter, memory_order_relaxed);
}

static void counters_clear(struct slot_counters *c)
{
#define COUNTER(field, prometheus, help) atomic_store_explicit(&c->field, 0, memory_order_relaxed);
#define GAUGE(field, prometheus, help)   atomic_store_explicit(&c->field, 0, memory_order_relaxed);
#include "shm/counters.def"
#undef COUNTER
#undef GAUGE
}

/* Second half of a fold: the valid total holds the slot's counters, now the slot is emptied.
 * Repeating it is harmless; until `fold` is stored again nobody may claim the slot. */
static void slot_fold_finish(struct slot_table *t)
{
    uint32_t fold = atomic_load(&t->fold);
    if (fold >> 1 == 0)
        return;
    struct slot_cell *cell = &t->cells[(fold >> 1) - 1];
    counters_clear(&cell->counters);
    atomic_store(&cell->kind, SLOT_FREE);
    atomic_store(&t->fold, fold & 1u);
}

/* Adds the slot's counters to the total, exactly once even if this process dies anywhere in
 * between: the one store of `fold` is the moment at which they change sides. */
static void slot_fold(struct slot_table *t, uint32_t index)
{
    uint32_t valid = atomic_load(&t->fold) & 1u;
    const struct slot_counters *old = &t->total[valid], *add = &t->cells[index].counters;
    struct slot_counters *sum = &t->total[1u - valid];
#define COUNTER(field, prometheus, help)                                                           \
    atomic_store_explicit(&sum->field, counter_read(&old->field) + counter_read(&add->field),      \
                          memory_order_relaxed);
#define GAUGE(field, prometheus, help)
#include "shm/counters.def"
#undef COUNTER
#undef GAUGE
    atomic_store(&t->fold, (index + 1) << 1 | (1u - valid));
    slot_fold_finish(t);
}

static struct slot_table *slots_enter(struct shm *shm)
{
    struct slot_table *t = shm->slots;
    /* Whatever the dead holder was at, only a begun fold leaves anything to do. */
    if (shm_lock(&t->lock) == SHM_OWNER_DIED)
        slot_fold_finish(t);
    return t;
}

static size_t slots_sweep_locked(struct shm *shm)
{
    struct slot_table *t = shm->slots;
    size_t freed = 0;
    for (uint32_t i = 0; i < slot_count_all(shm); i++) {
        struct slot_cell *cell = &t->cells[i];
        if (atomic_load(&cell->kind) != SLOT_FREE &&
            !process_alive(atomic_load(&cell->pid), atomic_load(&cell->start_time))) {
            slot_fold(t, i);
            freed++;
        }
    }
    return freed;
}

static bool slot_refuse(const struct shm *shm, enum slot_kind kind, struct err *err)
{
    if (kind == SLOT_WORKER)
        return err_set(err, "all %" PRIu32 " worker slots are taken (QUEEN_WORKER_SLOTS)",
                       shm->worker_slots);
    bool flusher = kind == SLOT_FLUSHER;
    uint32_t index = shm->worker_slots + (flusher ? 0 : 1);
    return err_set(err, "a %s of this instance already runs: pid %" PRId32,
                   flusher ? "flusher" : "keeper", atomic_load(&shm->slots->cells[index].pid));
}

bool slot_claim(struct shm *shm, enum slot_kind kind, struct slot *out, struct err *err)
{
    uint32_t first = 0, end = shm->worker_slots;
    if (kind != SLOT_WORKER) {
        first = shm->worker_slots + (kind == SLOT_FLUSHER ? 0 : 1);
        end = first + 1;
    }
    uint64_t start_time = process_start_time();
    struct slot_table *t = slots_enter(shm);
    (void)slots_sweep_locked(shm);
    uint32_t index = first;
    while (index < end && atomic_load(&t->cells[index].kind) != SLOT_FREE)
        index++;
    if (index == end) {
        bool refused = slot_refuse(shm, kind, err);
        shm_unlock(&t->lock);
        return refused;
    }
    struct slot_cell *cell = &t->cells[index];
    uint32_t generation = t->next_generation++;
    if (t->next_generation == 0)
        t->next_generation = 1;
    atomic_store(&cell->generation, generation);
    atomic_store(&cell->pid, getpid());
    atomic_store(&cell->start_time, start_time);
    atomic_store(&cell->heartbeat_ms, clock_mono_ms());
    counters_clear(&cell->counters);
    atomic_store(&cell->kind, kind);
    shm_unlock(&t->lock);
    *out = (struct slot){shm, index, generation, &cell->counters};
    return true;
}

void slot_release(struct slot *slot)
{
    struct slot_table *t = slots_enter(slot->shm);
    struct slot_cell *cell = &t->cells[slot->index];
    if (atomic_load(&cell->kind) != SLOT_FREE && atomic_load(&cell->generation) == slot->generation)
        slot_fold(t, slot->index);
    shm_unlock(&t->lock);
    slot->counters = NULL;
}

static void slot_set(_Atomic uint64_t *counter, uint64_t value)
{
    atomic_store_explicit(counter, value, memory_order_relaxed);
}

static uint64_t slot_time_us(struct timeval t)
{
    return (uint64_t)t.tv_sec * 1000000u + (uint64_t)t.tv_usec;
}

/* Processor time and memory of this process (proc(5), statm). */
static void slot_measure(struct slot_counters *c)
{
    struct rusage used;
    unsigned long size, resident;
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    if (getrusage(RUSAGE_SELF, &used) == 0) {
        slot_set(&c->cpu_user_us, slot_time_us(used.ru_utime));
        slot_set(&c->cpu_system_us, slot_time_us(used.ru_stime));
    }
    FILE *f = fopen("/proc/self/statm", "re");
    if (f == NULL)
        return;
    if (fscanf(f, "%lu %lu", &size, &resident) == 2) {
        slot_set(&c->virtual_bytes, size * page);
        slot_set(&c->rss_bytes, resident * page);
    }
    (void)fclose(f);
}

void slot_heartbeat(struct slot *slot)
{
    _Atomic uint64_t *beat = &slot->shm->slots->cells[slot->index].heartbeat_ms;
    uint64_t last = counter_read(beat), now = clock_mono_ms();
    slot_set(beat, now);
    slot_count(&slot->counters->loop_beats, 1);
    if (last != 0 && now > last + SLOT_HEARTBEAT_MS)
        slot_count(&slot->counters->loop_late_ms, now - last - SLOT_HEARTBEAT_MS);
    slot_measure(slot->counters);
}

size_t slot_sweep(struct shm *shm)
{
    struct slot_table *t = slots_enter(shm);
    size_t freed = slots_sweep_locked(shm);
    shm_unlock(&t->lock);
    return freed;
}

bool slot_read(struct shm *shm, uint32_t index, struct slot_info *out)
{
    if (index >= slot_count_all(shm))
        return false;
    struct slot_table *t = slots_enter(shm);
    const struct slot_cell *cell = &t->cells[index];
    uint64_t beat = atomic_load(&cell->heartbeat_ms), start_time = atomic_load(&cell->start_time);
    *out = (struct slot_info){.kind = (enum slot_kind)atomic_load(&cell->kind),
                              .index = index,
                              .generation = atomic_load(&cell->generation),
                              .pid = atomic_load(&cell->pid)};
    shm_unlock(&t->lock);
    uint64_t now = clock_mono_ms();
    if (out->kind == SLOT_FREE)
        return true;
    out->heartbeat_age_ms = now > beat ? now - beat : 0;
    out->alive = process_alive(out->pid, start_time);
    out->age_ms = out->alive ? process_age_ms(start_time) : 0;
    return true;
}

size_t slot_workers(struct shm *shm, const struct slot *except, uint32_t *indexes, size_t max)
{
    size_t count = 0;
    for (uint32_t i = 0; i < shm->worker_slots && count < max; i++)
        if (atomic_load_explicit(&shm->slots->cells[i].kind, memory_order_acquire) == SLOT_WORKER &&
            (except == NULL || except->index != i))
            indexes[count++] = i;
    return count;
}

uint32_t slot_generation(struct shm *shm, uint32_t index)
{
    if (index >= slot_count_all(shm))
        return 0;
    struct slot_cell *cell = &shm->slots->cells[index];
    return atomic_load(&cell->kind) == SLOT_FREE ? 0 : atomic_load(&cell->generation);
}

uint64_t slot_parked(struct shm *shm, uint32_t index)
{
    if (index >= slot_count_all(shm))
        return 0;
    struct slot_cell *cell = &shm->slots->cells[index];
    /* Pairs with the worker's own order: it raises the gauge, then looks for work once more. */
    return atomic_load(&cell->kind) == SLOT_FREE ? 0 : atomic_load(&cell->counters.pop_parked);
}

void slot_counters_sum(struct shm *shm, struct slot_counters *out)
{
    struct slot_table *t = slots_enter(shm);
    const struct slot_counters *total = &t->total[atomic_load(&t->fold) & 1u];
#define COUNTER(field, prometheus, help)                                                           \
    atomic_store_explicit(&out->field, counter_read(&total->field), memory_order_relaxed);
#define GAUGE(field, prometheus, help) atomic_store_explicit(&out->field, 0, memory_order_relaxed);
#include "shm/counters.def"
#undef COUNTER
#undef GAUGE
    for (uint32_t i = 0; i < slot_count_all(shm); i++) {
        const struct slot_counters *c = &t->cells[i].counters;
#define COUNTER(field, prometheus, help) slot_count(&out->field, counter_read(&c->field));
#define GAUGE(field, prometheus, help)   slot_count(&out->field, counter_read(&c->field));
#include "shm/counters.def"
#undef COUNTER
#undef GAUGE
    }
    shm_unlock(&t->lock);
}
