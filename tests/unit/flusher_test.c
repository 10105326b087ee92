/* The real flusher against a real PostgreSQL; this test plays the workers. Run from the top of the
 * source tree, after `make build/bin/queen-flusher` (the same build directory as this test's). */
#include "base/clock.h"
#include "postgres_fixture.h"
#include "shm/fifo.h"
#include "shm/slots.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <sys/wait.h>

enum { PATIENCE_MS = 30000, TICKETS = 300000 };

static struct postgres pg;
static char program[PATH_MAX], run_dir[64], log_path[128];
static struct settings settings;
static struct shm *shm;
static struct slot slot;
static int verdict_fd, ack_fd;
static pid_t flusher;
static enum ack_verdict verdicts[TICKETS]; /* by ticket; 0 = none yet */
static size_t answered;

/* Partition, and lease, number n. */
static struct uuid numbered(uint32_t kind, uint32_t n)
{
    struct uuid u = {{0}};
    for (int i = 0; i < 4; i++) {
        u.bytes[i] = (uint8_t)(kind >> (24 - 8 * i));
        u.bytes[12 + i] = (uint8_t)(n >> (24 - 8 * i));
    }
    return u;
}

static struct uuid partition(uint32_t n)
{
    return numbered(0x9a000000, n);
}

static struct uuid lease(uint32_t n)
{
    return numbered(0x1ea5e000, n);
}

/* Partitions first..first+count-1 of one queue, each leased up to offset 100 to the lease of its
 * number. */
static void make_leases(unsigned first, unsigned count)
{
    (void)postgres_ask(&pg,
                       "insert into queen.queues(name) values ('orders') on conflict do nothing");
    (void)postgres_ask(&pg,
                       "insert into queen.log_partitions(id, queue_id, name, last_offset)"
                       " select ('9a000000-0000-0000-0000-0000' || lpad(to_hex(n), 8, '0'))::uuid,"
                       "        q.id, 'p' || n, 100 from queen.queues q, generate_series(%u, %u) n"
                       " where q.name = 'orders'",
                       first, first + count - 1);
    (void)postgres_ask(
        &pg,
        "insert into queen.log_consumers(partition_id, consumer_group, committed, batch_end,"
        "                                worker_id, lease_expires_at)"
        " select ('9a000000-0000-0000-0000-0000' || lpad(to_hex(n), 8, '0'))::uuid, 'billing', -1,"
        "        100, '1ea5e000-0000-0000-0000-0000' || lpad(to_hex(n), 8, '0'),"
        "        now() + interval '1 hour' from generate_series(%u, %u) n",
        first, first + count - 1);
}

static long committed(unsigned n)
{
    return atol(postgres_ask(&pg,
                             "select committed from queen.log_consumers where partition_id ="
                             " '9a000000-0000-0000-0000-0000%08x'",
                             n));
}

static void worker_send_as(int fd, const struct slot *worker, uint64_t ticket, unsigned p,
                           unsigned l, struct slice group)
{
    struct {
        struct ack_record record;
        char group[64];
    } m = {.record = {.length = (uint32_t)(sizeof m.record + group.n),
                      .worker_slot = worker->index,
                      .worker_generation = worker->generation,
                      .message_count = 101,
                      .ticket = ticket,
                      .batch_end = 100,
                      .partition_id = partition(p),
                      .lease_id = lease(l),
                      .group_length = (uint16_t)group.n}};
    memcpy(m.group, group.p, group.n);
    assert_int_equal(fifo_write(fd, &m, m.record.length), FIFO_DONE);
}

static void worker_send(uint64_t ticket, unsigned p, unsigned l)
{
    worker_send_as(ack_fd, &slot, ticket, p, l, SLICE_LITERAL("billing"));
}

static size_t worker_read(int timeout_ms)
{
    struct verdict_record v[256];
    struct pollfd poller = {.fd = verdict_fd, .events = POLLIN};
    if (poll(&poller, 1, timeout_ms) <= 0)
        return 0;
    ssize_t n = read(verdict_fd, v, sizeof v);
    assert_true(n > 0 && (size_t)n % sizeof v[0] == 0);
    size_t count = (size_t)n / sizeof v[0];
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(v[i].worker_generation, slot.generation);
        assert_true(v[i].ticket < TICKETS);
        assert_int_equal(verdicts[v[i].ticket], 0); /* nobody is answered twice */
        verdicts[v[i].ticket] = (enum ack_verdict)v[i].verdict;
        answered++;
    }
    return count;
}

