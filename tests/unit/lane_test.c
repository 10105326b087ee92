/* Lanes against a PostgreSQL of the test's own: outcomes, deadlines, lost servers. Nothing here is
 * decided by a timing: actions wait for what pg_stat_activity shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <sys/socket.h>
#include <sys/un.h>

#include "base/clock.h"
#include "base/logger.h"
#include "base/table.h"
#include "pg/lane.h"
#include "pg/result.h"
#include "postgres_fixture.h"

enum { GUARD_MS = 60000, LONG_MS = 30000 };

static struct postgres pg;
static struct loop *loop;

/* A job that records what happened to it. */
struct probe {
    struct pg_job job;
    int builds, dones;
    enum pg_status status;
    char sqlstate[6];
    char text[300];
    int64_t value; /* first column, when it is an int8 */
    size_t number, size;
    uint64_t order;
};

static uint64_t done_count, done_until;
static void (*checker)(const struct pg_outcome *outcome);

static void probe_done(struct pg_job *job, const struct pg_outcome *outcome)
{
    struct probe *p = TABLE_OWNER(job, struct probe, job);
    p->dones++;
    p->order = ++done_count;
    p->status = outcome->status;
    memcpy(p->sqlstate, outcome->sqlstate, sizeof p->sqlstate);
    (void)snprintf(p->text, sizeof p->text, "%s", outcome->text);
    assert_int_equal(outcome->status == PG_DONE, outcome->result != NULL);
    if (outcome->status == PG_DONE && PQntuples(outcome->result) == 1 &&
        PQftype(outcome->result, 0) == PG_INT8)
        p->value = pg_get_int8(outcome->result, 0, 0);
    if (checker != NULL)
        checker(outcome);
    if (done_count == done_until)
        loop_stop(loop);
}

static void guard_fire(struct loop_timer *timer)
{
    (void)timer;
    (void)fprintf(stderr, "the test hangs\n");
    postgres_destroy(&pg);
    abort();
}

static void loop_guarded(void)
{
    struct loop_timer guard = {.fire = guard_fire};
    loop_timer_set(loop, &guard, clock_mono_ms() + GUARD_MS);
    loop_run(loop);
    loop_timer_cancel(loop, &guard);
}

/* Runs until `n` further jobs are done. */
static void run_jobs(uint64_t n)
{
    done_until = done_count + n;
    loop_guarded();
}

/* Runs the loop until `what` holds. */
static struct {
    struct loop_timer timer;
    bool (*holds)(void);
} wait;

static void wait_fire(struct loop_timer *timer)
{
    if (wait.holds())
        loop_stop(loop);
    else
        loop_timer_set(loop, timer, clock_mono_ms() + 5);
}

static void run_until(bool (*holds)(void))
{
    wait.holds = holds;
    wait.timer.fire = wait_fire;
    loop_timer_set(loop, &wait.timer, clock_mono_ms());
    loop_guarded();
}

static struct pg_lane *lane;

static bool lane_is_up(void)
{
    return pg_lane_has_idle(lane);
}

static bool lane_is_down(void)
{
    return !pg_lane_connected(lane);
}

static bool sleeper_runs(void)
{
    return postgres_is(&pg, "select count(*) > 0 from pg_stat_activity where application_name ="
                            " 'queen-test' and wait_event = 'PgSleep'");
}

static void sleepers_end(void)
{
    postgres_ask(&pg, "select pg_terminate_backend(pid, 10000) from pg_stat_activity"
                      " where wait_event = 'PgSleep'");
}

static bool sleeper_is_gone(void)
{
    return !sleeper_runs();
}

static struct pg_lane *lane_make(int connections, uint64_t timeout_ms)
{
    struct pg_lane_config config = {.name = "test",
                                    .conninfo = pg.conninfo,
                                    .connections = connections,
                                    .statement_timeout_ms = timeout_ms};
    return pg_lane_new(loop, &config);
}

static void count_build(struct pg_job *job, struct pg_params *params)
{
    (void)params;
    TABLE_OWNER(job, struct probe, job)->builds++;
}

static void number_build(struct pg_job *job, struct pg_params *params)
{
    struct probe *p = TABLE_OWNER(job, struct probe, job);
    p->builds++;
    pg_param_int8(params, (int64_t)p->number);
}

