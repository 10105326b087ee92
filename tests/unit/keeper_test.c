/* queen-keeper as a process, with a PostgreSQL of the test's own and the product's schema. The test
 * itself plays a worker: it holds a slot, claims to have parked pops and reads its wake FIFO. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/settings.h"
#include "base/table.h"
#include "postgres_fixture.h"
#include "process_fixture.h"
#include "shm/fifo.h"
#include "shm/slots.h"

#include <poll.h>

enum { GUARD_MS = 60000 };

static struct postgres pg;
static char run_dir[] = "/tmp/queen-keeper-XXXXXX", output[64], second_output[64];
static struct settings settings;
static struct shm *shm;
static struct slot worker;
static int wake_fd = -1;
static pid_t keeper;

#define ASK(...) postgres_ask(&pg, __VA_ARGS__)

/* Waits for a wake record of this queue (hash); others are read over. False after a minute. */
static bool wake_comes(uint64_t queue)
{
    struct wake_record records[64];
    for (;;) {
        struct pollfd p = {.fd = wake_fd, .events = POLLIN};
        if (poll(&p, 1, GUARD_MS) != 1)
            return false;
        ssize_t n = read(wake_fd, records, sizeof records);
        for (size_t i = 0; n > 0 && i < (size_t)n / sizeof *records; i++) {
            assert_int_equal(records[i].partition, 0);
            assert_int_equal(records[i].group, 0);
            if (records[i].queue == queue)
                return true;
        }
    }
}

static void wakes_forget(void)
{
    struct wake_record records[64];
    while (read(wake_fd, records, sizeof records) > 0)
        ;
}

static uint64_t hash_of(const char *queue)
{
    return table_hash(slice_of(queue), (struct slice){0});
}

/* What a push of another host does. */
static void write_elsewhere(const char *queue)
{
    ASK("select queen.log_provision_v1(array['%s'], array['p'])", queue);
    ASK("update queen.log_partitions p set last_write_at = date_trunc('second',"
        " clock_timestamp()) from queen.queues q where q.id = p.queue_id and q.name = '%s'",
        queue);
}

static bool until(bool (*holds)(void))
{
    for (int i = 0; i < GUARD_MS / 10; i++) {
        if (holds())
            return true;
        (void)usleep(10000);
    }
    return false;
}

static void park(uint64_t count)
{
    atomic_store(&worker.counters->pop_parked, count);
}

static void hints(void **state)
{
    (void)state;
    park(1);
    assert_true(wake_comes(0)); /* the keeper has just started: it cannot know */
    write_elsewhere("first");
    assert_true(wake_comes(hash_of("first")));
    write_elsewhere("second \xc3\xa9");
    assert_true(wake_comes(hash_of("second \xc3\xa9")));
}

/* With nobody waiting, not even a question is asked. */
static bool keeper_asked_lately(void)
{
    return postgres_is(&pg, "select count(*) > 0 from pg_stat_activity where application_name ="
                            " 'queen-keeper' and query ~ 'recent_writes'"
                            " and state_change > clock_timestamp() - interval '500 ms'");
}

static bool keeper_is_quiet(void)
{
    return postgres_is(&pg, "select count(*) = 2 from pg_stat_activity where application_name ="
                            " 'queen-keeper'"
                            " and state_change < clock_timestamp() - interval '500 ms'");
}

static void nobody_waits(void **state)
{
    (void)state;
    assert_true(until(keeper_asked_lately));
    park(0);
    assert_true(until(keeper_is_quiet));
    park(1);
    assert_true(until(keeper_asked_lately));
}

static void one_per_instance(void **state)
{
    (void)state;
    pid_t other = process_start("queen-keeper", NULL, NULL, second_output);
    assert_int_equal(process_wait(other), 1);
    assert_true(file_has(second_output, "already runs: pid"));
}

static void worker_that_came(void **state)
{
    (void)state;
    slot_release(&worker);
    struct err err;
    wakes_forget();
    assert_true(slot_claim(shm, SLOT_WORKER, &worker, &err));
    park(1);
    assert_true(wake_comes(0));
}

static uint32_t dead_index;

static bool dead_is_free(void)
{
    struct slot_info info;
    return slot_read(shm, dead_index, &info) && info.kind == SLOT_FREE;
}

static void dead_worker(void **state)
{
    (void)state;
    int pipe_fds[2];
    assert_int_equal(pipe(pipe_fds), 0);
    pid_t child = fork();
    if (child == 0) {
        struct slot slot;
        struct err err;
        if (slot_claim(shm, SLOT_WORKER, &slot, &err) &&
            write(pipe_fds[1], &slot.index, sizeof slot.index) > 0)
            (void)pause();
        _exit(1);
    }
    assert_int_equal(read(pipe_fds[0], &dead_index, sizeof dead_index), sizeof dead_index);
    assert_false(dead_is_free());
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(process_wait(child), 128 + SIGKILL);
    assert_true(until(dead_is_free));
    (void)close(pipe_fds[0]);
    (void)close(pipe_fds[1]);
}

static bool old_hashes_gone(void)
{
    return postgres_is(&pg, "select not exists (select from queen.log_txns where created_at <"
                            " now() - interval '20 days')");
}

