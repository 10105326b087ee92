/* The ack registry: shards of fixed-size entries in shared memory, each with its own robust mutex,
 * a hash index, and CLOCK replacement. */
#include "shm/registry.h"

#include "base/clock.h"
#include "base/logger.h"
#include "shm/layout.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum { REGISTRY_SWEEP_MS = 5000 };

#define ENTRY_NONE UINT32_MAX

/* XXH3-128 of partition id and group. An entry is handed out only for the right lease id as well,
 * so that two keys of one hash could at worst replace each other. */
struct registry_key {
    uint64_t low, high;
};

struct registry_entry {
    struct registry_key key;
    struct uuid lease_id;
    struct txn_hash fingerprint;
    int64_t batch_end;
    uint64_t expires_mono_ms;
    uint64_t queue;
    uint32_t message_count;
    int32_t conflated;
    uint32_t next; /* in its bucket, or in the free list; ENTRY_NONE = last */
    bool used;
    bool referenced; /* asked for since the CLOCK hand passed */
};

struct registry_shard {
    pthread_mutex_t lock;
    uint32_t entries;     /* in use */
    uint32_t fresh;       /* entries [fresh, capacity) have never been used since it was emptied */
    uint32_t free_head;   /* used before and free again */
    uint32_t hand;        /* CLOCK */
    uint64_t swept_at_ms; /* clock_mono_ms() */
    uint64_t inserts, hits, misses, evictions, expired, emptied;
    _Alignas(SHM_ALIGN) uint32_t buckets[]; /* capacity of them: 1 + first entry, 0 = none */
    /* then `capacity` entries */
};

static size_t shard_entries_at(uint32_t capacity)
{
    size_t at = sizeof(struct registry_shard) + capacity * sizeof(uint32_t);
    return (at + _Alignof(struct registry_entry) - 1) / _Alignof(struct registry_entry) *
           _Alignof(struct registry_entry);
}

uint32_t registry_shard_entries(size_t shard_size)
{
    return (
        uint32_t)((shard_size - sizeof(struct registry_shard) - _Alignof(struct registry_entry)) /
                  (sizeof(struct registry_entry) + sizeof(uint32_t)));
}

static struct registry_shard *registry_shard_at(const struct shm *shm, size_t i)
{
    return (struct registry_shard *)(void *)(shm->registry + i * shm->shard_size);
}

void registry_init(struct shm *shm)
{
    for (size_t i = 0; i < REGISTRY_SHARDS; i++) {
        struct registry_shard *s = registry_shard_at(shm, i);
        shm_lock_init(&s->lock);
        s->free_head = ENTRY_NONE;
    }
}

static struct registry_entry *shard_entries(const struct shm *shm, struct registry_shard *s)
{
    return (struct registry_entry *)(void *)((char *)s + shard_entries_at(shm->shard_entries));
}

/* A shard whose holder died may have a torn index: all of it goes. */
static void shard_empty(const struct shm *shm, struct registry_shard *s)
{
    memset(s->buckets, 0, shm->shard_entries * sizeof s->buckets[0]);
    s->entries = s->fresh = s->hand = 0;
    s->free_head = ENTRY_NONE;
    s->emptied++;
}

/* The shard of a key, locked. */
struct shard_visit {
    struct registry_shard *shard;
    struct registry_entry *entries;
    uint32_t capacity;
    bool emptied;
};

static struct shard_visit shard_enter(struct shm *shm, struct registry_shard *s)
{
    struct shard_visit v = {s, shard_entries(shm, s), shm->shard_entries, false};
    v.emptied = shm_lock(&s->lock) == SHM_OWNER_DIED;
    if (v.emptied)
        shard_empty(shm, s);
    return v;
}

static void shard_leave(struct shard_visit *v)
{
    shm_unlock(&v->shard->lock);
    if (v->emptied)
        logger_warn("ack-registry", "a process died in a shard of the registry: it was emptied");
}

static struct registry_key registry_key_of(const struct uuid *partition_id, struct slice group)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    (void)XXH3_128bits_reset(&state);
    (void)XXH3_128bits_update(&state, partition_id->bytes, sizeof partition_id->bytes);
    if (group.n > 0)
        (void)XXH3_128bits_update(&state, group.p, group.n);
    XXH128_hash_t h = XXH3_128bits_digest(&state);
    return (struct registry_key){h.low64, h.high64};
}

static struct shard_visit registry_enter(struct shm *shm, struct registry_key key)
{
    return shard_enter(shm, registry_shard_at(shm, key.low % REGISTRY_SHARDS));
}

static uint32_t *shard_bucket(const struct shard_visit *v, struct registry_key key)
{
    return &v->shard->buckets[key.high % v->capacity];
}

static struct registry_entry *shard_find(const struct shard_visit *v, struct registry_key key)
{
    uint32_t first = *shard_bucket(v, key);
    for (uint32_t i = first == 0 ? ENTRY_NONE : first - 1; i != ENTRY_NONE; i = v->entries[i].next)
        if (v->entries[i].key.low == key.low && v->entries[i].key.high == key.high)
            return &v->entries[i];
    return NULL;
}

