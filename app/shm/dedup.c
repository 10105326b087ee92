/* The dedup memory: a set of 32-bit hash prints in two generations, shared by all partitions and
 * written without locks, and per partition the range of offsets whose hashes are all in the set.
 *
 * Why it is sound. A print is stored before the range grows over its offset. Prints are dropped a
 * generation at a time: first `oldest` says that the generation is dead, then its table is cleared,
 * then it becomes the new current one; a partition remembers the highest offset it stored in each
 * generation, and its range starts above what is dead. An ask that sees `oldest` change while it
 * looks does not vouch. An offset that this host did not write is a gap that a range never spans. A
 * print that belongs to another hash can only refuse a vouch. A process that dies in the middle
 * leaves prints too many or a range too short. */
#include "shm/dedup.h"

#include "base/logger.h"
#include "shm/layout.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

enum {
    DEDUP_GENERATIONS = 2,
    DEDUP_WAYS = 4,       /* partitions of one set: the one noted longest ago makes room */
    DEDUP_LATE = 4,       /* commits of other workers that are told of out of order */
    DEDUP_PART_SHARE = 8, /* one part in eight of the memory holds partitions */
    DEDUP_PROBES = 512    /* places looked at for one print: a table that is fuller is full */
};

struct dedup_range {
    int64_t base, end; /* inclusive; base > end = unused */
};

struct dedup_partition {
    uint64_t low, high; /* of the names' hash; both 0 = unused */
    struct uuid partition_id;
    int64_t from, upto;
    uint64_t noted;                         /* shard's tick of the last note */
    uint64_t generation[DEDUP_GENERATIONS]; /* which the marks below belong to; 0 = none */
    int64_t highest[DEDUP_GENERATIONS];     /* offset stored in that generation */
    struct dedup_range late[DEDUP_LATE];
};

struct dedup_shard {
    pthread_mutex_t lock;
    uint64_t tick;
    uint64_t asked, vouched, noted, emptied;
    _Alignas(SHM_ALIGN) struct dedup_partition partitions[];
};

struct dedup_set {
    pthread_mutex_t rotation;
    _Atomic uint64_t current, oldest; /* generations; current starts at 1 */
    _Atomic uint64_t used;            /* prints in the current one */
    _Atomic uint64_t rotations;
    _Alignas(SHM_ALIGN) _Atomic uint32_t prints[]; /* DEDUP_GENERATIONS tables; 0 = free */
};

static struct dedup_shard *dedup_shard_at(const struct shm *shm, size_t i)
{
    return (struct dedup_shard *)(void *)(shm->dedup + i * shm->dedup_shard_size);
}

static struct dedup_set *dedup_set_of(const struct shm *shm)
{
    return (struct dedup_set *)(void *)(shm->dedup + DEDUP_SHARDS * shm->dedup_shard_size);
}

void dedup_plan(struct shm *shm, size_t bytes)
{
    size_t room = bytes / DEDUP_PART_SHARE / DEDUP_SHARDS / SHM_ALIGN * SHM_ALIGN;
    shm->dedup_shard_size = room;
    shm->dedup_partitions =
        (uint32_t)((room - sizeof(struct dedup_shard)) / sizeof(struct dedup_partition));
    shm->dedup_partitions -= shm->dedup_partitions % DEDUP_WAYS;
    size_t left = bytes - room * DEDUP_SHARDS - sizeof(struct dedup_set);
    size_t prints = left / DEDUP_GENERATIONS / sizeof(uint32_t);
    shm->dedup_prints = prints > UINT32_MAX ? UINT32_MAX : (uint32_t)prints;
}

void dedup_init(struct shm *shm)
{
    struct dedup_set *set = dedup_set_of(shm);
    for (size_t i = 0; i < DEDUP_SHARDS; i++)
        shm_lock_init(&dedup_shard_at(shm, i)->lock);
    shm_lock_init(&set->rotation);
    atomic_store(&set->current, 1);
    atomic_store(&set->oldest, 1);
}