static void bytes_build(struct pg_job *job, struct pg_params *params)
{
    struct probe *p = TABLE_OWNER(job, struct probe, job);
    char *bytes = mem_alloc(p->size);
    memset(bytes, 0xa5, p->size);
    p->builds++;
    pg_param_bytea(params, (struct slice){bytes, p->size});
    free(bytes);
}

static const struct pg_statement one = {.name = "one", .sql = "select 1::int8"};
static const struct pg_statement nap = {.name = "nap", .sql = "select pg_sleep(600)"};
static const struct pg_statement echo = {
    .name = "echo", .sql = "select $1", .param_count = 1, .types = {PG_INT8}};
static const struct pg_statement keep = {.name = "keep",
                                         .sql = "insert into kept values ($1) returning n",
                                         .param_count = 1,
                                         .types = {PG_INT8}};

static struct probe probe_of(const struct pg_statement *statement)
{
    return (struct probe){
        .job = {.statement = statement,
                .done = probe_done,
                .build = statement->param_count == 1 ? number_build : count_build}};
}

static void submit(struct probe *p)
{
    pg_lane_submit(lane, &p->job);
}

/* The lane still, or again, runs statements. */
static void check_works(void)
{
    struct probe p = probe_of(&one);
    p.job.deadline_ms = clock_mono_ms() + LONG_MS;
    submit(&p);
    run_jobs(1);
    assert_string_equal(p.text, "");
    assert_int_equal(p.status, PG_DONE);
    assert_int_equal(p.value, 1);
}

/* --- the tests --- */

static const char types_text[] = "t|-5|-6000000000|h\xc3\xa9|\\x00ff|"
                                 "0a000000-0000-0000-0000-0000000000ff||{1,NULL,-3}|{4,5}|"
                                 "{a,NULL,\"\"}|{\"\\\\x01\"}|{}|{t,f}";

static void types_build(struct pg_job *job, struct pg_params *p)
{
    (void)job;
    struct uuid u = {{10, [15] = 255}};
    pg_param_bool(p, true);
    pg_param_int4(p, -5);
    pg_param_int8(p, INT64_C(-6000000000));
    pg_param_text(p, SLICE_LITERAL("h\xc3\xa9"));
    pg_param_bytea(p, SLICE_LITERAL("\0\xff"));
    pg_param_uuid(p, &u);
    pg_param_null(p);
    pg_array_begin(p, PG_INT4);
    pg_array_int4(p, 1);
    pg_array_null(p);
    pg_array_int4(p, -3);
    pg_array_end(p);
    pg_array_begin(p, PG_INT8);
    pg_array_int8(p, 4);
    pg_array_int8(p, 5);
    pg_array_end(p);
    pg_array_begin(p, PG_TEXT);
    pg_array_bytes(p, SLICE_LITERAL("a"));
    pg_array_null(p);
    pg_array_bytes(p, SLICE_LITERAL(""));
    pg_array_end(p);
    pg_array_begin(p, PG_BYTEA);
    pg_array_bytes(p, SLICE_LITERAL("\1"));
    pg_array_end(p);
    pg_array_begin(p, PG_UUID);
    pg_array_end(p);
    pg_array_begin(p, PG_BOOL);
    pg_array_bool(p, true);
    pg_array_bool(p, false);
    pg_array_end(p);
}

static void types_check(const struct pg_outcome *outcome)
{
    const PGresult *r = outcome->result;
    assert_string_equal(outcome->text, "");
    struct uuid u = pg_get_uuid(r, 0, 6);
    assert_true(slice_is(pg_get_bytes(r, 0, 0), types_text));
    assert_true(pg_get_bool(r, 0, 1));
    assert_int_equal(pg_get_int4(r, 0, 2), -5);
    assert_int_equal(pg_get_int8(r, 0, 3), INT64_C(-6000000000));
    assert_true(slice_is(pg_get_bytes(r, 0, 4), "h\xc3\xa9"));
    assert_true(slice_equal(pg_get_bytes(r, 0, 5), SLICE_LITERAL("\0\xff")));
    assert_int_equal(u.bytes[0], 10);
    assert_int_equal(u.bytes[15], 255);
    assert_true(pg_is_null(r, 0, 7));
    assert_int_equal(pg_array_length(r, 0, 8), 2);
    assert_int_equal(pg_array_int(r, 0, 8, 1), 5);
    assert_int_equal(pg_array_length(r, 0, 9), 3);
    assert_int_equal(pg_array_int(r, 0, 9, 2), -8);
    assert_int_equal(pg_array_length(r, 0, 10), 0);
    assert_int_equal(pg_get_time_us(r, 0, 11), INT64_C(1000001));
    assert_true(slice_is(pg_get_jsonb(r, 0, 12), "{\"a\": 1}"));
    assert_true(slice_is(pg_get_bytes(r, 0, 13), "UTC|UTF8|queen-test"));
}

