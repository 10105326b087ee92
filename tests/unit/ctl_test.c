/* queenctl as a process, against a PostgreSQL of the test's own. Run from the top directory. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/settings.h"
#include "postgres_fixture.h"
#include "process_fixture.h"
#include "shm/slots.h"

#include <glob.h>
#include <sys/stat.h>
#include <xxhash.h>

static struct postgres pg;
static char run_dir[] = "/tmp/queen-ctl-XXXXXX", output[64];

static int ctl(const char *arg1, const char *arg2)
{
    return process_wait(process_start("queenctl", arg1, arg2, output));
}

#define ASK(...)   postgres_ask(&pg, __VA_ARGS__)
#define COUNT(sql) atoi(ASK("select count(*) from " sql))

static void schema_drop(void)
{
    ASK("drop schema if exists queen cascade");
}

static size_t files_of(const char *pattern)
{
    glob_t g;
    size_t n = glob(pattern, 0, NULL, &g) == 0 ? g.gl_pathc : 0;
    globfree(&g);
    return n;
}

static void usage(void **state)
{
    (void)state;
    assert_int_equal(ctl("help", NULL), 0);
    assert_true(file_has(output, "Exit codes"));
    assert_int_equal(ctl(NULL, NULL), 2);
    assert_int_equal(ctl("nonsense", NULL), 2);
    assert_int_equal(ctl("migrate", "--json"), 2);
    assert_int_equal(ctl("registry", "--json"), 2);
}

static void config(void **state)
{
    (void)state;
    char url[200];
    (void)snprintf(url, sizeof url, "%s password=opensesame", pg.conninfo);
    assert_int_equal(setenv("QUEEN_DATABASE_URL", url, 1), 0);
    assert_int_equal(ctl("config", NULL), 0);
    assert_true(file_has(output, "QUEEN_DATABASE_URL=(set)\n"));
    assert_false(file_has(output, "opensesame"));
    assert_int_equal(ctl("config", "--markdown"), 0);
    assert_true(file_has(output, "| `QUEEN_RUN_DIR` | `/run/queen` |"));
    assert_int_equal(setenv("QUEEN_DATABASE_URL", "host=x 'opensesame", 1), 0);
    assert_int_equal(ctl("migrate", NULL), 1);
    assert_false(file_has(output, "opensesame"));
    assert_int_equal(setenv("QUEEN_DATABASE_URL", pg.conninfo, 1), 0);
    assert_int_equal(setenv("QUEEN_IO_THREADS", "no", 1), 0);
    assert_int_equal(ctl("config", NULL), 1);
    assert_true(file_has(output, "QUEEN_IO_THREADS"));
    assert_int_equal(unsetenv("QUEEN_IO_THREADS"), 0);
}

static void migrate_concurrently(void **state)
{
    (void)state;
    pid_t pids[6];
    char file[6][80];
    schema_drop();
    for (size_t i = 0; i < 6; i++) {
        (void)snprintf(file[i], sizeof file[i], "%s.%zu", output, i);
        pids[i] = process_start("queenctl", "migrate", NULL, file[i]);
    }
    for (size_t i = 0; i < 6; i++) {
        assert_int_equal(process_wait(pids[i]), 0);
        (void)unlink(file[i]);
    }
    assert_int_equal(COUNT("queen.schema_migrations"), files_of("sql/migrations/*.sql"));
    assert_int_equal(COUNT("queen.schema_functions"), files_of("sql/functions/*.sql"));
    assert_true(COUNT("pg_proc where pronamespace = 'queen'::regnamespace") > 0);
    /* Nothing is left to do. */
    ASK("create table before as select * from queen.schema_functions");
    assert_int_equal(ctl("migrate", NULL), 0);
    assert_true(file_has(output, " 0 migrations and 0 function files applied"));
    assert_int_equal(COUNT("queen.schema_functions f join before b using (name, applied_at)"),
                     COUNT("before"));
    ASK("drop table before");
}

/* The SQL survived its way through a C string literal. */
static void embedded_as_written(void **state)
{
    (void)state;
    glob_t g;
    assert_int_equal(glob("sql/*/*.sql", 0, NULL, &g), 0);
    for (size_t i = 0; i < g.gl_pathc; i++) {
        static char text[1 << 20];
        FILE *f = fopen(g.gl_pathv[i], "r");
        assert_non_null(f);
        size_t n = fread(text, 1, sizeof text, f);
        (void)fclose(f);
        XXH128_hash_t hash = XXH3_128bits(text, n);
        char hex[33];
        (void)snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)hash.high64,
                       (unsigned long long)hash.low64);
        assert_string_equal(ASK("select checksum from (select name, checksum from"
                                " queen.schema_migrations union all select name, checksum from"
                                " queen.schema_functions) f where name = '%s'",
                                strrchr(g.gl_pathv[i], '/') + 1),
                            hex);
    }
    globfree(&g);
}

static void function_changed(void **state)
{
    (void)state;
    ASK("update queen.schema_functions set checksum = 'old' where name ="
        " (select min(name) from queen.schema_functions)");
    assert_int_equal(ctl("migrate", NULL), 0);
    assert_true(file_has(output, " 0 migrations and 1 function files applied"));
}

