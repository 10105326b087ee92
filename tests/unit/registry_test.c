/* The ack registry: what is a hit, every way an entry ends, a holder that dies, many at once. */
#include "base/clock.h"
#include "shm/layout.h"
#include "shm/registry.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

static char run_dir[64];
static struct settings settings;
static struct shm *shm;
static const struct slice GROUP = {"billing", 7};

static int set_up(void **state)
{
    struct err err;
    (void)state;
    (void)strcpy(run_dir, "/tmp/queen-registry-test-XXXXXX");
    assert_non_null(mkdtemp(run_dir));
    assert_true(settings_load(&settings, &err));
    settings.run_dir = run_dir;
    settings.ack_registry_mb = 1;
    settings.worker_slots = 4;
    assert_true(shm_attach(&settings, &shm, &err));
    return 0;
}

static int tear_down(void **state)
{
    struct err err;
    char path[128];
    (void)state;
    shm_detach(shm);
    assert_true(shm_remove(&settings, &err));
    (void)snprintf(path, sizeof path, "%s/shm.lock", run_dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(run_dir), 0);
    return 0;
}

static struct uuid uuid_number(uint64_t n)
{
    struct uuid u = {{0}};
    memcpy(u.bytes, &n, sizeof n);
    return u;
}

static struct txn_hash print_number(uint64_t n)
{
    struct txn_hash h = {{0}};
    memcpy(h.bytes + 8, &n, sizeof n);
    return h;
}

static struct registry_batch batch_number(uint64_t n)
{
    return (struct registry_batch){.lease_id = uuid_number(n),
                                   .batch_end = (int64_t)n * 10,
                                   .message_count = (uint32_t)n,
                                   .conflated = (int32_t)n - 1,
                                   .fingerprint = print_number(n),
                                   .expires_mono_ms = clock_mono_ms() + 3600000,
                                   .queue = n + 5};
}

/* The entry of partition p with batch b. */
static void put(uint64_t p, uint64_t b)
{
    struct uuid id = uuid_number(p);
    struct registry_batch batch = batch_number(b);
    registry_put(shm, &id, GROUP, &batch);
}

static bool take(uint64_t p, struct slice group, uint64_t lease, uint64_t fingerprint)
{
    struct uuid id = uuid_number(p), lease_id = uuid_number(lease);
    struct txn_hash print = print_number(fingerprint);
    struct registry_batch out;
    if (!registry_take(shm, &id, group, &lease_id, &print, &out))
        return false;
    assert_int_equal(out.batch_end, lease * 10);
    assert_int_equal(out.message_count, lease);
    assert_int_equal(out.conflated, lease - 1);
    assert_int_equal(out.queue, lease + 5);
    assert_true(uuid_equal(&out.lease_id, &lease_id));
    assert_memory_equal(&out.fingerprint, &print, sizeof print);
    return true;
}

static void drop(uint64_t p, struct slice group, const struct uuid *lease)
{
    struct uuid id = uuid_number(p);
    registry_drop(shm, &id, group, lease);
}

static struct registry_stats stats(void)
{
    struct registry_stats s;
    registry_stats(shm, &s);
    return s;
}

static void test_hit_needs_key_lease_and_set(void **state)
{
    (void)state;
    put(1, 9);
    assert_false(take(2, GROUP, 9, 9));
    assert_false(take(1, SLICE_LITERAL("billinG"), 9, 9));
    assert_false(take(1, (struct slice){0}, 9, 9));
    assert_false(take(1, GROUP, 8, 9));
    assert_false(take(1, GROUP, 9, 8));
    assert_int_equal(stats().entries, 1);
    assert_true(take(1, GROUP, 9, 9));
    struct registry_stats s = stats();
    assert_int_equal(s.entries, 0);
    assert_int_equal(s.hits, 1);
    assert_int_equal(s.misses, 5);
    assert_int_equal(s.inserts, 1);
}

static void test_ends_by_hit(void **state)
{
    (void)state;
    put(1, 9);
    assert_true(take(1, GROUP, 9, 9));
    assert_false(take(1, GROUP, 9, 9));
}