static void every_type(void **state)
{
    (void)state;
    static const struct pg_statement types = {
        .name = "types",
        .sql = "select concat_ws('|', $1, $2, $3, $4, $5, $6, coalesce($7, ''), $8::text, $9::text,"
               " $10::text, $11::text, $12::text, $13::text), $1, $2, $3, $4, $5, $6, $7, $9,"
               " array[7, 6, -8], '{}'::int8[], '1970-01-01 00:00:01.000001'::timestamptz,"
               " '{\"a\":1}'::jsonb, concat_ws('|', current_setting('timezone'),"
               " current_setting('client_encoding'), current_setting('application_name'))",
        .param_count = 13,
        .types = {PG_BOOL, PG_INT4, PG_INT8, PG_TEXT, PG_BYTEA, PG_UUID, PG_TEXT, PG_INT4_ARRAY,
                  PG_INT8_ARRAY, PG_TEXT_ARRAY, PG_BYTEA_ARRAY, PG_UUID_ARRAY, PG_BOOL_ARRAY}};
    struct probe p = probe_of(&types);
    p.job.build = types_build;
    lane = lane_make(1, LONG_MS);
    for (int again = 0; again < 2; again++) { /* prepared now, and then */
        checker = types_check;
        submit(&p);
        run_jobs(1);
        checker = NULL;
        assert_string_equal(p.text, "");
    }
    pg_lane_free(lane);
}

static void server_errors(void **state)
{
    (void)state;
    static const struct pg_statement bad = {
        .name = "bad", .sql = "select 1 / $1", .param_count = 1, .types = {PG_INT8}};
    static const struct pg_statement wrong = {.name = "wrong", .sql = "select nonsense"};
    static const struct pg_statement late = {.name = "late",
                                             .sql = "insert into twice values (1) returning 1"};
    struct probe p = probe_of(&bad), q = probe_of(&wrong), r = probe_of(&late);
    lane = lane_make(1, LONG_MS);
    submit(&p);
    submit(&q);
    submit(&r);
    run_jobs(3);
    assert_int_equal(p.status, PG_REFUSED);
    assert_string_equal(p.sqlstate, "22012");
    assert_string_equal(p.text, "division by zero");
    assert_int_equal(q.status, PG_REFUSED);
    assert_string_equal(q.sqlstate, "42703");
    /* Rows were returned, then the commit failed: a deferred constraint. */
    assert_int_equal(r.status, PG_REFUSED);
    assert_string_equal(r.sqlstate, "23505");
    assert_int_equal(pg_lane_lost(lane), 0);
    check_works();
    pg_lane_free(lane);
}

static void deadlines(void **state)
{
    (void)state;
    struct probe running = probe_of(&nap), waiting = probe_of(&one), late = probe_of(&one);
    lane = lane_make(1, LONG_MS);
    run_until(lane_is_up);
    submit(&running);
    run_until(sleeper_runs);
    waiting.job.deadline_ms = clock_mono_ms() + 30;
    submit(&waiting);
    run_jobs(1);
    assert_int_equal(waiting.status, PG_NOT_SENT);
    assert_int_equal(waiting.builds, 0);
    pg_lane_free(lane);
    assert_int_equal(running.status, PG_UNKNOWN); /* freed while it ran */
    sleepers_end();

    lane = lane_make(1, 300);
    run_until(lane_is_up);
    running = probe_of(&nap);
    submit(&running);
    run_jobs(1);
    assert_int_equal(running.status, PG_UNKNOWN);
    assert_int_equal(running.builds, 1);
    check_works();
    /* The server was told: the nap ends long before its 600 s. */
    run_until(sleeper_is_gone);
    late.job.deadline_ms = 1;
    submit(&late);
    run_jobs(1);
    assert_true(late.status == PG_NOT_SENT || late.status == PG_DONE);
    pg_lane_free(lane);
}

