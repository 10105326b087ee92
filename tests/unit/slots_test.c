/* Process slots: claim, reclaim after SIGKILL, counters never lost or doubled. */
#include "shm/layout.h"
#include "shm/process.h"
#include "shm/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { WORKERS = 4 };

static char run_dir[64];
static struct settings settings;
static struct shm *shm;
static struct err err;

static int set_up(void **state)
{
    (void)state;
    (void)strcpy(run_dir, "/tmp/queen-slots-test-XXXXXX");
    assert_non_null(mkdtemp(run_dir));
    assert_true(settings_load(&settings, &err));
    settings.run_dir = run_dir;
    settings.ack_registry_mb = 1;
    settings.worker_slots = WORKERS;
    assert_true(shm_attach(&settings, &shm, &err));
    return 0;
}

static int tear_down(void **state)
{
    char path[128];
    (void)state;
    shm_detach(shm);
    assert_true(shm_remove(&settings, &err));
    (void)snprintf(path, sizeof path, "%s/shm.lock", run_dir);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(run_dir), 0);
    return 0;
}

static struct slot claim(enum slot_kind kind)
{
    struct slot s;
    if (!slot_claim(shm, kind, &s, &err))
        fail_msg("%s", err.text);
    return s;
}

static struct slot_info info(uint32_t index)
{
    struct slot_info i;
    assert_true(slot_read(shm, index, &i));
    return i;
}

static struct slot_counters sum(void)
{
    struct slot_counters c;
    slot_counters_sum(shm, &c);
    return c;
}

/* A child that runs `work` and then waits to be killed; returns once the work is done. */
static pid_t child(void (*work)(void *arg), void *arg)
{
    int done[2];
    char c;
    assert_int_equal(pipe(done), 0);
    pid_t pid = fork();
    if (pid == 0) {
        work(arg);
        if (write(done[1], "x", 1) == 1)
            (void)pause();
        _exit(1);
    }
    (void)close(done[1]);
    assert_int_equal(read(done[0], &c, 1), 1);
    (void)close(done[0]);
    return pid;
}

static void kill_child(pid_t pid)
{
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
}

static void work_count(void *kind)
{
    struct slot s = claim(*(enum slot_kind *)kind);
    slot_count(&s.counters->requests, 100);
    slot_count(&s.counters->flusher_rows, 7);
    slot_count(&s.counters->pop_parked, 3);
}

static void test_claim_and_release(void **state)
{
    (void)state;
    struct slot a = claim(SLOT_WORKER), b = claim(SLOT_WORKER);
    assert_int_equal(a.index, 0);
    assert_int_equal(b.index, 1);
    assert_int_not_equal(a.generation, b.generation);
    struct slot_info i = info(1);
    assert_int_equal(i.kind, SLOT_WORKER);
    assert_int_equal(i.pid, getpid());
    assert_int_equal(i.generation, b.generation);
    assert_true(i.alive);
    assert_int_equal(slot_generation(shm, 1), b.generation);
    assert_int_equal(slot_generation(shm, 2), 0);
    assert_int_equal(slot_generation(shm, 9999), 0);
    uint32_t indexes[8];
    assert_int_equal(slot_workers(shm, &a, indexes, 8), 1);
    assert_int_equal(indexes[0], 1);
    assert_int_equal(slot_workers(shm, NULL, indexes, 8), 2);
    assert_int_equal(slot_workers(shm, NULL, indexes, 1), 1);
    slot_count(&b.counters->pop_parked, 5);
    assert_int_equal(slot_parked(shm, 1), 5);
    uint32_t old = a.generation;
    slot_release(&a);
    assert_int_equal(info(0).kind, SLOT_FREE);
    assert_false(info(0).alive);
    a = claim(SLOT_WORKER);
    assert_int_equal(a.index, 0);
    assert_int_not_equal(a.generation, old);
    slot_release(&a);
    slot_release(&b);
    assert_int_equal(slot_parked(shm, 1), 0);
    struct slot_info beyond;
    assert_true(slot_read(shm, WORKERS + 1, &beyond));
    assert_false(slot_read(shm, WORKERS + 2, &beyond));
}