static void test_ends_by_drop(void **state)
{
    (void)state;
    struct uuid nine = uuid_number(9), eight = uuid_number(8);
    put(1, 9);
    drop(1, GROUP, &eight); /* another lease's outcome leaves it alone */
    drop(2, GROUP, &nine);
    drop(1, SLICE_LITERAL("other"), NULL);
    assert_int_equal(stats().entries, 1);
    drop(1, GROUP, &nine);
    assert_int_equal(stats().entries, 0);
    assert_false(take(1, GROUP, 9, 9));
    put(1, 9);
    drop(1, GROUP, NULL);
    assert_false(take(1, GROUP, 9, 9));
}

static void test_ends_by_replacement(void **state)
{
    (void)state;
    put(1, 9);
    put(1, 10);
    assert_int_equal(stats().entries, 1);
    assert_false(take(1, GROUP, 9, 9));
    assert_true(take(1, GROUP, 10, 10));
}

static void put_expired(uint64_t p)
{
    struct uuid id = uuid_number(p);
    struct registry_batch batch = batch_number(p);
    batch.expires_mono_ms = clock_mono_ms();
    registry_put(shm, &id, GROUP, &batch);
}

static void test_ends_by_expiry(void **state)
{
    (void)state;
    put_expired(1);
    assert_int_equal(stats().entries, 1);
    assert_false(take(1, GROUP, 1, 1));
    assert_int_equal(stats().entries, 0);
    assert_int_equal(stats().expired, 1);
}

/* A sweep removes the expired ones of a shard and no others; it comes five seconds after the last.
 */
static void test_sweep_on_insert(void **state)
{
    (void)state;
    enum { COUNT = 2000 };
    for (uint64_t i = 0; i < COUNT; i++)
        put(i, i); /* also lets every shard sweep now, so that none does in the next loop */
    for (uint64_t i = COUNT; i < 2 * COUNT; i++)
        put_expired(i);
    assert_int_equal(stats().entries, 2 * COUNT);
    assert_int_equal(stats().expired, 0);
    for (uint64_t i = COUNT; i < COUNT + COUNT / 4; i++)
        drop(i, GROUP, NULL); /* the sweep meets their free entries */
    struct timespec wait = {.tv_sec = 5, .tv_nsec = 20000000};
    (void)nanosleep(&wait, NULL);
    for (uint64_t i = 0; i < COUNT; i++)
        put(i, i);
    assert_int_equal(stats().expired, COUNT - COUNT / 4);
    assert_int_equal(stats().entries, COUNT);
    for (uint64_t i = 0; i < COUNT; i++)
        assert_true(take(i, GROUP, i, i));
}

static void test_ends_by_eviction(void **state)
{
    (void)state;
    uint64_t capacity = stats().capacity, count = capacity * 3, found = 0, newest = 0;
    assert_in_range(capacity, 64 * 100, 64 * 200);
    for (uint64_t i = 0; i < count; i++)
        put(i, i);
    struct registry_stats s = stats();
    assert_int_equal(s.entries, capacity);
    assert_int_equal(s.evictions, count - capacity);
    /* Nobody asked for any, so the oldest of each shard went: what is left is the newest part. */
    for (uint64_t i = 0; i < count; i++) {
        if (take(i, GROUP, i, i)) {
            found++;
            newest += i >= count - capacity * 3 / 2;
        }
    }
    assert_int_equal(found, capacity);
    assert_int_equal(newest, capacity);
    assert_int_equal(stats().entries, 0);
    for (uint64_t i = 0; i < count; i++) /* freed entries are usable again */
        put(i, i);
    assert_int_equal(stats().entries, capacity);
}

/* CLOCK: an entry that was asked for outlives its neighbours by one round. */
static void test_eviction_spares_what_was_asked_for(void **state)
{
    (void)state;
    uint64_t capacity = stats().capacity;
    put(7, 7);
    assert_false(take(7, GROUP, 7, 1)); /* a partial ack asks for it */
    for (uint64_t i = 100; i < 100 + capacity * 3 / 2; i++)
        put(i, i);
    assert_true(stats().evictions > 0);
    assert_true(take(7, GROUP, 7, 7));
}