static void withdrawal(void **state)
{
    (void)state;
    struct probe running = probe_of(&nap), a = probe_of(&one), b = probe_of(&one);
    lane = lane_make(1, LONG_MS);
    run_until(lane_is_up);
    submit(&running);
    run_until(sleeper_runs);
    submit(&a);
    submit(&b);
    assert_int_equal(pg_lane_queued(lane), 2);
    assert_false(pg_lane_withdraw(lane, &running.job));
    assert_true(pg_lane_withdraw(lane, &a.job));
    assert_false(pg_lane_withdraw(lane, &a.job));
    assert_int_equal(pg_lane_queued(lane), 1);
    pg_lane_free(lane);
    assert_int_equal(a.dones, 0);
    assert_int_equal(b.status, PG_NOT_SENT);
    assert_int_equal(running.status, PG_UNKNOWN);
    sleepers_end();
}

/* Work that the owner hands out only when the lane says that it is idle. */
static struct probe idle_jobs[500];
static size_t idle_next;

static void idle_call(void *owner)
{
    assert_ptr_equal(owner, &idle_next);
    while (idle_next < 500 && pg_lane_has_idle(lane))
        submit(&idle_jobs[idle_next++]);
    assert_true(pg_lane_queued(lane) <= 3);
}

static void idle_owner(void **state)
{
    (void)state;
    struct pg_lane_config config = {.name = "test",
                                    .conninfo = pg.conninfo,
                                    .connections = 3,
                                    .statement_timeout_ms = LONG_MS,
                                    .idle = idle_call,
                                    .owner = &idle_next};
    for (size_t i = 0; i < 500; i++)
        idle_jobs[i] = probe_of(&one);
    lane = pg_lane_new(loop, &config);
    run_jobs(500);
    for (size_t i = 0; i < 500; i++)
        assert_int_equal(idle_jobs[i].status, PG_DONE);
    pg_lane_free(lane);
}

static void thousands(void **state)
{
    (void)state;
    enum { COUNT = 5000 };
    struct probe *p = mem_zalloc(COUNT * sizeof *p);
    for (int connections = 1; connections <= 3; connections += 2) {
        lane = lane_make(connections, LONG_MS);
        for (size_t i = 0; i < COUNT; i++) {
            p[i] = probe_of(&echo);
            p[i].number = i;
            submit(&p[i]);
        }
        run_jobs(COUNT);
        for (size_t i = 0; i < COUNT; i++) {
            assert_int_equal(p[i].dones, 1);
            assert_int_equal(p[i].builds, 1);
            assert_int_equal(p[i].value, i);
            if (connections == 1 && i > 0)
                assert_true(p[i].order > p[i - 1].order);
        }
        pg_lane_free(lane);
    }
    free(p);
}

static const struct pg_statement size_of = {
    .name = "size_of", .sql = "select length($1)::int8", .param_count = 1, .types = {PG_BYTEA}};

static void large_parameters(void **state)
{
    (void)state;
    static const size_t sizes[] = {0, 1, 65536, 1 << 20, 40 << 20};
    enum { COUNT = sizeof sizes / sizeof *sizes };
    struct probe p[COUNT];
    lane = lane_make(2, LONG_MS);
    for (size_t i = 0; i < COUNT; i++) {
        p[i] = probe_of(&size_of);
        p[i].job.build = bytes_build;
        p[i].size = sizes[i];
        submit(&p[i]);
    }
    run_jobs(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_string_equal(p[i].text, "");
        assert_int_equal(p[i].value, sizes[i]);
    }
    pg_lane_free(lane);
}

static int lane_backend(void)
{
    return atoi(postgres_ask(&pg, "select pid from pg_stat_activity"
                                  " where application_name = 'queen-test'"));
}

static struct probe stuck;

static bool stuck_is_built(void)
{
    return stuck.builds == 1;
}

/* The backend dies while most of the statement is still on our side: nothing happened, so the job
 * simply runs again. */