static void test_full_and_single_kinds(void **state)
{
    (void)state;
    struct slot s;
    for (int i = 0; i < WORKERS; i++)
        (void)claim(SLOT_WORKER);
    assert_false(slot_claim(shm, SLOT_WORKER, &s, &err));
    assert_non_null(strstr(err.text, "QUEEN_WORKER_SLOTS"));
    struct slot flusher = claim(SLOT_FLUSHER), keeper = claim(SLOT_KEEPER);
    assert_int_equal(flusher.index, WORKERS);
    assert_int_equal(keeper.index, WORKERS + 1);
    char pid[32];
    (void)snprintf(pid, sizeof pid, "pid %d", (int)getpid());
    assert_false(slot_claim(shm, SLOT_FLUSHER, &s, &err));
    assert_non_null(strstr(err.text, "flusher"));
    assert_non_null(strstr(err.text, pid));
    assert_false(slot_claim(shm, SLOT_KEEPER, &s, &err));
    assert_non_null(strstr(err.text, "keeper"));
    slot_release(&flusher);
    flusher = claim(SLOT_FLUSHER);
}

static void test_heartbeat(void **state)
{
    (void)state;
    struct slot s = claim(SLOT_WORKER);
    atomic_store(&shm->slots->cells[0].heartbeat_ms, 0);
    assert_true(info(0).heartbeat_age_ms > 0);
    assert_true(info(0).alive); /* slow, not dead */
    assert_int_equal(slot_sweep(shm), 0);
    slot_heartbeat(&s);
    assert_true(atomic_load(&shm->slots->cells[0].heartbeat_ms) > 0);
}

static void test_killed_owner_is_reclaimed_once(void **state)
{
    (void)state;
    enum slot_kind kind = SLOT_FLUSHER;
    pid_t pid = child(work_count, &kind);
    struct slot_info before = info(WORKERS);
    assert_true(before.alive);
    assert_int_equal(slot_sweep(shm), 0);
    assert_int_equal(kill(pid, SIGKILL), 0);
    siginfo_t si;
    assert_int_equal(waitid(P_PID, (id_t)pid, &si, WEXITED | WNOWAIT), 0);
    assert_false(info(WORKERS).alive); /* a zombie is dead */
    assert_int_equal(sum().requests, 100);
    struct slot s = claim(SLOT_FLUSHER); /* claims sweep */
    assert_int_equal(s.index, WORKERS);
    assert_int_not_equal(s.generation, before.generation);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    struct slot_counters c = sum();
    assert_int_equal(c.requests, 100);
    assert_int_equal(c.flusher_rows, 7);
    assert_int_equal(c.pop_parked, 0); /* a gauge ends with its process */
    assert_int_equal(slot_sweep(shm), 0);
    slot_count(&s.counters->requests, 1);
    slot_release(&s);
    slot_release(&(struct slot){shm, s.index, s.generation, NULL}); /* twice: no effect */
    assert_int_equal(sum().requests, 101);
}

static void test_reused_pid_is_dead(void **state)
{
    (void)state;
    (void)claim(SLOT_WORKER);
    assert_true(process_alive(getpid(), process_start_time()));
    assert_false(process_alive(getpid(), process_start_time() + 1));
    assert_false(process_alive(0x7ffffff0, 1));
    atomic_fetch_add(&shm->slots->cells[0].start_time, 1);
    assert_int_equal(slot_sweep(shm), 1);
    assert_int_equal(info(0).kind, SLOT_FREE);
}

static void work_hold_lock(void *arg)
{
    (void)arg;
    struct slot s = claim(SLOT_WORKER);
    slot_count(&s.counters->requests, 50);
    if (shm_lock(&shm->slots->lock) != SHM_LOCKED)
        abort();
}

static void test_killed_while_holding_the_lock(void **state)
{
    (void)state;
    kill_child(child(work_hold_lock, NULL));
    assert_int_equal(sum().requests, 50);
    assert_int_equal(slot_sweep(shm), 1);
    assert_int_equal(sum().requests, 50);
    assert_int_equal(shm_lock(&shm->slots->lock), SHM_LOCKED);
    shm_unlock(&shm->slots->lock);
}