/* --- the prints --- */

static _Atomic uint32_t *dedup_table(const struct shm *shm, uint64_t generation)
{
    return dedup_set_of(shm)->prints + generation % DEDUP_GENERATIONS * (size_t)shm->dedup_prints;
}

/* The bits of one hash on the partition of that key. */
static uint64_t dedup_bits(uint64_t key, const struct txn_hash *hash)
{
    uint64_t a;
    memcpy(&a, hash->bytes, sizeof a);
    return XXH3_64bits_withSeed(&a, sizeof a, key);
}

static uint32_t dedup_print(uint64_t bits)
{
    uint32_t print = (uint32_t)(bits >> 32);
    return print == 0 ? 1 : print;
}

static uint32_t dedup_place(const struct shm *shm, uint64_t bits)
{
    return (uint32_t)((uint64_t)(uint32_t)bits * shm->dedup_prints >> 32);
}

static bool dedup_table_has(const struct shm *shm, uint64_t generation, uint64_t bits)
{
    const _Atomic uint32_t *table = dedup_table(shm, generation);
    uint32_t print = dedup_print(bits), at = dedup_place(shm, bits), there;
    for (int i = 0; i < DEDUP_PROBES; i++) {
        there = atomic_load_explicit(&table[at], memory_order_relaxed);
        if (there == 0)
            return false;
        if (there == print)
            return true;
        at = at + 1 == shm->dedup_prints ? 0 : at + 1;
    }
    return true; /* perhaps */
}

/* False: no room near its place. */
static bool dedup_store(const struct shm *shm, uint64_t generation, uint64_t bits)
{
    _Atomic uint32_t *table = dedup_table(shm, generation);
    uint32_t print = dedup_print(bits), at = dedup_place(shm, bits);
    for (int i = 0; i < DEDUP_PROBES; i++, at = at + 1 == shm->dedup_prints ? 0 : at + 1) {
        uint32_t there = 0;
        if (atomic_compare_exchange_strong(&table[at], &there, print)) {
            atomic_fetch_add_explicit(&dedup_set_of(shm)->used, 1, memory_order_relaxed);
            return true;
        }
        if (there == print)
            return true;
    }
    return false;
}

/* Starts the next generation when the current one is half full. A rotation that died half-way is
 * done again by whoever comes next: every step may be repeated. */
static void dedup_make_room(struct shm *shm)
{
    struct dedup_set *set = dedup_set_of(shm);
    if (atomic_load(&set->used) < shm->dedup_prints / 2)
        return;
    if (shm_lock(&set->rotation) == SHM_OWNER_DIED)
        logger_warn("dedup", "a process died while it dropped old hashes: done again");
    if (atomic_load(&set->used) >= shm->dedup_prints / 2) {
        uint64_t next = atomic_load(&set->current) + 1;
        _Atomic uint32_t *table = dedup_table(shm, next);
        atomic_store(&set->oldest, next - DEDUP_GENERATIONS + 1);
        atomic_thread_fence(memory_order_release); /* ... before the first print is cleared */
        for (uint32_t i = 0; i < shm->dedup_prints; i++)
            atomic_store_explicit(&table[i], 0, memory_order_relaxed);
        atomic_store(&set->used, 0);
        atomic_store(&set->current, next);
        atomic_fetch_add(&set->rotations, 1);
    }
    shm_unlock(&set->rotation);
}

/* --- the partitions --- */

struct dedup_visit {
    struct shm *shm;
    struct dedup_shard *shard;
    uint64_t low, high;
    bool emptied;
};

