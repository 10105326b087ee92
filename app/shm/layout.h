/* How the shared memory is laid out. Private to app/shm; see README.md. */
#ifndef SHM_LAYOUT_H
#define SHM_LAYOUT_H

#include "shm/shm.h"
#include "shm/slots.h"

#include <limits.h>

/* "QUEENSHM": stored last when a segment is made, so a half-made one has 0 here. */
#define SHM_MAGIC UINT64_C(0x515545454e53484d)
/* Raise it with every change of a struct in the segment. */
#define SHM_LAYOUT_VERSION 3u

#define SHM_ALIGN 128u /* two cache lines: the processor fetches them in pairs */

enum {
    SHM_SPECIAL_SLOTS = 2, /* behind the workers' slots: the flusher's and the keeper's */
    REGISTRY_SHARDS = 64,
    DEDUP_SHARDS = 64,
};

struct slot_cell {
    /* Written under the table's lock, read without it. `kind` is written last on claim. */
    _Atomic uint32_t kind; /* enum slot_kind */
    _Atomic int32_t pid;
    _Atomic uint32_t generation;
    _Atomic uint64_t start_time;   /* of the process, in clock ticks since boot: see process.h */
    _Atomic uint64_t heartbeat_ms; /* clock_mono_ms() */
    _Alignas(SHM_ALIGN) struct slot_counters counters;
};

/* What dead owners have counted. There are two copies, so that adding a slot's counters to them
 * is one atomic store of `fold`: low bit = which copy is valid; the rest = 1 + index of the slot
 * whose counters that copy already holds but which is not cleared yet, 0 = none. */
struct slot_table {
    pthread_mutex_t lock;
    uint32_t next_generation; /* never 0 */
    _Atomic uint32_t fold;
    struct slot_counters total[2];
    _Alignas(SHM_ALIGN) struct slot_cell cells[]; /* worker_slots + SHM_SPECIAL_SLOTS */
};

struct registry_shard; /* registry.c */

/* Everything that must be the same in all processes that attach. */
struct shm_geometry {
    uint32_t layout_version;
    uint32_t counters; /* number of them: counters.def may grow without a new layout version */
    uint32_t worker_slots;
    uint32_t registry_mb;
    uint32_t dedup_mb;
};

struct shm_header {
    _Atomic uint64_t magic;
    struct shm_geometry geometry;
    _Atomic uint64_t maintenance; /* maintenance.h */
    char run_dir[PATH_MAX];
    _Alignas(SHM_ALIGN) char end[];
};

struct shm {
    struct shm_header *header; /* start of the mapping */
    size_t size;
    struct slot_table *slots;
    uint32_t worker_slots;
    char *registry;         /* REGISTRY_SHARDS shards of shard_size bytes */
    size_t shard_size;      /* bytes, multiple of SHM_ALIGN */
    uint32_t shard_entries; /* entries of one shard */
    char *dedup;            /* DEDUP_SHARDS shards of dedup_shard_size bytes, then the prints */
    size_t dedup_shard_size;
    uint32_t dedup_partitions; /* of one shard */
    uint32_t dedup_prints;     /* of one generation */
};

/* Fills fresh, zeroed memory. */
void slots_init(struct shm *shm);
void registry_init(struct shm *shm);
void dedup_init(struct shm *shm);
/* Divides that many bytes: sets the dedup_ fields of the view but for the address. */
void dedup_plan(struct shm *shm, size_t bytes);
/* How many entries fit into a shard of that many bytes. */
uint32_t registry_shard_entries(size_t shard_size);

#endif