static void worker_await(size_t count)
{
    uint64_t until = clock_mono_ms() + PATIENCE_MS;
    while (answered < count && clock_mono_ms() < until)
        (void)worker_read(100);
    assert_int_equal(answered, count);
}

/* Waits until a statement of the flusher waits for a row lock. */
static void await_blocked_flush(void)
{
    uint64_t until = clock_mono_ms() + PATIENCE_MS;
    while (clock_mono_ms() < until) {
        if (postgres_is(&pg, "select exists(select from pg_stat_activity where wait_event_type ="
                             " 'Lock' and query like '%log_ack_multi%')"))
            return;
        (void)usleep(2000);
    }
    fail_msg("no flush is blocked");
}

static PGconn *lock_partition(unsigned n)
{
    char sql[256];
    PGconn *conn = PQconnectdb(pg.conninfo);
    (void)snprintf(sql, sizeof sql,
                   "begin; select from queen.log_consumers where partition_id ="
                   " '9a000000-0000-0000-0000-0000%08x' for update",
                   n);
    PGresult *r = PQexec(conn, sql);
    assert_int_equal(PQresultStatus(r), PGRES_TUPLES_OK);
    assert_int_equal(PQntuples(r), 1);
    PQclear(r);
    return conn;
}

static pid_t flusher_spawn(void)
{
    pid_t pid = fork();
    if (pid == 0) {
        int fd = open(log_path, O_WRONLY | O_CREAT | O_APPEND, 0600);
        if (fd >= 0 && dup2(fd, STDERR_FILENO) >= 0)
            (void)execl(program, program, (char *)NULL);
        _exit(127);
    }
    return pid;
}

static void flusher_up(void)
{
    char path[128];
    uint64_t until = clock_mono_ms() + PATIENCE_MS;
    flusher = flusher_spawn();
    fifo_path_ack(run_dir, path, sizeof path);
    while ((ack_fd = fifo_open_writer(path)) < 0 && clock_mono_ms() < until)
        (void)usleep(1000);
    assert_true(ack_fd >= 0);
}

static int flusher_end(int signal_number)
{
    int status;
    assert_int_equal(kill(flusher, signal_number), 0);
    assert_int_equal(waitpid(flusher, &status, 0), flusher);
    flusher = 0;
    return status;
}

static bool log_has(const char *text)
{
    char command[256];
    (void)snprintf(command, sizeof command, "grep -qF '%s' %s", text, log_path);
    return system(command) == 0;
}

static struct slot_counters counters(void)
{
    struct slot_counters c;
    slot_counters_sum(shm, &c);
    return c;
}

static int set_up(void **state)
{
    struct err err;
    char path[128];
    (void)state;
    (void)strcpy(run_dir, "/tmp/queen-flusher-test-XXXXXX");
    assert_non_null(mkdtemp(run_dir));
    (void)snprintf(log_path, sizeof log_path, "%s/log", run_dir);
    (void)setenv("QUEEN_RUN_DIR", run_dir, 1);
    (void)setenv("QUEEN_DATABASE_URL", pg.conninfo, 1);
    (void)setenv("QUEEN_ACK_REGISTRY_MB", "1", 1);
    (void)setenv("QUEEN_WORKER_SLOTS", "4", 1);
    (void)setenv("QUEEN_ACK_FUSION_SHARDS", "1", 1);
    (void)unsetenv("QUEEN_ACK_VERDICT_TIMEOUT_MS");
    (void)unsetenv("QUEEN_STMT_TIMEOUT_MS");
    assert_true(settings_load(&settings, &err));
    assert_true(shm_attach(&settings, &shm, &err));
    assert_true(slot_claim(shm, SLOT_WORKER, &slot, &err));
    fifo_path_verdict(run_dir, slot.index, path, sizeof path);
    verdict_fd = fifo_open_reader(path, &err);
    assert_true(verdict_fd >= 0);
    memset(verdicts, 0, sizeof verdicts);
    answered = 0;
    (void)postgres_ask(&pg, "delete from queen.log_consumers");
    (void)postgres_ask(&pg, "delete from queen.log_partitions");
    return 0;
}