static void dedup_key(struct slice queue, struct slice partition, uint64_t *low, uint64_t *high)
{
    XXH3_state_t state;
    XXH3_INITSTATE(&state);
    (void)XXH3_128bits_reset_withSeed(&state, queue.n);
    (void)XXH3_128bits_update(&state, queue.p, queue.n);
    (void)XXH3_128bits_update(&state, partition.p, partition.n);
    XXH128_hash_t h = XXH3_128bits_digest(&state);
    *low = h.low64 == 0 ? 1 : h.low64; /* never the unused mark */
    *high = h.high64;
}

static void dedup_shard_empty(const struct shm *shm, struct dedup_shard *s)
{
    memset(s->partitions, 0, shm->dedup_partitions * sizeof s->partitions[0]);
    s->emptied++;
}

static struct dedup_visit dedup_enter(struct shm *shm, uint64_t low, uint64_t high)
{
    struct dedup_visit v = {shm, dedup_shard_at(shm, low % DEDUP_SHARDS), low, high, false};
    v.emptied = shm_lock(&v.shard->lock) == SHM_OWNER_DIED;
    if (v.emptied)
        dedup_shard_empty(shm, v.shard);
    return v;
}

static void dedup_leave(const struct dedup_visit *v)
{
    shm_unlock(&v->shard->lock);
    if (v->emptied)
        logger_warn("dedup", "a process died in a shard of the dedup memory: it was emptied");
}

/* The partition's entry, or the one that makes room for it. */
static struct dedup_partition *dedup_find(const struct dedup_visit *v, bool *found)
{
    uint32_t sets = v->shm->dedup_partitions / DEDUP_WAYS;
    struct dedup_partition *set = v->shard->partitions + v->high % sets * DEDUP_WAYS;
    struct dedup_partition *oldest = set;
    *found = false;
    for (size_t i = 0; i < DEDUP_WAYS; i++) {
        if (set[i].low == v->low && set[i].high == v->high) {
            *found = true;
            return &set[i];
        }
        if (set[i].noted < oldest->noted)
            oldest = &set[i];
    }
    return oldest;
}

/* What was stored in a generation that is dead is no longer vouched for. */
static void dedup_forget_dead(struct dedup_partition *p, uint64_t oldest)
{
    for (size_t i = 0; i < DEDUP_GENERATIONS; i++) {
        if (p->generation[i] == 0 || p->generation[i] >= oldest)
            continue;
        if (p->highest[i] + 1 > p->from)
            p->from = p->highest[i] + 1;
        p->generation[i] = 0;
    }
}

struct dedup_vouch dedup_ask(struct shm *shm, struct slice queue, struct slice partition,
                             const struct txn_hash *hashes, size_t count)
{
    struct dedup_set *set = dedup_set_of(shm);
    struct dedup_vouch vouch = {.from = 0, .upto = -1};
    uint64_t low, high;
    dedup_key(queue, partition, &low, &high);
    uint64_t oldest = atomic_load(&set->oldest);
    struct dedup_visit v = dedup_enter(shm, low, high);
    bool found;
    struct dedup_partition *p = dedup_find(&v, &found);
    v.shard->asked++;
    if (found) {
        dedup_forget_dead(p, oldest);
        if (p->from <= p->upto)
            vouch = (struct dedup_vouch){p->partition_id, p->from, p->upto};
    }
    dedup_leave(&v);
    if (vouch.from > vouch.upto)
        return vouch;
    bool known = false;
    uint64_t current = atomic_load(&set->current);
    for (size_t i = 0; !known && i < count; i++) {
        uint64_t bits = dedup_bits(high, &hashes[i]);
        for (uint64_t g = oldest; !known && g <= current; g++)
            known = dedup_table_has(shm, g, bits);
    }
    atomic_thread_fence(memory_order_acquire); /* the looks come before the second load of oldest */
    if (known || atomic_load(&set->oldest) != oldest)
        vouch = (struct dedup_vouch){.from = 0, .upto = -1};
    else
        v.shard->vouched++; /* a figure for people: races may lose one */
    return vouch;
}