static void lost_while_sending(void **state)
{
    (void)state;
    stuck = probe_of(&size_of);
    stuck.job.build = bytes_build;
    stuck.size = 1;
    lane = lane_make(1, LONG_MS);
    submit(&stuck);
    run_jobs(1);
    stuck.builds = 0;
    stuck.size = 40 << 20;
    int backend = lane_backend();
    assert_int_equal(kill(backend, SIGSTOP), 0);
    submit(&stuck);
    run_until(stuck_is_built);
    assert_int_equal(kill(backend, SIGKILL), 0);
    run_jobs(1);
    assert_string_equal(stuck.text, "");
    assert_int_equal(stuck.status, PG_DONE);
    assert_int_equal(stuck.builds, 2);
    assert_int_equal(pg_lane_lost(lane), 1);
    pg_lane_free(lane);
}

static void backend_killed(void **state)
{
    (void)state;
    struct probe p = probe_of(&nap), q = probe_of(&one);
    lane = lane_make(1, LONG_MS);
    run_until(lane_is_up);
    submit(&p);
    submit(&q);
    run_until(sleeper_runs);
    assert_int_equal(kill(lane_backend(), SIGKILL), 0);
    run_jobs(2);
    assert_int_equal(p.status, PG_UNKNOWN);
    assert_int_equal(q.status, PG_DONE);
    pg_lane_free(lane);
}

static void backend_terminated(void **state)
{
    (void)state;
    struct probe p = probe_of(&nap);
    lane = lane_make(1, LONG_MS);
    run_until(lane_is_up);
    submit(&p);
    run_until(sleeper_runs);
    postgres_ask(&pg, "select pg_terminate_backend(%d)", lane_backend());
    run_jobs(1);
    assert_int_equal(p.status, PG_REFUSED);
    assert_string_equal(p.sqlstate, "57P01");
    check_works();
    pg_lane_free(lane);
}

static void server_restarted(void **state)
{
    (void)state;
    struct probe p = probe_of(&nap), dead = probe_of(&one), later = probe_of(&one);
    lane = lane_make(2, LONG_MS);
    run_until(lane_is_up);
    submit(&p);
    run_until(sleeper_runs);
    postgres_stop(&pg, "immediate");
    run_jobs(1);
    assert_int_equal(p.status, PG_UNKNOWN);
    run_until(lane_is_down);
    dead.job.deadline_ms = clock_mono_ms() + 200;
    submit(&dead);
    run_jobs(1);
    assert_int_equal(dead.status, PG_NOT_SENT);
    later.job.deadline_ms = clock_mono_ms() + LONG_MS;
    submit(&later);
    postgres_start(&pg);
    run_jobs(1);
    assert_int_equal(later.status, PG_DONE);
    pg_lane_free(lane);
}

static bool waits_for_standby(void)
{
    return postgres_is(&pg, "select count(*) > 0 from pg_stat_activity where wait_event ="
                            " 'SyncRep' and application_name = 'queen-test'");
}

/* A cancelled wait for the standbys looks like success, yet a failover may lose the commit. */
static void standby_wait_cancelled(void **state)
{
    (void)state;
    struct probe p = probe_of(&keep);
    lane = lane_make(1, LONG_MS);
    run_until(lane_is_up);
    postgres_ask(&pg, "alter system set synchronous_standby_names = 'nobody'");
    postgres_ask(&pg, "select pg_reload_conf()");
    submit(&p);
    run_until(waits_for_standby);
    postgres_ask(&pg, "select pg_cancel_backend(%d)", lane_backend());
    run_jobs(1);
    postgres_ask(&pg, "alter system reset synchronous_standby_names");
    postgres_ask(&pg, "select pg_reload_conf()");
    assert_int_equal(p.status, PG_UNKNOWN);
    check_works();
    pg_lane_free(lane);
}

static bool is_read_only(void)
{
    return postgres_is(&pg, "select current_setting('transaction_read_only') = 'on'");
}

static bool is_writable(void)
{
    return !is_read_only();
}