static int tear_down(void **state)
{
    struct err err;
    char command[128];
    (void)state;
    if (flusher > 0) {
        int status = flusher_end(SIGTERM);
        assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    (void)close(ack_fd);
    (void)close(verdict_fd);
    shm_detach(shm);
    assert_true(shm_remove(&settings, &err));
    (void)snprintf(command, sizeof command, "rm -rf %s", run_dir);
    assert_int_equal(system(command), 0);
    return 0;
}

static void test_verdict_follows_the_commit(void **state)
{
    (void)state;
    make_leases(1, 2);
    flusher_up();
    worker_send(1, 1, 1);
    worker_await(1);
    assert_int_equal(verdicts[1], ACK_COMMITTED);
    assert_int_equal(committed(1), 100);
    assert_int_equal(committed(2), -1);
    assert_true(postgres_is(&pg, "select worker_id is null from queen.log_consumers"
                                 " where partition_id = '9a000000-0000-0000-0000-000000000001'"));
    worker_send(2, 2, 1); /* not its lease */
    worker_send(3, 3, 3); /* no such partition */
    worker_await(3);
    assert_int_equal(verdicts[2], ACK_REJECTED);
    assert_int_equal(verdicts[3], ACK_REJECTED);
    assert_int_equal(committed(2), -1);
    assert_int_equal(counters().flusher_requests, 3);
    assert_int_equal(counters().flusher_rows, 1);
}

/* While one commit waits, all that comes gathers into the next. */
static void test_busy_shard_accumulates(void **state)
{
    (void)state;
    enum { COUNT = 400 };
    make_leases(1, COUNT);
    flusher_up();
    PGconn *lock = lock_partition(1);
    worker_send(1, 1, 1);
    await_blocked_flush();
    for (unsigned i = 2; i <= COUNT; i++)
        worker_send(i, i, i);
    for (unsigned i = 2; i <= COUNT; i++)
        worker_send(COUNT + i, i, i); /* repeats fold */
    uint64_t until = clock_mono_ms() + PATIENCE_MS;
    while (counters().flusher_requests < 2 * COUNT - 1 && clock_mono_ms() < until)
        (void)usleep(1000);
    assert_int_equal(answered, 0);
    PQfinish(lock);
    worker_await(2 * COUNT - 1);
    for (unsigned i = 1; i <= COUNT; i++)
        assert_int_equal(verdicts[i], ACK_COMMITTED);
    for (unsigned i = 2; i <= COUNT; i++)
        assert_int_equal(verdicts[COUNT + i], ACK_COMMITTED);
    struct slot_counters c = counters();
    assert_int_equal(c.flusher_commits, 2);
    assert_int_equal(c.flusher_rows, COUNT);
    assert_true(postgres_is(&pg, "select count(*) = 400 and min(committed) = 100 from"
                                 " queen.log_consumers"));
    int status = flusher_end(SIGTERM);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(log_has("ack-fusion: coalesce summary commits=2 rows=400 rows_per_commit=200.0"));
    assert_int_equal(counters().flusher_commits, 2); /* carried over */
}

/* A row that PostgreSQL cannot even read makes it refuse the statement: its neighbours commit. */
static void test_bad_row_fails_alone(void **state)
{
    (void)state;
    make_leases(1, 5);
    flusher_up();
    PGconn *lock = lock_partition(1);
    worker_send(1, 1, 1);
    await_blocked_flush();
    worker_send(2, 2, 2);
    worker_send_as(ack_fd, &slot, 3, 3, 3, (struct slice){"bill\xff", 5});
    worker_send(4, 4, 4);
    worker_send(5, 5, 1);
    PQfinish(lock);
    worker_await(5);
    assert_int_equal(verdicts[2], ACK_COMMITTED);
    assert_int_equal(verdicts[3], ACK_FLUSH_ERROR);
    assert_int_equal(verdicts[4], ACK_COMMITTED);
    assert_int_equal(verdicts[5], ACK_REJECTED);
    assert_int_equal(committed(3), -1);
    worker_send_as(ack_fd, &slot, 6, 3, 3, (struct slice){"\xff", 1}); /* alone */
    worker_send(7, 3, 3);
    worker_await(7);
    assert_int_equal(verdicts[6], ACK_FLUSH_ERROR);
    assert_int_equal(verdicts[7], ACK_COMMITTED);
}

/* The connection dies under a running statement: the same rows are tried again. */
static void test_broken_connection_is_settled(void **state)
{
    (void)state;
    make_leases(1, 2);
    flusher_up();
    PGconn *lock = lock_partition(1);
    worker_send(1, 1, 1);
    await_blocked_flush();
    assert_true(postgres_is(&pg, "select bool_and(pg_terminate_backend(pid)) from pg_stat_activity"
                                 " where query like '%log_ack_multi%' and pid <>"
                                 " pg_backend_pid()"));
    worker_send(2, 2, 2);
    PQfinish(lock);
    worker_await(2);
    assert_int_equal(verdicts[1], ACK_COMMITTED);
    assert_int_equal(verdicts[2], ACK_COMMITTED);
    assert_true(counters().flusher_errors >= 1);
    assert_int_equal(committed(1), 100);
}

/* PostgreSQL crashes with acks in flight and comes back: every ack is answered as it is. */
static void test_postgres_crash(void **state)
{
    (void)state;
    make_leases(1, 50);
    flusher_up();
    PGconn *lock = lock_partition(1);
    worker_send(1, 1, 1);
    await_blocked_flush();
    for (unsigned i = 2; i <= 50; i++)
        worker_send(i, i, i);
    postgres_stop(&pg, "immediate");
    PQfinish(lock);
    postgres_start(&pg);
    worker_await(50);
    for (unsigned i = 1; i <= 50; i++) {
        assert_int_equal(verdicts[i], ACK_COMMITTED);
        assert_int_equal(committed(i), 100);
    }
}

/* PostgreSQL is away for longer than anybody waits. What was never sent has not happened; what was
 * under way may have. */
static void test_postgres_away(void **state)
{
    (void)state;
    (void)setenv("QUEEN_ACK_VERDICT_TIMEOUT_MS", "700", 1);
    make_leases(1, 2);
    flusher_up();
    PGconn *lock = lock_partition(1);
    worker_send(1, 1, 1);
    await_blocked_flush();
    postgres_stop(&pg, "immediate");
    PQfinish(lock);
    worker_send(2, 2, 2);
    worker_await(2);
    postgres_start(&pg);
    assert_true(verdicts[1] == ACK_UNKNOWN || verdicts[1] == ACK_FLUSH_ERROR);
    assert_int_equal(verdicts[2], ACK_FLUSH_ERROR);
    assert_int_equal(committed(1), -1);
    assert_int_equal(committed(2), -1);
    worker_send(3, 2, 2);
    worker_await(3);
    assert_int_equal(verdicts[3], ACK_COMMITTED);
}

/* A statement that runs into its deadline may still commit: unknown. */
static void test_deadline_is_unknown(void **state)
{
    (void)state;
    (void)setenv("QUEEN_STMT_TIMEOUT_MS", "500", 1);
    make_leases(1, 2);
    flusher_up();
    PGconn *lock = lock_partition(1);
    worker_send(1, 1, 1);
    worker_await(1);
    assert_int_equal(verdicts[1], ACK_UNKNOWN);
    PQfinish(lock);
    worker_send(2, 2, 2);
    worker_await(2);
    assert_int_equal(verdicts[2], ACK_COMMITTED);
}

static void test_slow_reader_loses_nothing(void **state)
{
    (void)state;
    enum { COUNT = 20000 }; /* some five times what its FIFO holds */
    make_leases(1, 1);
    flusher_up();
    for (unsigned i = 0; i < COUNT;) {
        /* The flusher must keep reading acks while this worker reads no verdict. */
        if (counters().flusher_requests + 1000 < i) {
            (void)usleep(200);
            continue;
        }
        worker_send(i++, 1, 1);
    }
    uint64_t until = clock_mono_ms() + PATIENCE_MS;
    while (counters().flusher_requests < COUNT && clock_mono_ms() < until)
        (void)usleep(1000);
    assert_int_equal(answered, 0);
    worker_await(COUNT);
}

static void other_worker(int up)
{
    struct err err;
    char path[128];
    struct slot mine;
    if (!slot_claim(shm, SLOT_WORKER, &mine, &err))
        _exit(2);
    fifo_path_verdict(run_dir, mine.index, path, sizeof path);
    if (fifo_open_reader(path, &err) < 0)
        _exit(3);
    worker_send_as(ack_fd, &mine, 7, 1, 1, SLICE_LITERAL("billing"));
    if (write(up, "x", 1) == 1)
        (void)pause();
    _exit(4);
}

/* A worker is killed while the flusher works for it. */
static void test_dead_worker_harms_nobody(void **state)
{
    (void)state;
    make_leases(1, 2);
    flusher_up();
    for (int round = 0; round < 3; round++) {
        PGconn *lock = lock_partition(1);
        int up[2];
        char c;
        assert_int_equal(pipe(up), 0);
        pid_t pid = fork();
        if (pid == 0)
            other_worker(up[1]);
        assert_int_equal(read(up[0], &c, 1), 1);
        (void)close(up[0]);
        (void)close(up[1]);
        await_blocked_flush();
        assert_int_equal(kill(pid, SIGKILL), 0);
        assert_int_equal(waitpid(pid, NULL, 0), pid);
        struct slot successor = {0};
        char path[128];
        int fd = -1;
        if (round == 1) {
            struct err err;
            assert_true(slot_claim(shm, SLOT_WORKER, &successor, &err));
            fifo_path_verdict(run_dir, successor.index, path, sizeof path);
            fd = fifo_open_reader(path, &err);
            assert_true(fd >= 0);
        }
        PQfinish(lock);
        worker_send((uint64_t)round, 2, 2);
        worker_await((size_t)round + 1);
        if (round == 1) {
            /* The slot's next owner gets nothing that was meant for the dead one; by now that
             * would be there. */
            assert_int_equal(successor.index, slot.index + 1);
            assert_int_equal(read(fd, path, sizeof path), -1);
            (void)close(fd);
            slot_release(&successor);
        }
    }
    assert_int_equal(verdicts[0], ACK_COMMITTED);
}

static void test_rubbish_in_the_fifo(void **state)
{
    (void)state;
    static const char rubbish[3000] = {1, 2, 3, 4, 5};
    make_leases(1, 2);
    flusher_up();
    struct ack_record damaged = {.length = sizeof damaged, .worker_slot = 9999};
    assert_int_equal(fifo_write(ack_fd, &damaged, sizeof damaged), FIFO_DONE);
    worker_send(1, 1, 1);
    worker_await(1);
    assert_int_equal(verdicts[1], ACK_COMMITTED);
    assert_true(log_has("an invalid record in the ack FIFO"));
    struct pollfd poller = {.fd = ack_fd, .events = POLLOUT};
    for (int i = 0; i < 50; i++) {
        assert_int_equal(fifo_write(ack_fd, rubbish, sizeof rubbish), FIFO_DONE);
        assert_int_equal(poll(&poller, 1, PATIENCE_MS), 1);
    }
    /* Once the FIFO was empty the next record is one again. */
    uint64_t until = clock_mono_ms() + PATIENCE_MS;
    uint64_t ticket = 2;
    while (answered < 2 && clock_mono_ms() < until) {
        worker_send(ticket++, 2, 2);
        (void)worker_read(100);
    }
    assert_true(answered >= 2);
    while (answered < ticket - 1 && worker_read(1000) > 0)
        ;
    assert_int_equal(committed(2), 100);
}

static void test_second_flusher_is_refused(void **state)
{
    (void)state;
    int status;
    flusher_up();
    pid_t second = flusher_spawn();
    assert_int_equal(waitpid(second, &status, 0), second);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 1);
    char text[96];
    (void)snprintf(text, sizeof text, "a flusher of this instance already runs: pid %d",
                   (int)flusher);
    assert_true(log_has(text));
}