/* A process is killed while it holds a shard's lock: that shard is emptied, the others go on. */
static void test_ends_with_its_shard(void **state)
{
    (void)state;
    enum { COUNT = 1000 };
    for (uint64_t i = 0; i < COUNT; i++)
        put(i, i);
    int held[2];
    char c;
    assert_int_equal(pipe(held), 0);
    pid_t pid = fork();
    if (pid == 0) {
        /* A shard begins with its lock. */
        if (shm_lock((pthread_mutex_t *)(void *)shm->registry) != SHM_LOCKED)
            _exit(1);
        memset(shm->registry + sizeof(pthread_mutex_t), 0xa5, 300); /* died in mid-write */
        if (write(held[1], "x", 1) == 1)
            (void)pause();
        _exit(1);
    }
    assert_int_equal(read(held[0], &c, 1), 1);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    (void)close(held[0]);
    (void)close(held[1]);
    uint64_t found = 0;
    for (uint64_t i = 0; i < COUNT; i++)
        found += take(i, GROUP, i, i);
    assert_in_range(found, COUNT * 3 / 4, COUNT - 1);
    assert_int_equal(stats().entries, 0);
    uint64_t again = 0;
    for (uint64_t i = 0; i < COUNT; i++) { /* the emptied shard serves again */
        put(i, i);
        again += take(i, GROUP, i, i);
    }
    assert_int_equal(again, COUNT);
}

enum { CROWD = 4, CROWD_ROUNDS = 20000, CROWD_KEYS = 500 };

/* Puts, takes and drops on keys shared with all others. What is taken must be whole: take() checks
 * that every field belongs to the same batch. */
static void crowd(uint64_t seed)
{
    uint64_t x = seed * 2654435761u + 1;
    for (int i = 0; i < CROWD_ROUNDS; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        uint64_t key = (x >> 33) % CROWD_KEYS, batch = 1 + (x >> 50) % 4;
        switch ((x >> 40) % 8) {
        case 0:
            drop(key, GROUP, NULL);
            break;
        case 1:
        case 2:
        case 3:
            put(key, batch);
            break;
        default:
            (void)take(key, GROUP, batch, batch);
        }
    }
}

static void test_several_processes(void **state)
{
    (void)state;
    pid_t pids[CROWD];
    for (uint64_t i = 0; i < CROWD; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            crowd(i);
            _exit(0);
        }
    }
    for (size_t i = 0; i < CROWD; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    struct registry_stats s = stats();
    assert_in_range(s.entries, 1, CROWD_KEYS);
    assert_int_equal(s.shards_emptied, 0);
    for (uint64_t key = 0; key < CROWD_KEYS; key++)
        drop(key, GROUP, NULL);
    assert_int_equal(stats().entries, 0);
}

static void *crowd_thread(void *seed)
{
    crowd(*(uint64_t *)seed);
    return NULL;
}

/* The same with threads, for the thread sanitizer. */
static void test_several_threads(void **state)
{
    (void)state;
    pthread_t threads[CROWD];
    uint64_t seeds[CROWD] = {11, 22, 33, 44};
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, crowd_thread, &seeds[i]), 0);
    for (size_t i = 0; i < CROWD; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    for (uint64_t key = 0; key < CROWD_KEYS; key++)
        drop(key, GROUP, NULL);
    assert_int_equal(stats().entries, 0);
}

/* Processes killed at random while they work: the rest never hangs and never sees a torn entry. */
static void test_killed_while_working(void **state)
{
    (void)state;
    for (uint64_t round = 0; round < 60; round++) {
        pid_t pid = fork();
        if (pid == 0)
            for (uint64_t i = 0;; i++)
                crowd(round + i);
        (void)usleep((useconds_t)(500 + round * 37));
        crowd(round);
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
    }
    for (uint64_t key = 0; key < CROWD_KEYS; key++)
        drop(key, GROUP, NULL);
    assert_int_equal(stats().entries, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_hit_needs_key_lease_and_set, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_by_hit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_by_drop, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_by_replacement, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_by_expiry, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_sweep_on_insert, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_by_eviction, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_eviction_spares_what_was_asked_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_ends_with_its_shard, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_several_processes, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_several_threads, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_while_working, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
