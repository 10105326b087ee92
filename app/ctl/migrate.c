/* queenctl migrate: brings the schema to the state of this release. Safe to run any number of
 * times, by any number of hosts at once: a session advisory lock lets one in at a time, and every
 * step is one transaction. */
#include "ctl/ctl.h"

#include "base/logger.h"
#include "ctl/sql_files.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

enum { CHECKSUM_SIZE = 33, MIGRATIONS_MAX = 1000 };

/* "queenctl" in ASCII. */
static const char lock_sql[] = "select pg_advisory_lock(x'717565656e63746c'::bigint)";

static const char bootstrap_sql[] =
    "do $$ begin"
    " if to_regnamespace('queen') is null then create schema queen; end if;"
    " if to_regclass('queen.schema_migrations') is null then"
    "  create table queen.schema_migrations (number int primary key, name text not null,"
    "   checksum text not null, applied_at timestamptz not null default clock_timestamp());"
    " end if;"
    " if to_regclass('queen.schema_functions') is null then"
    "  create table queen.schema_functions (name text primary key, checksum text not null,"
    "   applied_at timestamptz not null default clock_timestamp());"
    " end if;"
    " end $$";

struct migration {
    int number;
    const char *name; /* file name */
    const char *text;
    char checksum[CHECKSUM_SIZE];
};

static void checksum_of(const char *text, char out[CHECKSUM_SIZE])
{
    XXH128_canonical_t digest;
    XXH128_canonicalFromHash(&digest, XXH3_128bits(text, strlen(text)));
    for (size_t i = 0; i < sizeof digest.digest; i++)
        (void)snprintf(out + 2 * i, 3, "%02x", digest.digest[i]);
}

/* Runs SQL without rows of interest; params may be NULL when there are none. */
static bool sql_run(PGconn *pg, const char *sql, int count, const char *const *params,
                    struct err *err)
{
    PGresult *r = params == NULL ? PQexec(pg, sql)
                                 : PQexecParams(pg, sql, count, NULL, params, NULL, NULL, 0);
    ExecStatusType status = PQresultStatus(r);
    bool done = status == PGRES_COMMAND_OK || status == PGRES_TUPLES_OK;
    if (!done)
        (void)err_set(err, "%s", PQresultErrorMessage(r));
    PQclear(r);
    return done;
}

/* NULL with err; the caller clears the result. */
static PGresult *sql_rows(PGconn *pg, const char *sql, struct err *err)
{
    PGresult *r = PQexec(pg, sql);
    if (PQresultStatus(r) == PGRES_TUPLES_OK)
        return r;
    (void)err_set(err, "%s", PQresultErrorMessage(r));
    PQclear(r);
    return NULL;
}

static const char *name_below(const struct sql_file *file, const char *directory)
{
    size_t n = strlen(directory);
    return strncmp(file->path, directory, n) == 0 ? file->path + n : NULL;
}

