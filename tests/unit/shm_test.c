/* The shared memory segment: making, attaching, refusing, a maker that dies, the robust mutex. */
#include "base/clock.h"
#include "shm/layout.h"
#include "shm/shm.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char run_dir[64];
static struct settings settings;
static struct err err;

static int set_up(void **state)
{
    (void)state;
    (void)strcpy(run_dir, "/tmp/queen-shm-test-XXXXXX");
    assert_non_null(mkdtemp(run_dir));
    assert_true(settings_load(&settings, &err));
    settings.run_dir = run_dir;
    settings.ack_registry_mb = 1;
    settings.worker_slots = 4;
    err.text[0] = '\0';
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    char path[128];
    assert_true(shm_remove(&settings, &err));
    (void)snprintf(path, sizeof path, "%s/shm.lock", run_dir);
    (void)unlink(path);
    assert_int_equal(rmdir(run_dir), 0);
    return 0;
}

static struct shm *attach(void)
{
    struct shm *shm = NULL;
    if (!shm_attach(&settings, &shm, &err))
        fail_msg("%s", err.text);
    return shm;
}

static void refused(const char *text)
{
    struct shm *shm = NULL;
    err.text[0] = '\0';
    assert_false(shm_attach(&settings, &shm, &err));
    assert_null(shm);
    if (strstr(err.text, text) == NULL || strstr(err.text, "rm /dev/shm/queen.") == NULL)
        fail_msg("\"%s\" is not in \"%s\"", text, err.text);
}

static int open_segment(int flags)
{
    char name[SHM_NAME_SIZE];
    assert_true(shm_name(&settings, name, &err));
    int fd = shm_open(name, flags, 0600);
    assert_true(fd >= 0);
    return fd;
}

static void test_two_views_of_one_memory(void **state)
{
    (void)state;
    struct shm *a = attach(), *b = attach();
    assert_ptr_not_equal(a->header, b->header);
    a->slots->next_generation = 77;
    assert_int_equal(b->slots->next_generation, 77);
    struct stat st;
    int fd = open_segment(O_RDWR);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_mode & 0777u, 0600);
    assert_int_equal(st.st_size, (off_t)a->size);
    (void)close(fd);
    shm_detach(a);
    shm_detach(b);
    a = attach();
    assert_int_equal(a->slots->next_generation, 77);
    shm_detach(a);
    assert_true(shm_remove(&settings, &err));
    assert_true(shm_remove(&settings, &err)); /* nothing there any more: fine */
}

static void test_name_follows_the_real_path(void **state)
{
    (void)state;
    char plain[SHM_NAME_SIZE], by_link[SHM_NAME_SIZE], other[SHM_NAME_SIZE], link[128];
    assert_true(shm_name(&settings, plain, &err));
    (void)snprintf(link, sizeof link, "%s.link", run_dir);
    assert_int_equal(symlink(run_dir, link), 0);
    settings.run_dir = link;
    assert_true(shm_name(&settings, by_link, &err));
    assert_int_equal(unlink(link), 0);
    settings.run_dir = "/tmp";
    assert_true(shm_name(&settings, other, &err));
    settings.run_dir = run_dir;
    assert_string_equal(plain, by_link);
    assert_string_not_equal(plain, other);
}

static void test_missing_run_dir_is_named(void **state)
{
    (void)state;
    struct shm *shm;
    settings.run_dir = "/nonexistent/queen";
    assert_false(shm_attach(&settings, &shm, &err));
    assert_non_null(strstr(err.text, "/nonexistent/queen"));
    settings.run_dir = run_dir;
}

static void test_other_geometry_is_refused(void **state)
{
    (void)state;
    struct shm *shm = attach();
    settings.ack_registry_mb = 2;
    refused("QUEEN_ACK_REGISTRY_MB 1, this process has 2");
    settings.ack_registry_mb = 1;
    settings.worker_slots = 5;
    refused("QUEEN_WORKER_SLOTS 4, this process has 5");
    settings.worker_slots = 4;
    shm->header->geometry.layout_version++;
    refused("layout version");
    shm->header->geometry.layout_version--;
    shm->header->geometry.counters++;
    refused("counter count");
    shm->header->geometry.counters--;
    shm->header->run_dir[1] = 'X';
    refused("belongs to the run directory");
    shm->header->run_dir[1] = run_dir[1];
    atomic_store(&shm->header->magic, 1234);
    refused("magic");
    atomic_store(&shm->header->magic, SHM_MAGIC);
    int fd = open_segment(O_RDWR);
    assert_int_equal(ftruncate(fd, (off_t)shm->size + 4096), 0);
    refused("bytes, expected");
    assert_int_equal(fchmod(fd, 0644), 0);
    refused("alone");
    assert_int_equal(fchmod(fd, 0600), 0);
    assert_int_equal(ftruncate(fd, 100), 0);
    refused("not a segment of this program");
    (void)close(fd);
    shm_detach(shm);
}

