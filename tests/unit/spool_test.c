/* The push spool: what was made durable is read back, whatever happened to the bytes around it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "log/spool.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char dir[64];
static struct err err;

static int begin(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/queen-spool-XXXXXX");
    return mkdtemp(dir) == NULL ? -1 : 0;
}

static int end(void **state)
{
    char command[128];
    (void)state;
    (void)snprintf(command, sizeof command, "rm -rf %s", dir);
    return system(command);
}

static int by_name(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Paths of the spool's files, oldest first. */
static size_t files(char out[][PATH_MAX], size_t max)
{
    size_t n = 0;
    DIR *d = opendir(dir);
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (strstr(e->d_name, SPOOL_SUFFIX) != NULL && n < max)
            (void)snprintf(out[n++], PATH_MAX, "%s/%.200s", dir, e->d_name);
    (void)closedir(d);
    qsort(out, n, PATH_MAX, by_name);
    return n;
}

static const char *only_file(void)
{
    static char names[2][PATH_MAX];
    assert_int_equal(files(names, 2), 1);
    return names[0];
}

/* Record number n of a test, made of its number. */
static void put(struct buf *out, int n)
{
    char transaction_id[16], payload[64];
    struct spool_record r = {.time_us = 1000 + n,
                             .queue = SLICE_LITERAL("orders"),
                             .partition = SLICE_LITERAL("p\xc3\xa9")};
    memset(r.message_id.bytes, n, sizeof r.message_id.bytes);
    (void)snprintf(transaction_id, sizeof transaction_id, "t%d", n);
    (void)snprintf(payload, sizeof payload, "{\"n\": %d}", n);
    r.transaction_id = slice_of(transaction_id);
    r.payload = slice_of(payload);
    spool_put(out, &r);
}

static void append(struct spool_writer *w, int from, int to)
{
    struct buf records = {0};
    for (int n = from; n <= to; n++)
        put(&records, n);
    assert_true(spool_writer_append(w, &records, &err));
    buf_free(&records);
}

static void check(const struct spool_record *r, int n)
{
    char transaction_id[16], payload[64];
    (void)snprintf(transaction_id, sizeof transaction_id, "t%d", n);
    (void)snprintf(payload, sizeof payload, "{\"n\": %d}", n);
    assert_int_equal(r->time_us, 1000 + n);
    assert_int_equal(r->message_id.bytes[15], n);
    assert_true(slice_is(r->queue, "orders"));
    assert_true(slice_is(r->partition, "p\xc3\xa9"));
    assert_true(slice_is(r->transaction_id, transaction_id));
    assert_true(slice_is(r->payload, payload));
}

/* Reads the file to its end; returns how many records, numbers into `numbers`. */
static int read_all(const char *path, int *numbers, int max, int64_t *torn, int64_t *skipped)
{
    struct spool_reader r;
    struct spool_record record;
    int n = 0;
    assert_true(spool_reader_open(&r, path, &err));
    assert_true(r.owned);
    while (spool_reader_next(&r, &record, torn, &err) == SPOOL_RECORD && n < max) {
        numbers[n] = (int)record.time_us - 1000;
        check(&record, numbers[n++]);
    }
    *skipped = r.skipped;
    spool_reader_close(&r);
    return n;
}

static void whole_file(struct buf *out, const char *path)
{
    FILE *f = fopen(path, "rb");
    char bytes[4096];
    assert_non_null(f);
    for (size_t n; (n = fread(bytes, 1, sizeof bytes, f)) > 0;)
        buf_put(out, bytes, n);
    (void)fclose(f);
}

static void write_file(const char *path, const char *p, size_t n)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), n);
    (void)close(fd);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct spool_writer w;
    int numbers[100];
    int64_t torn, skipped;
    assert_true(spool_writer_open(&w, dir, &err));
    append(&w, 1, 3);
    append(&w, 4, 50);
    spool_writer_close(&w);
    assert_int_equal(read_all(only_file(), numbers, 100, &torn, &skipped), 50);
    for (int i = 0; i < 50; i++)
        assert_int_equal(numbers[i], i + 1);
    assert_int_equal(torn, 0);
    assert_int_equal(skipped, 0);
}

static void test_torn_tail_at_every_byte(void **state)
{
    (void)state;
    struct spool_writer w;
    struct buf bytes = {0}, one = {0};
    int numbers[10];
    int64_t torn, skipped;
    assert_true(spool_writer_open(&w, dir, &err));
    append(&w, 1, 3);
    spool_writer_close(&w);
    const char *path = only_file();
    whole_file(&bytes, path);
    put(&one, 1);
    for (size_t n = 0; n <= bytes.n; n++) {
        write_file(path, bytes.p, n);
        size_t whole = n < SPOOL_HEADER ? 0 : (n - SPOOL_HEADER) / one.n;
        assert_int_equal(read_all(path, numbers, 10, &torn, &skipped), whole);
        assert_int_equal(torn, n < SPOOL_HEADER ? 0 : n - SPOOL_HEADER - whole * one.n);
        assert_int_equal(skipped, 0);
    }
    buf_free(&bytes);
    buf_free(&one);
}

