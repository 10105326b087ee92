/* The segment itself: its name, safe creation, attaching, and the robust mutex. */
#include "shm/shm.h"

#include "base/table.h"
#include "shm/layout.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct shm_identity {
    char run_dir[PATH_MAX]; /* real path */
    char name[SHM_NAME_SIZE];
};

static bool shm_identify(const struct settings *settings, struct shm_identity *out, struct err *err)
{
    memset(out, 0, sizeof *out); /* all of run_dir goes into the segment */
    if (realpath(settings->run_dir, out->run_dir) == NULL)
        return err_set(err, "QUEEN_RUN_DIR=\"%s\": %s", settings->run_dir, strerror(errno));
    (void)snprintf(out->name, sizeof out->name, "/queen.%u.%016" PRIx64, (unsigned)geteuid(),
                   table_hash(slice_of(out->run_dir), (struct slice){0}));
    return true;
}

bool shm_name(const struct settings *settings, char out[SHM_NAME_SIZE], struct err *err)
{
    struct shm_identity id;
    if (!shm_identify(settings, &id, err))
        return false;
    memcpy(out, id.name, sizeof id.name);
    return true;
}

/* Whoever holds this file's lock may make, judge or remove the segment. The kernel drops the lock
 * when its holder dies, which no word inside the segment could tell. */
static int shm_guard(const struct shm_identity *id, struct err *err)
{
    char path[PATH_MAX + 16];
    (void)snprintf(path, sizeof path, "%s/shm.lock", id->run_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd < 0) {
        (void)err_set(err, "%s: %s", path, strerror(errno));
        return -1;
    }
    while (flock(fd, LOCK_EX) != 0) {
        if (errno == EINTR)
            continue;
        (void)err_set(err, "lock %s: %s", path, strerror(errno));
        (void)close(fd);
        return -1;
    }
    return fd;
}

static size_t shm_align(size_t n)
{
    return (n + SHM_ALIGN - 1) / SHM_ALIGN * SHM_ALIGN;
}

static struct shm_geometry shm_geometry_of(const struct settings *settings)
{
    return (struct shm_geometry){
        .layout_version = SHM_LAYOUT_VERSION,
        .counters = (uint32_t)(sizeof(struct slot_counters) / sizeof(_Atomic uint64_t)),
        .worker_slots = (uint32_t)settings->worker_slots,
        .registry_mb = (uint32_t)settings->ack_registry_mb,
        .dedup_mb = (uint32_t)settings->dedup_cache_mb,
    };
}

/* Where everything lies; all of it follows from the geometry. */
static void shm_plan(struct shm *shm, const struct shm_geometry *g)
{
    size_t slots_at = shm_align(sizeof(struct shm_header));
    size_t slots_size = sizeof(struct slot_table) +
                        ((size_t)g->worker_slots + SHM_SPECIAL_SLOTS) * sizeof(struct slot_cell);
    size_t registry_at = shm_align(slots_at + slots_size);
    shm->worker_slots = g->worker_slots;
    shm->shard_size = ((size_t)g->registry_mb << 20) / REGISTRY_SHARDS;
    shm->shard_entries = registry_shard_entries(shm->shard_size);
    size_t dedup_at = shm_align(registry_at + shm->shard_size * REGISTRY_SHARDS);
    dedup_plan(shm, (size_t)g->dedup_mb << 20);
    shm->size = dedup_at + ((size_t)g->dedup_mb << 20);
    if (shm->header != NULL) {
        shm->slots = (struct slot_table *)(void *)((char *)shm->header + slots_at);
        shm->registry = (char *)shm->header + registry_at;
        shm->dedup = (char *)shm->header + dedup_at;
    }
}