/* Dies in the fold of slot 0, before its deciding store: the other copy is half-written. */
static void work_die_before_the_store(void *arg)
{
    (void)arg;
    if (shm_lock(&shm->slots->lock) != SHM_LOCKED)
        abort();
    uint32_t valid = atomic_load(&shm->slots->fold) & 1u;
    atomic_store(&shm->slots->total[1u - valid].requests, 999999);
}

/* Dies in the fold of slot 0, after its deciding store: the slot is not cleared yet. */
static void work_die_after_the_store(void *arg)
{
    (void)arg;
    if (shm_lock(&shm->slots->lock) != SHM_LOCKED)
        abort();
    uint32_t valid = atomic_load(&shm->slots->fold) & 1u;
    const struct slot_counters *old = &shm->slots->total[valid];
    struct slot_counters *new = &shm->slots->total[1u - valid];
    atomic_store(&new->requests, old->requests + shm->slots->cells[0].counters.requests);
    atomic_store(&new->flusher_rows,
                 old->flusher_rows + shm->slots->cells[0].counters.flusher_rows);
    atomic_store(&shm->slots->fold, 1u << 1 | (1u - valid));
    atomic_store(&shm->slots->cells[0].counters.requests, 0);
}

static void test_killed_in_the_fold(void **state)
{
    (void)state;
    enum slot_kind kind = SLOT_WORKER;
    for (unsigned round = 1; round <= 3; round++) {
        kill_child(child(work_count, &kind));
        kill_child(child(work_die_before_the_store, NULL));
        assert_int_equal(sum().requests, 100 * round);
        kill_child(child(work_die_after_the_store, NULL));
        struct slot_counters c = sum();
        assert_int_equal(c.requests, 100 * round);
        assert_int_equal(c.flusher_rows, 7 * round);
        assert_int_equal(info(0).kind, SLOT_FREE);
        assert_int_equal(slot_sweep(shm), 0);
        assert_int_equal(sum().requests, 100 * round);
    }
}

/* Workers that count, come and go and are killed at any moment, while others sum: the sum never
 * runs backwards, and differs from what the workers themselves say by the one step a kill
 * interrupts. */
static void test_counters_under_kills(void **state)
{
    (void)state;
    _Atomic uint64_t *truth =
        mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(truth, MAP_FAILED);
    uint64_t last = 0, ahead = 0;
    for (int round = 0; round < 150; round++) {
        pid_t pid = fork();
        if (pid == 0) {
            for (;;) {
                struct slot s = claim(SLOT_WORKER);
                for (int i = 0; i < 20; i++) {
                    slot_count(&s.counters->requests, 1);
                    atomic_fetch_add(truth, 1);
                }
                slot_release(&s);
                (void)slot_sweep(shm);
            }
        }
        for (int i = 0; i < 10; i++) {
            uint64_t now = sum().requests;
            assert_true(now >= last);
            last = now;
            (void)usleep((useconds_t)(round * 3));
        }
        kill_child(pid);
        (void)slot_sweep(shm);
        last = sum().requests;
        assert_in_range(last - atomic_load(truth), ahead, ahead + 1);
        ahead = last - atomic_load(truth);
    }
    assert_true(last > 150);
    for (uint32_t i = 0; i < WORKERS; i++)
        assert_int_equal(info(i).kind, SLOT_FREE);
    (void)munmap(truth, 4096);
}

static void *thread_run(void *arg)
{
    (void)arg;
    for (int i = 0; i < 300; i++) {
        struct slot s = claim(SLOT_WORKER);
        slot_count(&s.counters->requests, 1);
        slot_heartbeat(&s);
        (void)slot_parked(shm, s.index);
        (void)slot_sweep(shm);
        (void)sum();
        slot_release(&s);
    }
    return NULL;
}

static void test_several_threads(void **state)
{
    (void)state;
    pthread_t threads[WORKERS];
    for (size_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, thread_run, NULL), 0);
    for (size_t i = 0; i < WORKERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(sum().requests, WORKERS * 300);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_claim_and_release, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_and_single_kinds, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_heartbeat, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_owner_is_reclaimed_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reused_pid_is_dead, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_while_holding_the_lock, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_in_the_fold, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_counters_under_kills, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_several_threads, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