static void test_killed_flusher_is_seen_and_replaced(void **state)
{
    (void)state;
    make_leases(1, 2);
    flusher_up();
    PGconn *lock = lock_partition(1);
    worker_send(1, 1, 1);
    await_blocked_flush();
    (void)flusher_end(SIGKILL);
    assert_int_equal(fifo_write(ack_fd, "x", 1), FIFO_GONE);
    (void)close(ack_fd);
    PQfinish(lock);
    flusher_up();
    worker_send(2, 2, 2);
    worker_await(1);
    assert_int_equal(verdicts[2], ACK_COMMITTED);
    assert_int_equal(counters().flusher_requests, 2); /* the killed one's is not lost */
}

static void test_stop_finishes_what_was_read(void **state)
{
    (void)state;
    make_leases(1, 3);
    flusher_up();
    PGconn *lock = lock_partition(1);
    worker_send(1, 1, 1);
    await_blocked_flush();
    worker_send(2, 2, 2);
    uint64_t until = clock_mono_ms() + PATIENCE_MS;
    while (counters().flusher_requests < 2 && clock_mono_ms() < until)
        (void)usleep(1000);
    assert_int_equal(kill(flusher, SIGTERM), 0);
    while (!log_has("stopping on signal 15") && clock_mono_ms() < until)
        (void)usleep(1000);
    PQfinish(lock);
    worker_await(2);
    assert_int_equal(verdicts[1], ACK_COMMITTED);
    assert_int_equal(verdicts[2], ACK_COMMITTED);
    int status;
    assert_int_equal(waitpid(flusher, &status, 0), flusher);
    flusher = 0;
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    struct slot_info info;
    assert_true(slot_read(shm, 4, &info));
    assert_int_equal(info.kind, SLOT_FREE);
}