static bool shm_map(struct shm *shm, int fd, const struct shm_geometry *g, struct err *err)
{
    shm_plan(shm, g);
    void *p = mmap(NULL, shm->size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (p == MAP_FAILED)
        return err_set(err, "map %zu bytes: %s", shm->size, strerror(errno));
    shm->header = p;
    shm_plan(shm, g);
    return true;
}

/* Makes the segment; the caller holds the guard. Memory is reserved at once: a full /dev/shm is an
 * error here and not a SIGBUS in the middle of an ack. */
static bool shm_make(struct shm *shm, const struct shm_identity *id, const struct shm_geometry *g,
                     struct err *err)
{
    int fd = shm_open(id->name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_set(err, "make it: %s", strerror(errno));
    int rc = fchmod(fd, 0600) != 0 ? errno : 0; /* whatever the umask */
    shm_plan(shm, g);
    if (rc == 0)
        do
            rc = posix_fallocate(fd, 0, (off_t)shm->size);
        while (rc == EINTR);
    bool ok = rc == 0 ? shm_map(shm, fd, g, err)
                      : err_set(err, "reserve %zu bytes (is /dev/shm large enough?): %s", shm->size,
                                strerror(rc));
    (void)close(fd);
    if (!ok) {
        (void)shm_unlink(id->name);
        return false;
    }
    shm->header->geometry = *g;
    memcpy(shm->header->run_dir, id->run_dir, sizeof id->run_dir);
    slots_init(shm);
    registry_init(shm);
    dedup_init(shm);
    atomic_store_explicit(&shm->header->magic, SHM_MAGIC, memory_order_release);
    return true;
}

static bool shm_differs(struct err *err, const char *what, uint32_t there, uint32_t here)
{
    return err_set(err,
                   "it was made with %s %" PRIu32 ", this process has %" PRIu32
                   ": stop all processes of this instance and remove it, or start this one alike",
                   what, there, here);
}

static bool shm_judge(const struct shm_header *header, const struct shm_identity *id,
                      const struct shm_geometry *here, struct err *err)
{
    const struct shm_geometry *there = &header->geometry;
    if (there->layout_version != here->layout_version)
        return shm_differs(err, "layout version", there->layout_version, here->layout_version);
    if (there->counters != here->counters)
        return shm_differs(err, "counter count", there->counters, here->counters);
    if (there->worker_slots != here->worker_slots)
        return shm_differs(err, "QUEEN_WORKER_SLOTS", there->worker_slots, here->worker_slots);
    if (there->registry_mb != here->registry_mb)
        return shm_differs(err, "QUEEN_ACK_REGISTRY_MB", there->registry_mb, here->registry_mb);
    if (there->dedup_mb != here->dedup_mb)
        return shm_differs(err, "QUEEN_DEDUP_CACHE_MB", there->dedup_mb, here->dedup_mb);
    if (strncmp(header->run_dir, id->run_dir, sizeof header->run_dir) != 0)
        return err_set(err, "it belongs to the run directory %.200s", header->run_dir);
    return true;
}

enum shm_found { SHM_FOUND_NONE, SHM_FOUND_HALF, SHM_FOUND_READY, SHM_FOUND_REFUSED };

/* Looks at the segment of that name, and maps it when it is this instance's. */
static enum shm_found shm_find(struct shm *shm, const struct shm_identity *id,
                               const struct shm_geometry *g, struct err *err)
{
    int fd = shm_open(id->name, O_RDWR | O_CLOEXEC, 0);
    if (fd < 0 && errno == ENOENT)
        return SHM_FOUND_NONE;
    if (fd < 0) {
        (void)err_set(err, "open it: %s", strerror(errno));
        return SHM_FOUND_REFUSED;
    }
    struct stat st;
    enum shm_found found = SHM_FOUND_REFUSED;
    void *p = MAP_FAILED;
    if (fstat(fd, &st) != 0)
        (void)err_set(err, "stat: %s", strerror(errno));
    else if (st.st_uid != geteuid() || (st.st_mode & 077) != 0)
        (void)err_set(err, "owner %u, mode %o: it must belong to user %u alone",
                      (unsigned)st.st_uid, (unsigned)st.st_mode & 0777u, (unsigned)geteuid());
    else if (st.st_size == 0)
        found = SHM_FOUND_HALF;
    else if ((size_t)st.st_size < sizeof(struct shm_header))
        (void)err_set(err, "only %jd bytes: not a segment of this program", (intmax_t)st.st_size);
    else if ((p = mmap(NULL, sizeof(struct shm_header), PROT_READ, MAP_SHARED, fd, 0)) ==
             MAP_FAILED)
        (void)err_set(err, "map: %s", strerror(errno));
    if (p != MAP_FAILED) {
        const struct shm_header *header = p;
        uint64_t magic = atomic_load_explicit(&header->magic, memory_order_acquire);
        shm_plan(shm, g);
        if (magic == 0)
            found = SHM_FOUND_HALF;
        else if (magic != SHM_MAGIC)
            (void)err_set(err, "magic %016" PRIx64 ": not a segment of this program", magic);
        else if (shm_judge(header, id, g, err) &&
                 ((size_t)st.st_size == shm->size ||
                  err_set(err, "%jd bytes, expected %zu", (intmax_t)st.st_size, shm->size)) &&
                 shm_map(shm, fd, g, err))
            found = SHM_FOUND_READY;
        (void)munmap(p, sizeof(struct shm_header));
    }
    (void)close(fd);
    return found;
}

bool shm_attach(const struct settings *settings, struct shm **out, struct err *err)
{
    struct shm_identity id;
    struct err why = {0};
    if (!shm_identify(settings, &id, err))
        return false;
    int guard = shm_guard(&id, err);
    if (guard < 0)
        return false;
    struct shm_geometry g = shm_geometry_of(settings);
    struct shm *shm = mem_zalloc(sizeof *shm);
    bool ok = false;
    switch (shm_find(shm, &id, &g, &why)) {
    case SHM_FOUND_READY:
        ok = true;
        break;
    case SHM_FOUND_HALF:
        /* We hold the guard, so whoever began it is dead, and nobody could have attached. */
        (void)shm_unlink(id.name);
        ok = shm_make(shm, &id, &g, &why);
        break;
    case SHM_FOUND_NONE:
        ok = shm_make(shm, &id, &g, &why);
        break;
    case SHM_FOUND_REFUSED:
        break;
    }
    (void)close(guard);
    if (!ok) {
        free(shm);
        return err_set(err, "shared memory %s: %s (remove it with: rm /dev/shm%s)", id.name,
                       why.text, id.name);
    }
    *out = shm;
    return true;
}

void shm_detach(struct shm *shm)
{
    if (shm == NULL)
        return;
    (void)munmap(shm->header, shm->size);
    free(shm);
}

bool shm_remove(const struct settings *settings, struct err *err)
{
    struct shm_identity id;
    if (!shm_identify(settings, &id, err))
        return false;
    int guard = shm_guard(&id, err);
    if (guard < 0)
        return false;
    bool ok = shm_unlink(id.name) == 0 || errno == ENOENT ||
              err_set(err, "remove shared memory %s: %s", id.name, strerror(errno));
    (void)close(guard);
    return ok;
}

void shm_lock_init(pthread_mutex_t *m)
{
    pthread_mutexattr_t attr;
    if (pthread_mutexattr_init(&attr) != 0 ||
        pthread_mutexattr_setpshared(&attr, PTHREAD_PROCESS_SHARED) != 0 ||
        pthread_mutexattr_setrobust(&attr, PTHREAD_MUTEX_ROBUST) != 0 ||
        pthread_mutex_init(m, &attr) != 0)
        die("process-shared robust mutexes are not available");
    (void)pthread_mutexattr_destroy(&attr);
}

enum shm_lock_result shm_lock(pthread_mutex_t *m)
{
    int rc = pthread_mutex_lock(m);
    if (rc == 0)
        return SHM_LOCKED;
    /* Marked consistent before it is repaired: should this process die in the repair, the next one
     * gets EOWNERDEAD again. */
    if (rc != EOWNERDEAD || pthread_mutex_consistent(m) != 0)
        die("shared mutex: %s", strerror(rc));
    return SHM_OWNER_DIED;
}

void shm_unlock(pthread_mutex_t *m)
{
    int rc = pthread_mutex_unlock(m);
    if (rc != 0)
        die("unlock shared mutex: %s", strerror(rc));
}