static void purge(void **state)
{
    (void)state;
    ASK("select queen.log_provision_v1(array['purged'], array['p'])");
    ASK("insert into queen.log_txns (partition_id, base_offset, end_offset, created_at, hashes)"
        " select p.id, o, o, now() - (case when o < 3 then interval '30 days' else '0' end),"
        " decode(repeat('ab', 16), 'hex') from queen.log_partitions p"
        " join queen.queues q on q.id = p.queue_id cross join generate_series(0, 5) o"
        " where q.name = 'purged'");
    ASK("update queen.log_partitions p set last_offset = 5,"
        " oldest_txn_at = now() - interval '30 days' from queen.queues q"
        " where q.id = p.queue_id and q.name = 'purged'");
    assert_true(until(old_hashes_gone));
    assert_string_equal(ASK("select string_agg(base_offset::text, ',' order by base_offset)"
                            " from queen.log_txns"),
                        "3,4,5");
}

static bool keeper_reconnected(void)
{
    return postgres_is(&pg, "select count(*) = 3 from pg_stat_activity"
                            " where application_name = 'queen-keeper'");
}

static void database_restarts(void **state)
{
    (void)state;
    postgres_stop(&pg, "immediate");
    wakes_forget();
    postgres_start(&pg);
    assert_true(wake_comes(0)); /* what was written meanwhile nobody knows */
    assert_true(until(keeper_reconnected));
    write_elsewhere("after");
    assert_true(wake_comes(hash_of("after")));
    assert_int_equal(waitpid(keeper, NULL, WNOHANG), 0);
}

static bool keeper_is_ready(void)
{
    return file_has(output, "keeper: ready");
}

static void stops(void **state)
{
    (void)state;
    assert_int_equal(kill(keeper, SIGTERM), 0);
    assert_int_equal(process_wait(keeper), 0);
    /* Also when the database is away. */
    postgres_stop(&pg, "immediate");
    keeper = process_start("queen-keeper", NULL, NULL, output);
    assert_true(until(keeper_is_ready));
    assert_int_equal(kill(keeper, SIGINT), 0);
    assert_int_equal(process_wait(keeper), 0);
    keeper = 0;
    postgres_start(&pg);
}

/* A killed keeper leaves nothing that stops the next. */
static void killed(void **state)
{
    (void)state;
    wakes_forget();
    keeper = process_start("queen-keeper", NULL, NULL, output);
    assert_true(wake_comes(0));
    assert_int_equal(kill(keeper, SIGKILL), 0);
    assert_int_equal(process_wait(keeper), 128 + SIGKILL);
    wakes_forget();
    keeper = process_start("queen-keeper", NULL, NULL, output);
    assert_true(wake_comes(0));
    assert_int_equal(kill(keeper, SIGTERM), 0);
    assert_int_equal(process_wait(keeper), 0);
    keeper = 0;
}

static void output_show(void)
{
    char command[128];
    (void)snprintf(command, sizeof command, "cat %s >&2", output);
    if (system(command) != 0)
        (void)fprintf(stderr, "no output\n");
}

static int setup(void **state)
{
    (void)state;
    struct err err;
    char path[PATH_MAX];
    if (mkdtemp(run_dir) == NULL)
        return -1;
    (void)snprintf(output, sizeof output, "%s/output", run_dir);
    (void)snprintf(second_output, sizeof second_output, "%s/second", run_dir);
    postgres_make(&pg);
    (void)setenv("QUEEN_RUN_DIR", run_dir, 1);
    (void)setenv("QUEEN_ACK_REGISTRY_MB", "1", 1);
    (void)setenv("QUEEN_DATABASE_URL", pg.conninfo, 1);
    (void)setenv("QUEEN_FALLBACK_POLL_MS", "100", 1);
    if (process_wait(process_start("queenctl", "migrate", NULL, output)) != 0) {
        output_show();
        return -1;
    }
    if (!settings_load(&settings, &err) || !shm_attach(&settings, &shm, &err) ||
        !slot_claim(shm, SLOT_WORKER, &worker, &err)) {
        (void)fprintf(stderr, "%s\n", err.text);
        return -1;
    }
    fifo_path_wake(run_dir, worker.index, path, sizeof path);
    wake_fd = fifo_open_reader(path, &err);
    keeper = process_start("queen-keeper", NULL, NULL, output);
    return wake_fd < 0 ? -1 : 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    if (keeper != 0) {
        (void)kill(keeper, SIGKILL);
        (void)process_wait(keeper);
        output_show();
    }
    if (worker.counters != NULL)
        slot_release(&worker);
    if (shm != NULL)
        shm_detach(shm);
    (void)process_wait(process_start("queenctl", "shm-remove", "--force", second_output));
    postgres_destroy(&pg);
    (void)snprintf(command, sizeof command, "rm -rf %s", run_dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(hints),
        cmocka_unit_test(nobody_waits),
        cmocka_unit_test(one_per_instance),
        cmocka_unit_test(worker_that_came),
        cmocka_unit_test(dead_worker),
        cmocka_unit_test(purge),
        cmocka_unit_test(database_restarts),
        cmocka_unit_test(stops),
        cmocka_unit_test(killed),
    };
    return cmocka_run_group_tests_name("keeper", tests, setup, teardown);
}