static void test_damage_at_every_byte_of_the_middle(void **state)
{
    (void)state;
    struct spool_writer w;
    struct buf bytes = {0}, one = {0};
    int numbers[10];
    int64_t torn, skipped;
    assert_true(spool_writer_open(&w, dir, &err));
    append(&w, 1, 3);
    spool_writer_close(&w);
    const char *path = only_file();
    whole_file(&bytes, path);
    put(&one, 1);
    for (size_t i = 0; i < one.n; i++) {
        char *p = &bytes.p[SPOOL_HEADER + one.n + i];
        *p = (char)(*p ^ 0x41);
        write_file(path, bytes.p, bytes.n);
        assert_int_equal(read_all(path, numbers, 10, &torn, &skipped), 2);
        assert_int_equal(numbers[0], 1);
        assert_int_equal(numbers[1], 3);
        assert_int_equal(skipped, one.n);
        *p = (char)(*p ^ 0x41);
    }
    /* A tail of zeros, as a crash of the host leaves one. */
    buf_reserve(&bytes, 5000);
    memset(bytes.p + bytes.n, 0, 5000);
    write_file(path, bytes.p, bytes.n + 5000);
    assert_int_equal(read_all(path, numbers, 10, &torn, &skipped), 3);
    assert_int_equal(torn, 5000);
    buf_free(&bytes);
    buf_free(&one);
}

/* A record inside a payload is never taken for one, even when the one around it is damaged. */
static void test_record_in_a_payload(void **state)
{
    (void)state;
    struct spool_writer w;
    struct buf inner = {0}, bytes = {0}, records = {0};
    int numbers[10];
    int64_t torn, skipped;
    assert_true(spool_writer_open(&w, dir, &err));
    append(&w, 1, 1);
    spool_writer_close(&w);
    whole_file(&inner, only_file()); /* sealed with the salt of another file */
    assert_int_equal(unlink(only_file()), 0);
    struct spool_record outer = {.time_us = 5,
                                 .queue = SLICE_LITERAL("q"),
                                 .partition = SLICE_LITERAL("p"),
                                 .payload = buf_slice(&inner)};
    spool_put(&records, &outer);
    put(&records, 2);
    assert_true(spool_writer_append(&w, &records, &err));
    spool_writer_close(&w);
    whole_file(&bytes, only_file());
    bytes.p[SPOOL_HEADER + 9] = (char)(bytes.p[SPOOL_HEADER + 9] ^ 1);
    write_file(only_file(), bytes.p, bytes.n);
    assert_int_equal(read_all(only_file(), numbers, 10, &torn, &skipped), 1);
    assert_int_equal(numbers[0], 2);
    buf_free(&inner);
    buf_free(&bytes);
    buf_free(&records);
}

static void test_large_records_and_seek(void **state)
{
    (void)state;
    struct spool_writer w;
    struct spool_reader r;
    struct spool_record record;
    struct buf records = {0}, payload = {0};
    int64_t ends[4];
    buf_reserve(&payload, 3000000);
    payload.n = 3000000;
    memset(payload.p, 'x', payload.n);
    assert_true(spool_writer_open(&w, dir, &err));
    for (size_t i = 0; i < 4; i++) {
        record = (struct spool_record){.time_us = (int64_t)i,
                                       .queue = SLICE_LITERAL("q"),
                                       .partition = SLICE_LITERAL("p"),
                                       .payload = {payload.p, payload.n - i}};
        spool_put(&records, &record);
    }
    assert_true(spool_writer_append(&w, &records, &err));
    spool_writer_close(&w);
    assert_true(spool_reader_open(&r, only_file(), &err));
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(spool_reader_next(&r, &record, NULL, &err), SPOOL_RECORD);
        assert_int_equal(record.payload.n, payload.n - i);
        ends[i] = r.at;
    }
    assert_int_equal(spool_reader_next(&r, &record, NULL, &err), SPOOL_END);
    spool_reader_seek(&r, ends[1]);
    assert_int_equal(spool_reader_next(&r, &record, NULL, &err), SPOOL_RECORD);
    assert_int_equal(record.time_us, 2);
    spool_reader_close(&r);
    buf_free(&records);
    buf_free(&payload);
}