/* More acks than the flusher keeps: the FIFO fills, workers see it full, and all that was taken is
 * answered in the end. */
static void test_backpressure(void **state)
{
    (void)state;
    make_leases(1, 1);
    flusher_up();
    PGconn *lock = lock_partition(1);
    worker_send(0, 1, 1);
    await_blocked_flush();
    struct ack_record r = {.length = sizeof r,
                           .worker_slot = slot.index,
                           .worker_generation = slot.generation,
                           .message_count = 1,
                           .batch_end = 100,
                           .partition_id = partition(1)};
    unsigned sent = 1, full_for = 0;
    uint64_t until = clock_mono_ms() + PATIENCE_MS;
    while (full_for < 200 && clock_mono_ms() < until) {
        r.ticket = sent;
        r.lease_id = lease(1000 + sent % 50000);
        if (fifo_write(ack_fd, &r, sizeof r) == FIFO_DONE) {
            sent++;
            full_for = 0;
        } else {
            (void)usleep(1000);
            full_for++;
        }
        assert_true(sent < TICKETS);
    }
    assert_true(log_has("too many acks wait"));
    assert_in_range(sent, 200000, 230000);
    PQfinish(lock);
    worker_await(sent);
    assert_int_equal(verdicts[0], ACK_COMMITTED);
    assert_int_equal(verdicts[sent - 1], ACK_REJECTED);
}