static void shard_remove(struct shard_visit *v, struct registry_entry *e)
{
    uint32_t index = (uint32_t)(e - v->entries);
    uint32_t *bucket = shard_bucket(v, e->key);
    if (*bucket == index + 1) {
        *bucket = e->next == ENTRY_NONE ? 0 : e->next + 1;
    } else {
        struct registry_entry *before = &v->entries[*bucket - 1];
        while (before->next != index)
            before = &v->entries[before->next];
        before->next = e->next;
    }
    e->used = false;
    e->next = v->shard->free_head;
    v->shard->free_head = index;
    v->shard->entries--;
}

static void shard_sweep(struct shard_visit *v, uint64_t now_ms)
{
    if (now_ms < v->shard->swept_at_ms + REGISTRY_SWEEP_MS)
        return;
    v->shard->swept_at_ms = now_ms;
    for (uint32_t i = 0; i < v->shard->fresh; i++) {
        if (v->entries[i].used && v->entries[i].expires_mono_ms <= now_ms) {
            shard_remove(v, &v->entries[i]);
            v->shard->expired++;
        }
    }
}

/* Every entry is in use: the hand goes round until it meets one that nobody asked for. */
static void shard_evict(struct shard_visit *v)
{
    for (;;) {
        struct registry_entry *e = &v->entries[v->shard->hand];
        v->shard->hand = (v->shard->hand + 1) % v->capacity;
        if (!e->referenced) {
            shard_remove(v, e);
            v->shard->evictions++;
            return;
        }
        e->referenced = false;
    }
}

static struct registry_entry *shard_insert(struct shard_visit *v, struct registry_key key)
{
    struct registry_shard *s = v->shard;
    if (s->free_head == ENTRY_NONE && s->fresh == v->capacity)
        shard_evict(v);
    uint32_t index = s->free_head;
    if (index != ENTRY_NONE)
        s->free_head = v->entries[index].next;
    else
        index = s->fresh++;
    struct registry_entry *e = &v->entries[index];
    uint32_t *bucket = shard_bucket(v, key);
    e->key = key;
    e->used = true;
    e->referenced = false;
    e->next = *bucket == 0 ? ENTRY_NONE : *bucket - 1;
    *bucket = index + 1;
    s->entries++;
    return e;
}

void registry_put(struct shm *shm, const struct uuid *partition_id, struct slice group,
                  const struct registry_batch *batch)
{
    struct registry_key key = registry_key_of(partition_id, group);
    uint64_t now_ms = clock_mono_ms();
    struct shard_visit v = registry_enter(shm, key);
    shard_sweep(&v, now_ms);
    struct registry_entry *e = shard_find(&v, key);
    if (e == NULL)
        e = shard_insert(&v, key);
    e->lease_id = batch->lease_id;
    e->fingerprint = batch->fingerprint;
    e->batch_end = batch->batch_end;
    e->expires_mono_ms = batch->expires_mono_ms;
    e->queue = batch->queue;
    e->message_count = batch->message_count;
    e->conflated = batch->conflated;
    v.shard->inserts++;
    shard_leave(&v);
}

bool registry_take(struct shm *shm, const struct uuid *partition_id, struct slice group,
                   const struct uuid *lease_id, const struct txn_hash *fingerprint,
                   struct registry_batch *out)
{
    struct registry_key key = registry_key_of(partition_id, group);
    uint64_t now_ms = clock_mono_ms();
    struct shard_visit v = registry_enter(shm, key);
    struct registry_entry *e = shard_find(&v, key);
    if (e != NULL && e->expires_mono_ms <= now_ms) {
        shard_remove(&v, e);
        v.shard->expired++;
        e = NULL;
    }
    bool hit = false;
    if (e != NULL && uuid_equal(&e->lease_id, lease_id)) {
        e->referenced = true;
        hit = memcmp(&e->fingerprint, fingerprint, sizeof *fingerprint) == 0;
    }
    if (hit) {
        *out = (struct registry_batch){.lease_id = e->lease_id,
                                       .batch_end = e->batch_end,
                                       .message_count = e->message_count,
                                       .conflated = e->conflated,
                                       .fingerprint = e->fingerprint,
                                       .expires_mono_ms = e->expires_mono_ms,
                                       .queue = e->queue};
        shard_remove(&v, e);
        v.shard->hits++;
    } else {
        v.shard->misses++;
    }
    shard_leave(&v);
    return hit;
}

void registry_drop(struct shm *shm, const struct uuid *partition_id, struct slice group,
                   const struct uuid *lease_id)
{
    struct registry_key key = registry_key_of(partition_id, group);
    struct shard_visit v = registry_enter(shm, key);
    struct registry_entry *e = shard_find(&v, key);
    if (e != NULL && (lease_id == NULL || uuid_equal(&e->lease_id, lease_id)))
        shard_remove(&v, e);
    shard_leave(&v);
}

void registry_stats(struct shm *shm, struct registry_stats *out)
{
    *out = (struct registry_stats){.capacity = (uint64_t)shm->shard_entries * REGISTRY_SHARDS};
    for (size_t i = 0; i < REGISTRY_SHARDS; i++) {
        struct shard_visit v = shard_enter(shm, registry_shard_at(shm, i));
        out->entries += v.shard->entries;
        out->inserts += v.shard->inserts;
        out->hits += v.shard->hits;
        out->misses += v.shard->misses;
        out->evictions += v.shard->evictions;
        out->expired += v.shard->expired;
        out->shards_emptied += v.shard->emptied;
        shard_leave(&v);
    }
}
