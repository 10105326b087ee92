/* A PostgreSQL of the test's own: fresh data directory, unix socket only, real signals. PostgreSQL
 * refuses to run as root, so root starts it as user postgres. Programs: PG_BINDIR, else
 * `pg_config --bindir`. */
#ifndef TESTS_POSTGRES_FIXTURE_H
#define TESTS_POSTGRES_FIXTURE_H

#include <libpq-fe.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct postgres {
    char dir[64];
    char conninfo[160];
};

__attribute__((format(printf, 2, 3))) static inline void postgres_run(const struct postgres *pg,
                                                                      const char *fmt, ...)
{
    char command[1024], line[2048];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(command, sizeof command, fmt, ap);
    va_end(ap);
    (void)snprintf(line, sizeof line,
                   "cd / && PATH=\"${PG_BINDIR:-$(pg_config --bindir)}:$PATH\" && export PATH && "
                   "%s %s >>%s/fixture.log 2>&1",
                   geteuid() == 0 ? "setpriv --reuid=postgres --regid=postgres --clear-groups" : "",
                   command, pg->dir);
    if (system(line) != 0) {
        (void)fprintf(stderr, "failed: %s\n", line);
        (void)snprintf(line, sizeof line, "cat %s/fixture.log %s/log >&2", pg->dir, pg->dir);
        if (system(line) != 0)
            (void)fprintf(stderr, "no logs\n");
        exit(2);
    }
}

static inline void postgres_start(const struct postgres *pg)
{
    postgres_run(pg,
                 "pg_ctl -D %s/data -l %s/log -w -t 60 start -o \"-c listen_addresses= "
                 "-c unix_socket_directories=%s -c fsync=off -c max_connections=40\"",
                 pg->dir, pg->dir, pg->dir);
}

/* mode: fast or immediate */
static inline void postgres_stop(const struct postgres *pg, const char *mode)
{
    postgres_run(pg, "pg_ctl -D %s/data -w -t 60 stop -m %s", pg->dir, mode);
}

static inline void postgres_make(struct postgres *pg)
{
    (void)snprintf(pg->dir, sizeof pg->dir, "/tmp/queen-test-XXXXXX");
    char chown_dir[128];
    (void)snprintf(chown_dir, sizeof chown_dir, "chown postgres: %s",
                   mkdtemp(pg->dir) != NULL ? pg->dir : "");
    if (geteuid() == 0 && system(chown_dir) != 0)
        exit(2);
    (void)snprintf(pg->conninfo, sizeof pg->conninfo, "host=%s user=queen dbname=postgres",
                   pg->dir);
    postgres_run(pg, "initdb -D %s/data --auth=trust -U queen -N --no-instructions", pg->dir);
    postgres_start(pg);
}

static inline void postgres_destroy(const struct postgres *pg)
{
    char command[128];
    (void)snprintf(command, sizeof command, "%s/data/postmaster.pid", pg->dir);
    if (access(command, F_OK) == 0) /* a failed test may have left it stopped */
        postgres_stop(pg, "immediate");
    (void)snprintf(command, sizeof command, "rm -rf %s", pg->dir);
    if (system(command) != 0)
        exit(2);
}

/* One statement on a connection of its own; the first column of the first row in a static buffer,
 * "" for none. Dies when it fails. */
__attribute__((format(printf, 2, 3))) static inline const char *
postgres_ask(const struct postgres *pg, const char *fmt, ...)
{
    static char answer[1024];
    char sql[4096];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(sql, sizeof sql, fmt, ap);
    va_end(ap);
    char quiet[256];
    (void)snprintf(quiet, sizeof quiet, "%s options='-c client_min_messages=warning'",
                   pg->conninfo);
    PGconn *conn = PQconnectdb(quiet);
    PGresult *r = PQexec(conn, sql);
    if (PQresultStatus(r) != PGRES_TUPLES_OK && PQresultStatus(r) != PGRES_COMMAND_OK) {
        (void)fprintf(stderr, "%s: %s", sql, PQerrorMessage(conn));
        postgres_destroy(pg); /* nobody else will stop it */
        exit(2);
    }
    (void)snprintf(answer, sizeof answer, "%s",
                   PQntuples(r) > 0 && PQnfields(r) > 0 ? PQgetvalue(r, 0, 0) : "");
    PQclear(r);
    PQfinish(conn);
    return answer;
}

static inline bool postgres_is(const struct postgres *pg, const char *sql)
{
    return strcmp(postgres_ask(pg, "%s", sql), "t") == 0;
}

#endif