static void read_only_server(void **state)
{
    (void)state;
    struct probe p = probe_of(&keep), q = probe_of(&keep);
    lane = lane_make(1, LONG_MS);
    run_until(lane_is_up);
    postgres_ask(&pg, "alter system set default_transaction_read_only = on");
    postgres_ask(&pg, "select pg_reload_conf()");
    run_until(is_read_only);
    do { /* the lane's session hears of it a little later than a new one */
        p = probe_of(&keep);
        submit(&p);
        run_jobs(1);
    } while (p.status == PG_DONE);
    assert_int_equal(p.status, PG_REFUSED);
    assert_string_equal(p.sqlstate, "25006");
    assert_false(pg_lane_connected(lane)); /* nothing writable to be had */
    q.job.deadline_ms = clock_mono_ms() + LONG_MS;
    submit(&q);
    PGconn *conn = PQconnectdb(pg.conninfo);
    PQclear(PQexec(conn, "set default_transaction_read_only = off"));
    PGresult *r = PQexec(conn, "alter system reset default_transaction_read_only");
    assert_int_equal(PQresultStatus(r), PGRES_COMMAND_OK);
    PQclear(r);
    PQclear(PQexec(conn, "select pg_reload_conf()"));
    PQfinish(conn);
    run_until(is_writable);
    if (q.dones == 0)
        run_jobs(1);
    assert_int_equal(q.status, PG_DONE);
    pg_lane_free(lane);
}

/* A schema upgrade below a prepared statement. */
static void plan_changed(void **state)
{
    (void)state;
    static const struct pg_statement star = {.name = "star", .sql = "select * from shape"};
    struct probe p = probe_of(&star);
    lane = lane_make(1, LONG_MS);
    submit(&p);
    run_jobs(1);
    assert_int_equal(p.status, PG_DONE);
    postgres_ask(&pg, "alter table shape add column more int");
    submit(&p);
    run_jobs(1);
    assert_string_equal(p.text, "");
    assert_int_equal(p.status, PG_DONE);
    pg_lane_free(lane);
}

/* The first host accepts and never answers; the second is the server. */
static void silent_host(void **state)
{
    (void)state;
    char dir[] = "/tmp/queen-silent-XXXXXX", conninfo[300];
    assert_non_null(mkdtemp(dir));
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    (void)snprintf(at.sun_path, sizeof at.sun_path, "%s/.s.PGSQL.5432", dir);
    int silent = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(silent, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(silent, 100), 0);
    (void)snprintf(conninfo, sizeof conninfo,
                   "host=%s,%s user=queen dbname=postgres target_session_attrs=read-write", dir,
                   pg.dir);
    struct pg_lane_config config = {
        .name = "test", .conninfo = conninfo, .connections = 1, .statement_timeout_ms = LONG_MS};
    lane = pg_lane_new(loop, &config);
    check_works();
    pg_lane_free(lane);
    (void)close(silent);
    (void)unlink(at.sun_path);
    (void)rmdir(dir);
}

static void no_server(void **state)
{
    (void)state;
    static const char *const conninfos[] = {"host=/nonexistent user=queen", "host='unbalanced",
                                            "postgresql://%%%"};
    for (size_t i = 0; i < 3; i++) {
        struct pg_lane_config config = {.name = "test",
                                        .conninfo = conninfos[i],
                                        .connections = 2,
                                        .statement_timeout_ms = 200};
        struct probe p = probe_of(&one);
        lane = pg_lane_new(loop, &config);
        submit(&p);
        run_jobs(1);
        assert_int_equal(p.status, PG_NOT_SENT);
        assert_false(pg_lane_connected(lane));
        assert_int_equal(pg_lane_lost(lane), 0);
        pg_lane_free(lane);
    }
}

static int setup(void **state)
{
    (void)state;
    logger_init("lane_test", getenv("VERBOSE") != NULL ? LOGGER_DEBUG : LOGGER_ERROR);
    postgres_make(&pg);
    postgres_ask(&pg, "create table kept (n int8)");
    postgres_ask(&pg, "create table shape (n int8)");
    postgres_ask(&pg, "create table twice (n int unique deferrable initially deferred)");
    postgres_ask(&pg, "insert into twice values (1)");
    loop = loop_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    loop_free(loop);
    postgres_destroy(&pg);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_type),       cmocka_unit_test(server_errors),
        cmocka_unit_test(deadlines),        cmocka_unit_test(withdrawal),
        cmocka_unit_test(idle_owner),       cmocka_unit_test(thousands),
        cmocka_unit_test(large_parameters), cmocka_unit_test(lost_while_sending),
        cmocka_unit_test(backend_killed),   cmocka_unit_test(backend_terminated),
        cmocka_unit_test(server_restarted), cmocka_unit_test(standby_wait_cancelled),
        cmocka_unit_test(read_only_server), cmocka_unit_test(plan_changed),
        cmocka_unit_test(silent_host),      cmocka_unit_test(no_server),
    };
    return cmocka_run_group_tests_name("lane", tests, setup, teardown);
}