static int migration_compare(const void *a, const void *b)
{
    const struct migration *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/* The migrations compiled in, in number order. */
static bool migrations_known(struct migration *out, size_t *count, struct err *err)
{
    *count = 0;
    for (const struct sql_file *f = sql_files; f->path != NULL; f++) {
        const char *name = name_below(f, "migrations/");
        if (name == NULL)
            continue;
        char *end;
        errno = 0;
        long number = strtol(name, &end, 10);
        if (errno != 0 || end == name || number < 1 || number > 999999 || *count == MIGRATIONS_MAX)
            return err_set(err, "migration %s has no number from 1 to 999999", name);
        struct migration *m = &out[(*count)++];
        *m = (struct migration){.number = (int)number, .name = name, .text = f->text};
        checksum_of(f->text, m->checksum);
    }
    qsort(out, *count, sizeof *out, migration_compare);
    for (size_t i = 1; i < *count; i++)
        if (out[i].number == out[i - 1].number)
            return err_set(err, "%s and %s have the same number", out[i - 1].name, out[i].name);
    return true;
}

static const struct migration *migration_find(const struct migration *known, size_t count,
                                              int number)
{
    for (size_t i = 0; i < count; i++)
        if (known[i].number == number)
            return &known[i];
    return NULL;
}

/* Marks what the database has (text = NULL: nothing left to do) and finds out whether the database
 * is ahead of this release. */
static bool migrations_compare(PGconn *pg, struct migration *known, size_t count, bool *ahead,
                               struct err *err)
{
    PGresult *r = sql_rows(
        pg, "select number, name, checksum from queen.schema_migrations order by number", err);
    if (r == NULL)
        return false;
    int newest = count > 0 ? known[count - 1].number : 0;
    bool fits = true;
    *ahead = false;
    for (int row = 0; row < PQntuples(r) && fits; row++) {
        int number = atoi(PQgetvalue(r, row, 0));
        const char *name = PQgetvalue(r, row, 1), *checksum = PQgetvalue(r, row, 2);
        struct migration *m = (struct migration *)migration_find(known, count, number);
        if (m == NULL && number > newest)
            *ahead = true;
        else if (m == NULL)
            fits = err_set(err, "the database has migration %s, which this release does not know",
                           name);
        else if (strcmp(m->checksum, checksum) != 0)
            fits = err_set(err,
                           "migration %s was changed after it had been applied (as %s): undo the "
                           "change and write a new migration",
                           m->name, name);
        else
            m->text = NULL;
    }
    PQclear(r);
    return fits;
}

/* A failed step leaves nothing behind. */
static bool step_end(PGconn *pg, bool done, const char *what, struct err *err)
{
    if (done && sql_run(pg, "commit", 0, NULL, err))
        return true;
    (void)err_prefix(err, "%s", what);
    struct err ignored; /* the connection is closed next anyway */
    (void)sql_run(pg, "rollback", 0, NULL, &ignored);
    return false;
}

static bool migration_apply(PGconn *pg, const struct migration *m, struct err *err)
{
    char number[16];
    (void)snprintf(number, sizeof number, "%d", m->number);
    const char *params[] = {number, m->name, m->checksum};
    bool done = sql_run(pg, "begin", 0, NULL, err) && sql_run(pg, m->text, 0, NULL, err) &&
                sql_run(pg,
                        "insert into queen.schema_migrations (number, name, checksum)"
                        " values ($1, $2, $3)",
                        3, params, err);
    if (!step_end(pg, done, m->name, err))
        return false;
    logger_info("migrate", "applied %s", m->name);
    return true;
}

static bool function_apply(PGconn *pg, const char *name, const char *text, size_t *applied,
                           struct err *err)
{
    char checksum[CHECKSUM_SIZE];
    checksum_of(text, checksum);
    const char *params[] = {name, checksum};
    PGresult *r = PQexecParams(pg,
                               "select from queen.schema_functions"
                               " where name = $1 and checksum = $2",
                               2, NULL, params, NULL, NULL, 0);
    if (PQresultStatus(r) != PGRES_TUPLES_OK) {
        (void)err_set(err, "%s", PQresultErrorMessage(r));
        PQclear(r);
        return false;
    }
    bool current = PQntuples(r) == 1;
    PQclear(r);
    if (current)
        return true;
    if (!sql_run(pg, text, 0, NULL, err) ||
        !sql_run(pg,
                 "insert into queen.schema_functions (name, checksum) values ($1, $2)"
                 " on conflict (name) do update set checksum = excluded.checksum,"
                 " applied_at = clock_timestamp()",
                 2, params, err))
        return err_prefix(err, "%s", name);
    (*applied)++;
    return true;
}

/* All changed functions in one transaction: running processes see the old set or the new one.
 * Bodies are not checked while they are created, so file order is no dependency order. */
static bool functions_apply(PGconn *pg, size_t *applied, struct err *err)
{
    *applied = 0;
    bool done = sql_run(pg, "begin", 0, NULL, err) &&
                sql_run(pg, "set local check_function_bodies = off", 0, NULL, err);
    for (const struct sql_file *f = sql_files; f->path != NULL && done; f++) {
        const char *name = name_below(f, "functions/");
        if (name != NULL)
            done = function_apply(pg, name, f->text, applied, err);
    }
    return step_end(pg, done, "functions", err);
}

static bool migrate_all(PGconn *pg, bool allow_newer, struct err *err)
{
    static struct migration known[MIGRATIONS_MAX];
    size_t count, migrated = 0, functions = 0;
    bool ahead;
    if (!migrations_known(known, &count, err) ||
        !sql_run(pg, "set client_min_messages = warning", 0, NULL, err) ||
        !sql_run(pg, lock_sql, 0, NULL, err) || !sql_run(pg, bootstrap_sql, 0, NULL, err) ||
        !migrations_compare(pg, known, count, &ahead, err))
        return false;
    if (ahead && !allow_newer)
        return err_set(err, "the database belongs to a newer release (--allow-newer leaves it as "
                            "it is)");
    if (ahead) {
        (void)printf("the database belongs to a newer release: left as it is\n");
        return true;
    }
    for (size_t i = 0; i < count; i++) {
        if (known[i].text == NULL)
            continue;
        if (!migration_apply(pg, &known[i], err))
            return false;
        migrated++;
    }
    if (!functions_apply(pg, &functions, err))
        return false;
    (void)printf("schema %d: %zu migrations and %zu function files applied\n",
                 count > 0 ? known[count - 1].number : 0, migrated, functions);
    return true;
}

int migrate_run(const struct settings *settings, bool allow_newer)
{
    struct err err;
    PGconn *pg = ctl_connect(settings, &err);
    bool done = pg != NULL && migrate_all(pg, allow_newer, &err);
    PQfinish(pg);
    if (!done)
        logger_error("migrate", "%s", err.text);
    return done ? CTL_OK : CTL_FAILED;
}
