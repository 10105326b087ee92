#!/bin/sh
# Runs the SQL tests: pgTAP files against real PostgreSQL.
#
#   tests/sql/run.sh [file ...]        all *.sql here, or the named ones
#
# QUEEN_TEST_DATABASE_URL: libpq conninfo (key=value words) of an EMPTY scratch database, as a superuser.
# It is left filled; each file runs in a copy of it. Without it, a private PostgreSQL is started and removed.
set -eu

# One file, for prove, in a copy of the database: files do not see each other's sequences and statistics.
# (pg_prove cannot take a conninfo with "=" in it.)
if [ "${1:-}" = --one ]; then
    copy=queen_test_$$
    psql -qX -d "$QUEEN_TEST_DATABASE_URL dbname=postgres" -c "create database $copy template $QUEEN_TEST_TEMPLATE" || exit 1
    status=0
    QUEEN_TEST_DATABASE_URL="$QUEEN_TEST_DATABASE_URL dbname=$copy"
    psql -qAtX -P pager=off -v ON_ERROR_STOP=1 -d "$QUEEN_TEST_DATABASE_URL" -f "$2" || status=$?
    psql -qX -d "$QUEEN_TEST_DATABASE_URL dbname=postgres" -c "drop database $copy with (force)" || status=1
    exit $status
fi

here=$(CDPATH= cd -- "$(dirname -- "$0")" && pwd)
sql=$here/../../sql
private=

stop_private() {
    [ -n "$private" ] || return 0
    $as_postgres "$bin/pg_ctl" -D "$private/data" -m immediate stop >/dev/null 2>&1 || true
    rm -rf "$private"
}
trap stop_private EXIT
trap 'exit 1' INT TERM HUP

if [ -z "${QUEEN_TEST_DATABASE_URL:-}" ]; then
    bin=${QUEEN_POSTGRES_BIN:-$(pg_config --bindir)}
    as_postgres=
    private=$(mktemp -d /tmp/queen-sql-XXXXXX)
    if [ "$(id -u)" = 0 ]; then # PostgreSQL refuses root
        as_postgres='setpriv --reuid=postgres --regid=postgres --clear-groups'
        chown postgres "$private"
    fi
    $as_postgres "$bin/initdb" -D "$private/data" --auth=trust -U queen -E UTF8 --locale=C.UTF-8 >"$private/initdb.log" 2>&1 ||
        { cat "$private/initdb.log" >&2; exit 1; }
    $as_postgres "$bin/pg_ctl" -D "$private/data" -w -l "$private/postgres.log" start \
        -o "-c listen_addresses='' -c unix_socket_directories='$private' -c fsync=off" >/dev/null ||
        { cat "$private/postgres.log" >&2; exit 1; }
    $as_postgres "$bin/createdb" -h "$private" -U queen scratch
    QUEEN_TEST_DATABASE_URL="host=$private user=queen dbname=scratch"
fi
export QUEEN_TEST_DATABASE_URL
export PGTZ=UTC PGOPTIONS='-c client_min_messages=warning'

run_sql() { psql -qX -v ON_ERROR_STOP=1 -d "$QUEEN_TEST_DATABASE_URL" "$@"; }

if [ -n "$(run_sql -At -c "select 1 from pg_namespace where nspname = 'queen'")" ]; then
    echo "run.sh: the database has a schema queen already: give me an empty one" >&2
    exit 1
fi
# As queenctl migrate does it: each migration in a transaction, then all functions in one.
for file in "$sql"/migrations/*.sql; do
    run_sql -1 -f "$file"
done
{
    echo 'set local check_function_bodies = off;'
    cat "$sql"/functions/*.sql
} | run_sql -1 -f -
run_sql -c 'create extension if not exists pgtap'
QUEEN_TEST_TEMPLATE=$(run_sql -At -c 'select quote_ident(current_database())')
export QUEEN_TEST_TEMPLATE

cd "$here"
if [ $# -eq 0 ]; then
    set -- *.sql
fi
prove --exec "$here/run.sh --one" "$@"