static void migration_changed(void **state)
{
    (void)state;
    ASK("update queen.schema_migrations set checksum = 'x' || checksum where number = 1");
    assert_int_equal(ctl("migrate", NULL), 1);
    assert_true(file_has(output, "was changed after it had been applied"));
    ASK("update queen.schema_migrations set checksum = substr(checksum, 2) where number = 1");
    assert_int_equal(ctl("migrate", NULL), 0);
}

static void database_is_newer(void **state)
{
    (void)state;
    ASK("insert into queen.schema_migrations values (900000, 'future', 'x')");
    assert_int_equal(ctl("migrate", NULL), 1);
    assert_true(file_has(output, "newer release"));
    assert_int_equal(ctl("migrate", "--allow-newer"), 0);
    ASK("delete from queen.schema_migrations where number = 900000");
}

/* A migration that fails leaves nothing behind and says why; the next run goes on. */
static void migration_fails(void **state)
{
    (void)state;
    schema_drop();
    ASK("create schema queen");
    ASK("create table queen.log_segments (in_the_way int)");
    assert_int_equal(ctl("migrate", NULL), 1);
    assert_true(file_has(output, "log_segments"));
    assert_int_equal(COUNT("queen.schema_migrations"), 0);
    assert_int_equal(COUNT("pg_class where relname = 'log_partitions'"), 0);
    ASK("drop table queen.log_segments");
    /* Nor does one that cannot be recorded. */
    ASK("alter table queen.schema_migrations add constraint never check (number <> 1)");
    assert_int_equal(ctl("migrate", NULL), 1);
    assert_int_equal(COUNT("pg_class where relname = 'log_partitions'"), 0);
    ASK("alter table queen.schema_migrations drop constraint never");
    assert_int_equal(ctl("migrate", NULL), 0);
}

/* One that was killed while it waited for the lock is in nobody's way. */
static void migrate_killed(void **state)
{
    (void)state;
    schema_drop();
    PGconn *holder = PQconnectdb(pg.conninfo);
    PQclear(PQexec(holder, "select pg_advisory_lock(x'717565656e63746c'::bigint)"));
    pid_t pid = process_start("queenctl", "migrate", NULL, output);
    while (COUNT("pg_stat_activity where application_name = 'queenctl' and wait_event ="
                 " 'advisory'") == 0)
        (void)usleep(5000);
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(process_wait(pid), 128 + SIGKILL);
    PQfinish(holder);
    assert_int_equal(ctl("migrate", NULL), 0);
}

static void status(void **state)
{
    (void)state;
    struct settings settings;
    struct shm *shm;
    struct slot slot;
    struct err err;
    char pid[64];
    assert_true(settings_load(&settings, &err));
    assert_true(shm_attach(&settings, &shm, &err));
    assert_true(slot_claim(shm, SLOT_WORKER, &slot, &err));
    slot_count(&slot.counters->push_messages, 4711);
    (void)snprintf(pid, sizeof pid, "\"kind\":\"worker\",\"pid\":%d,", (int)getpid());
    assert_int_equal(ctl("status", "--json"), 0);
    assert_true(file_has(output, "{\"database\":{\"reachable\":true,\"version\":15"));
    assert_true(file_has(output, pid));
    assert_true(file_has(output, "\"push_messages\":4711,"));
    assert_int_equal(ctl("status", NULL), 0);
    assert_true(file_has(output, "worker   pid"));
    assert_int_equal(ctl("registry", NULL), 0);
    assert_true(file_has(output, "capacity"));
    assert_int_equal(setenv("QUEEN_DATABASE_URL", "host=/nonexistent", 1), 0);
    assert_int_equal(ctl("status", "--json"), 3);
    assert_true(file_has(output, "{\"reachable\":false,\"version\":0,\"error\":\""));
    assert_int_equal(setenv("QUEEN_DATABASE_URL", pg.conninfo, 1), 0);
    /* We use it. */
    assert_int_equal(ctl("shm-remove", NULL), 1);
    slot_release(&slot);
    shm_detach(shm);
    assert_int_equal(ctl("shm-remove", NULL), 0);
}

static int setup(void **state)
{
    (void)state;
    if (mkdtemp(run_dir) == NULL)
        return -1;
    (void)snprintf(output, sizeof output, "%s/output", run_dir);
    postgres_make(&pg);
    (void)setenv("QUEEN_RUN_DIR", run_dir, 1);
    (void)setenv("QUEEN_ACK_REGISTRY_MB", "1", 1);
    (void)setenv("QUEEN_DATABASE_URL", pg.conninfo, 1);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    char command[128];
    (void)ctl("shm-remove", "--force");
    postgres_destroy(&pg);
    (void)snprintf(command, sizeof command, "rm -rf %s", run_dir);
    return system(command);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(usage),
        cmocka_unit_test(config),
        cmocka_unit_test(migrate_concurrently),
        cmocka_unit_test(embedded_as_written),
        cmocka_unit_test(function_changed),
        cmocka_unit_test(migration_changed),
        cmocka_unit_test(database_is_newer),
        cmocka_unit_test(migration_fails),
        cmocka_unit_test(migrate_killed),
        cmocka_unit_test(status),
    };
    return cmocka_run_group_tests_name("ctl", tests, setup, teardown);
}