static void test_half_made_segment_is_made_anew(void **state)
{
    (void)state;
    int fd = open_segment(O_RDWR | O_CREAT | O_EXCL); /* died right after shm_open */
    (void)close(fd);
    shm_detach(attach());
    assert_true(shm_remove(&settings, &err));
    fd = open_segment(O_RDWR | O_CREAT | O_EXCL); /* died before the magic word */
    assert_int_equal(ftruncate(fd, 2 << 20), 0);
    (void)close(fd);
    struct shm *shm = attach();
    assert_int_equal(atomic_load(&shm->header->magic), SHM_MAGIC);
    assert_int_not_equal(shm->slots->next_generation, 0);
    shm_detach(shm);
}

/* Real makers, killed at ever later moments: the next process always gets a whole segment. */
static void test_maker_killed_anywhere(void **state)
{
    (void)state;
    for (useconds_t delay = 0; delay < 1500; delay += 15) {
        pid_t pid = fork();
        if (pid == 0) {
            struct shm *shm;
            _exit(shm_attach(&settings, &shm, &err) ? 0 : 1);
        }
        (void)usleep(delay);
        (void)kill(pid, SIGKILL);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        struct shm *shm = attach();
        assert_int_equal(shm_lock(&shm->slots->lock), SHM_LOCKED);
        shm_unlock(&shm->slots->lock);
        shm_detach(shm);
        assert_true(shm_remove(&settings, &err));
    }
}

static void test_many_start_together(void **state)
{
    (void)state;
    enum { COUNT = 16 };
    pid_t pids[COUNT];
    int gate[2];
    assert_int_equal(pipe(gate), 0);
    for (size_t i = 0; i < COUNT; i++) {
        pids[i] = fork();
        if (pids[i] == 0) {
            char c;
            (void)close(gate[1]);
            ssize_t n = read(gate[0], &c, 1); /* until the parent closes */
            struct shm *shm;
            if (n != 0 || !shm_attach(&settings, &shm, &err))
                _exit(1);
            if (shm_lock(&shm->slots->lock) != SHM_LOCKED)
                _exit(2);
            slot_count(&shm->slots->total[0].requests, 1);
            shm_unlock(&shm->slots->lock);
            _exit(0);
        }
    }
    (void)close(gate[0]);
    (void)close(gate[1]);
    for (size_t i = 0; i < COUNT; i++) {
        int status;
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    struct shm *shm = attach();
    assert_int_equal(atomic_load(&shm->slots->total[0].requests), COUNT);
    shm_detach(shm);
}

/* The lock file is what serialises: who holds it keeps everybody else out. */
static void test_guard_is_waited_for(void **state)
{
    (void)state;
    char path[128];
    (void)snprintf(path, sizeof path, "%s/shm.lock", run_dir);
    int fd = open(path, O_RDWR | O_CREAT, 0600);
    assert_int_equal(flock(fd, LOCK_EX), 0);
    int out[2];
    assert_int_equal(pipe(out), 0);
    pid_t pid = fork();
    if (pid == 0) {
        (void)close(fd); /* the lock belongs to the open file that parent and child share */
        struct shm *shm;
        bool ok = shm_attach(&settings, &shm, &err);
        _exit(write(out[1], "x", 1) == 1 && ok ? 0 : 1);
    }
    assert_int_equal(fcntl(out[0], F_SETFL, O_NONBLOCK), 0);
    char c;
    for (int i = 0; i < 20; i++) {
        (void)usleep(1000);
        assert_int_equal(read(out[0], &c, 1), -1);
    }
    (void)close(fd);
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_int_equal(read(out[0], &c, 1), 1);
    (void)close(out[0]);
    (void)close(out[1]);
}

static void test_lock_of_a_killed_holder(void **state)
{
    (void)state;
    struct shm *shm = attach();
    pthread_mutex_t *lock = &shm->slots->lock;
    for (int round = 0; round < 3; round++) {
        int held[2];
        char c;
        assert_int_equal(pipe(held), 0);
        pid_t pid = fork();
        if (pid == 0) {
            enum shm_lock_result r = shm_lock(lock);
            if (write(held[1], r == SHM_LOCKED || round > 0 ? "y" : "n", 1) == 1)
                (void)pause();
            _exit(1);
        }
        assert_int_equal(read(held[0], &c, 1), 1);
        assert_int_equal(c, 'y');
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        (void)close(held[0]);
        (void)close(held[1]);
        if (round == 1)
            continue; /* the next child finds it dead and is killed in the repair */
        assert_int_equal(shm_lock(lock), SHM_OWNER_DIED);
        shm_unlock(lock);
        assert_int_equal(shm_lock(lock), SHM_LOCKED);
        shm_unlock(lock);
    }
    shm_detach(shm);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_two_views_of_one_memory, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_name_follows_the_real_path, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_missing_run_dir_is_named, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_geometry_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_half_made_segment_is_made_anew, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_maker_killed_anywhere, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_many_start_together, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_guard_is_waited_for, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_lock_of_a_killed_holder, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