static void test_file_of_a_living_writer(void **state)
{
    (void)state;
    struct spool_writer w;
    struct spool_reader r;
    struct spool_record record;
    assert_true(spool_writer_open(&w, dir, &err));
    append(&w, 1, 1);
    assert_true(spool_reader_open(&r, only_file(), &err));
    assert_false(r.owned);
    assert_int_equal(spool_reader_next(&r, &record, NULL, &err), SPOOL_RECORD);
    assert_int_equal(spool_reader_next(&r, &record, NULL, &err), SPOOL_END);
    append(&w, 2, 2);
    assert_int_equal(spool_reader_next(&r, &record, NULL, &err), SPOOL_RECORD);
    check(&record, 2);
    assert_false(spool_reader_own(&r));
    spool_writer_close(&w);
    assert_true(spool_reader_own(&r));
    spool_reader_close(&r);
}

/* The lock goes with a killed writer, and its records stay. */
static void test_killed_writer(void **state)
{
    (void)state;
    int ready[2], numbers[10];
    int64_t torn, skipped;
    char c;
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (child == 0) {
        struct spool_writer w;
        if (!spool_writer_open(&w, dir, &err))
            _exit(1);
        append(&w, 1, 2);
        (void)!write(ready[1], "r", 1);
        for (;;)
            (void)pause();
    }
    assert_int_equal(read(ready[0], &c, 1), 1);
    (void)kill(child, SIGKILL);
    assert_int_equal(waitpid(child, NULL, 0), child);
    assert_int_equal(read_all(only_file(), numbers, 10, &torn, &skipped), 2);
    (void)close(ready[0]);
    (void)close(ready[1]);
}

static void test_several_files_in_order(void **state)
{
    (void)state;
    static char names[8][PATH_MAX];
    struct spool_writer w;
    int numbers[10], next = 1;
    int64_t torn, skipped;
    assert_true(spool_writer_open(&w, dir, &err));
    for (int n = 1; n <= 5; n++) {
        append(&w, n, n);
        spool_writer_close(&w);
    }
    assert_int_equal(files(names, 8), 5);
    for (int i = 0; i < 5; i++) {
        assert_int_equal(read_all(names[i], numbers, 10, &torn, &skipped), 1);
        assert_int_equal(numbers[0], next++);
    }
}

/* A full disk, as far as a process can have one of its own: a limit of the file size. */
static void test_failed_write_keeps_the_earlier_records(void **state)
{
    (void)state;
    static char names[8][PATH_MAX];
    struct rlimit old, small;
    struct spool_writer w;
    struct buf records = {0};
    int numbers[10];
    int64_t torn, skipped;
    struct stat st;
    (void)signal(SIGXFSZ, SIG_IGN);
    assert_true(spool_writer_open(&w, dir, &err));
    append(&w, 1, 3);
    assert_int_equal(stat(only_file(), &st), 0);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    small = old;
    small.rlim_cur = (rlim_t)st.st_size + 100;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    for (int n = 4; n <= 9; n++)
        put(&records, n);
    bool ok = spool_writer_append(&w, &records, &err);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    assert_false(ok);
    assert_non_null(strstr(err.text, "too large"));
    append(&w, 4, 5);
    spool_writer_close(&w);
    assert_int_equal(files(names, 8), 2);
    assert_int_equal(read_all(names[0], numbers, 10, &torn, &skipped), 3);
    assert_int_equal(torn, 0);
    assert_int_equal(skipped, 0);
    assert_int_equal(read_all(names[1], numbers, 10, &torn, &skipped), 2);
    assert_int_equal(numbers[0], 4);
    buf_free(&records);
}

static void test_foreign_file(void **state)
{
    (void)state;
    char path[PATH_MAX];
    int numbers[10];
    int64_t torn, skipped;
    (void)snprintf(path, sizeof path, "%s/1.spool", dir);
    write_file(path, "this is not a spool file at all, whatever its name says", 55);
    assert_int_equal(read_all(path, numbers, 10, &torn, &skipped), 0);
    assert_int_equal(torn, 55 - SPOOL_HEADER);
    write_file(path, "", 0);
    assert_int_equal(read_all(path, numbers, 10, &torn, &skipped), 0);
    assert_int_equal(torn, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
#define CASE(f) cmocka_unit_test_setup_teardown(f, begin, end)
        CASE(test_round_trip),
        CASE(test_torn_tail_at_every_byte),
        CASE(test_damage_at_every_byte_of_the_middle),
        CASE(test_record_in_a_payload),
        CASE(test_large_records_and_seek),
        CASE(test_file_of_a_living_writer),
        CASE(test_killed_writer),
        CASE(test_several_files_in_order),
        CASE(test_failed_write_keeps_the_earlier_records),
        CASE(test_foreign_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