static void apply(const char *pattern)
{
    char command[512];
    (void)snprintf(command, sizeof command,
                   "for f in %s; do PGOPTIONS='-c client_min_messages=warning -c "
                   "check_function_bodies=off' psql -qX -v "
                   "ON_ERROR_STOP=1 -d '%s' -f $f || exit 1; done",
                   pattern, pg.conninfo);
    if (system(command) != 0) {
        postgres_destroy(&pg);
        (void)fprintf(stderr, "cannot apply %s\n", pattern);
        exit(2);
    }
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_verdict_follows_the_commit, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_busy_shard_accumulates, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_bad_row_fails_alone, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_broken_connection_is_settled, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_postgres_crash, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_postgres_away, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_deadline_is_unknown, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_slow_reader_loses_nothing, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_dead_worker_harms_nobody, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_rubbish_in_the_fifo, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_second_flusher_is_refused, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_killed_flusher_is_seen_and_replaced, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(test_stop_finishes_what_was_read, set_up, tear_down),
        cmocka_unit_test_setup_teardown(test_backpressure, set_up, tear_down),
    };
    (void)signal(SIGPIPE, SIG_IGN);
    ssize_t n = readlink("/proc/self/exe", program, sizeof program - 32);
    for (int up = 0; up < 2 && n > 0; up++)
        while (n > 0 && program[--n] != '/')
            ;
    (void)strcpy(program + (n < 0 ? 0 : n), "/bin/queen-flusher");
    if (access(program, X_OK) != 0) {
        (void)fprintf(stderr, "%s: make it first\n", program);
        return 2;
    }
    postgres_make(&pg);
    apply("sql/migrations/*.sql");
    apply("sql/functions/*.sql");
    if (argc > 1)
        cmocka_set_test_filter(argv[1]);
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    postgres_destroy(&pg);
    return failed;
}