/* Starts over at this commit: an older range, with a gap behind it, is given up. */
static void dedup_restart(struct dedup_partition *p, int64_t base, int64_t end)
{
    p->from = base;
    p->upto = end;
    for (size_t i = 0; i < DEDUP_LATE; i++)
        p->late[i] = (struct dedup_range){0, -1};
}

static void dedup_extend(struct dedup_partition *p, int64_t base, int64_t end)
{
    size_t free_at = DEDUP_LATE;
    if (end < p->from)
        return; /* told of late, and given up already */
    if (base <= p->upto) {
        /* These offsets were given before: a failover lost commits, and what we know is of another
         * history. */
        dedup_restart(p, base, end);
        return;
    }
    if (base <= p->upto + 1) {
        if (end > p->upto)
            p->upto = end;
        /* Commits told of earlier that now follow without a gap. */
        for (bool moved = true; moved;) {
            moved = false;
            for (size_t i = 0; i < DEDUP_LATE; i++) {
                struct dedup_range *l = &p->late[i];
                if (l->base > l->end || l->base > p->upto + 1)
                    continue;
                if (l->end > p->upto)
                    p->upto = l->end;
                *l = (struct dedup_range){0, -1};
                moved = true;
            }
        }
        return;
    }
    for (size_t i = 0; i < DEDUP_LATE; i++)
        if (p->late[i].base > p->late[i].end)
            free_at = i;
    if (free_at < DEDUP_LATE)
        p->late[free_at] = (struct dedup_range){base, end};
    else
        dedup_restart(p, base, end);
}

void dedup_note(struct shm *shm, struct slice queue, struct slice partition,
                const struct uuid *partition_id, int64_t base, const struct txn_hash *hashes,
                size_t count)
{
    uint64_t low, high;
    int64_t end = base + (int64_t)count - 1;
    dedup_key(queue, partition, &low, &high);
    dedup_make_room(shm);
    /* Read before storing: were it older than where a print lands, the range only shrinks sooner.
     */
    uint64_t current = atomic_load(&dedup_set_of(shm)->current);
    bool stored = count <= shm->dedup_prints / 8;
    for (size_t i = 0; stored && i < count; i++)
        stored = dedup_store(shm, current, dedup_bits(high, &hashes[i]));

    struct dedup_visit v = dedup_enter(shm, low, high);
    bool found;
    struct dedup_partition *p = dedup_find(&v, &found);
    v.shard->noted++;
    if (!found || !uuid_equal(&p->partition_id, partition_id)) {
        *p = (struct dedup_partition){.low = low, .high = high, .partition_id = *partition_id};
        dedup_restart(p, base, base - 1);
    }
    p->noted = ++v.shard->tick;
    uint64_t oldest = atomic_load(&dedup_set_of(shm)->oldest);
    dedup_forget_dead(p, oldest);
    size_t mark = current % DEDUP_GENERATIONS;
    if (!stored || current < oldest ||
        (p->generation[mark] != 0 && p->generation[mark] != current)) {
        /* There was no room, or rotations overtook this note and its prints may be cleared. */
        dedup_restart(p, end + 1, end);
    } else {
        if (p->generation[mark] == 0 || end > p->highest[mark])
            p->highest[mark] = end;
        p->generation[mark] = current;
        dedup_extend(p, base, end);
    }
    dedup_leave(&v);
}

void dedup_stats(struct shm *shm, struct dedup_stats *out)
{
    *out = (struct dedup_stats){.rotations = atomic_load(&dedup_set_of(shm)->rotations)};
    for (size_t i = 0; i < DEDUP_SHARDS; i++) {
        struct dedup_shard *s = dedup_shard_at(shm, i);
        if (shm_lock(&s->lock) == SHM_OWNER_DIED)
            dedup_shard_empty(shm, s);
        out->asked += s->asked;
        out->vouched += s->vouched;
        out->noted += s->noted;
        out->shards_emptied += s->emptied;
        shm_unlock(&s->lock);
    }
}
