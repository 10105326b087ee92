/* FIFOs: both ends, atomic writes, full, gone, foreign files. */
#include "shm/fifo.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char run_dir[64], path[128];
static struct err err;

static int set_up(void **state)
{
    (void)state;
    (void)strcpy(run_dir, "/tmp/queen-fifo-test-XXXXXX");
    assert_non_null(mkdtemp(run_dir));
    fifo_path_ack(run_dir, path, sizeof path);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    (void)unlink(path);
    assert_int_equal(rmdir(run_dir), 0);
    return 0;
}

static int reader(void)
{
    int fd = fifo_open_reader(path, &err);
    if (fd < 0)
        fail_msg("%s", err.text);
    return fd;
}

static void test_paths(void **state)
{
    (void)state;
    char p[64];
    fifo_path_ack("/run/q", p, sizeof p);
    assert_string_equal(p, "/run/q/ack.fifo");
    fifo_path_verdict("/run/q", 7, p, sizeof p);
    assert_string_equal(p, "/run/q/verdict.7.fifo");
    fifo_path_wake("/run/q", 1023, p, sizeof p);
    assert_string_equal(p, "/run/q/wake.1023.fifo");
}

static void test_record_goes_through(void **state)
{
    (void)state;
    struct verdict_record v = {.ticket = 5, .worker_generation = 6, .verdict = ACK_REJECTED}, got;
    assert_int_equal(fifo_open_writer(path), -1); /* no FIFO */
    int in = reader();
    struct stat st;
    assert_int_equal(fstat(in, &st), 0);
    assert_int_equal(st.st_mode & 0777u, 0600);
    int out = fifo_open_writer(path);
    assert_true(out >= 0);
    assert_int_equal(fcntl(out, F_GETFD) & FD_CLOEXEC, FD_CLOEXEC);
    assert_int_equal(fifo_write(out, &v, sizeof v), FIFO_DONE);
    assert_int_equal(read(in, &got, sizeof got), sizeof got);
    assert_memory_equal(&v, &got, sizeof v);
    (void)close(out);
    assert_int_equal(read(in, &got, sizeof got), -1); /* the last writer left: no end of file */
    assert_int_equal(errno, EAGAIN);
    (void)close(in);
    assert_int_equal(fifo_open_writer(path), -1); /* nobody reads */
}

static void test_full_then_room(void **state)
{
    (void)state;
    char record[PIPE_BUF];
    memset(record, 'r', sizeof record);
    int in = reader(), out = fifo_open_writer(path);
    int written = 0;
    enum fifo_result r;
    while ((r = fifo_write(out, record, sizeof record)) == FIFO_DONE)
        written++;
    assert_int_equal(r, FIFO_FULL);
    assert_in_range(written, 1, 1 << 20);
    assert_int_equal(read(in, record, sizeof record), sizeof record);
    assert_int_equal(fifo_write(out, record, sizeof record), FIFO_DONE);
    assert_int_equal(fifo_write(out, record, sizeof record), FIFO_FULL);
    (void)close(in);
    (void)close(out);
}

static void test_reader_gone_and_back(void **state)
{
    (void)state;
    char c = 'a';
    int in = reader(), out = fifo_open_writer(path);
    assert_int_equal(fifo_write(out, &c, 1), FIFO_DONE);
    (void)close(in);
    assert_int_equal(fifo_write(out, &c, 1), FIFO_GONE);
    in = reader(); /* the successor reads what was left */
    assert_int_equal(fifo_write(out, "b", 1), FIFO_DONE);
    char got[3];
    assert_int_equal(read(in, got, sizeof got), 2);
    assert_memory_equal(got, "ab", 2);
    (void)close(in);
    (void)close(out);
}

static void test_reader_killed(void **state)
{
    (void)state;
    int up[2];
    char c;
    assert_int_equal(pipe(up), 0);
    pid_t pid = fork();
    if (pid == 0) {
        if (fifo_open_reader(path, &err) >= 0 && write(up[1], "x", 1) == 1)
            (void)pause();
        _exit(1);
    }
    assert_int_equal(read(up[0], &c, 1), 1);
    int out = fifo_open_writer(path);
    assert_int_equal(fifo_write(out, &c, 1), FIFO_DONE);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    assert_int_equal(fifo_write(out, &c, 1), FIFO_GONE);
    (void)close(out);
    (void)close(up[0]);
    (void)close(up[1]);
}

static void test_other_files_are_refused(void **state)
{
    (void)state;
    int fd = open(path, O_CREAT | O_WRONLY, 0600);
    assert_true(fd >= 0);
    (void)close(fd);
    assert_int_equal(fifo_open_reader(path, &err), -1);
    assert_non_null(strstr(err.text, "ack.fifo is not a FIFO"));
    assert_int_equal(fifo_open_writer(path), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(symlink("/dev/null", path), 0);
    assert_int_equal(fifo_open_reader(path, &err), -1);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(fifo_open_reader("/nonexistent/x", &err), -1);
    assert_non_null(strstr(err.text, "/nonexistent/x"));
}

/* Records of several writers at once, of different lengths, are never mixed. */
static void test_writes_are_atomic(void **state)
{
    (void)state;
    enum { WRITERS = 4, RECORDS = 3000 };
    int in = reader();
    pid_t pids[WRITERS];
    for (int w = 0; w < WRITERS; w++) {
        pids[w] = fork();
        if (pids[w] == 0) {
            int out = fifo_open_writer(path);
            char record[300];
            for (int i = 0; i < RECORDS; i++) {
                size_t n = 20 + (size_t)(i * 7 + w) % 280;
                memset(record, 'A' + w, sizeof record);
                memcpy(record, &n, sizeof n);
                while (fifo_write(out, record, n) == FIFO_FULL)
                    (void)usleep(50);
            }
            _exit(0);
        }
    }
    char data[65536];
    size_t have = 0, seen = 0;
    while (seen < WRITERS * RECORDS) {
        ssize_t got = read(in, data + have, sizeof data - have);
        if (got > 0)
            have += (size_t)got;
        size_t at = 0, n;
        while (have - at >= sizeof n) {
            memcpy(&n, data + at, sizeof n);
            assert_in_range(n, 20, 300);
            if (have - at < n)
                break;
            for (size_t i = sizeof n; i < n; i++)
                assert_int_equal(data[at + i], data[at + sizeof n]);
            at += n;
            seen++;
        }
        memmove(data, data + at, have - at);
        have -= at;
    }
    assert_int_equal(have, 0);
    for (int w = 0; w < WRITERS; w++) {
        int status;
        assert_int_equal(waitpid(pids[w], &status, 0), pids[w]);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    (void)close(in);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_paths),
        cmocka_unit_test_setup_teardown(test_record_goes_through, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_full_then_room, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reader_gone_and_back, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_reader_killed, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_other_files_are_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_writes_are_atomic, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
