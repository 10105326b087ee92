#!/bin/bash
# private-postgres.sh start|stop|status DIR: a PostgreSQL cluster of this instance's own.
#
# Unix socket only, in a directory of mode 0700; user queen (superuser of this cluster), database
# queen. It lives in DIR/postgres, or, where the product's user cannot use DIR, in the directory that
# DIR/where names. Prints the connection string. A supervisor restarts the server when it dies.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
# shellcheck source=deploy/place.sh
. "$here/place.sh"

usage() {
    echo "usage: $0 start|stop|status DIR" >&2
    exit 2
}
[ $# -eq 2 ] || usage

# The newest installed server, at least version 14; an existing cluster needs its own version.
find_programs() {
    local version wanted=''
    [ -r "$pg/data/PG_VERSION" ] && wanted=$(cat "$pg/data/PG_VERSION")
    for version in $(find /usr/lib/postgresql -mindepth 1 -maxdepth 1 -printf '%f\n' 2>/dev/null | sort -rn); do
        [[ $version =~ ^[0-9]+$ && $version -ge 14 && -x /usr/lib/postgresql/$version/bin/postgres ]] || continue
        if [ -z "$wanted" ] || [ "$version" = "$wanted" ]; then
            bin=/usr/lib/postgresql/$version/bin
            return 0
        fi
    done
    if [ -z "$wanted" ] && command -v postgres >/dev/null && command -v initdb >/dev/null; then
        version=$(postgres --version | sed 's/[^0-9]*\([0-9]*\).*/\1/')
        [ "$version" -ge 14 ] || die "PostgreSQL $version is too old: 14 or later is needed"
        bin=$(dirname "$(realpath "$(command -v postgres)")")
        return 0
    fi
    [ -z "$wanted" ] || die "the cluster in $pg/data was made by PostgreSQL $wanted, which is not installed"
    die "no PostgreSQL 14 or later found: run deploy/install-dependencies.sh, or set QUEEN_DATABASE_URL"
}

# Written at every start, so that a new version's settings reach an existing cluster.
write_settings() {
    local workers=${QUEEN_WORKERS:-2} per_worker
    per_worker=$((${QUEEN_PUSH_CONNECTIONS:-2} + ${QUEEN_POP_CONNECTIONS:-2} + ${QUEEN_ACK_CONNECTIONS:-2} + ${QUEEN_ADMIN_CONNECTIONS:-1} + ${QUEEN_KV_CONNECTIONS:-1} + ${QUEEN_TRANSACTION_CONNECTIONS:-2} + ${QUEEN_STREAMS_CONNECTIONS:-1} + ${QUEEN_REPORT_CONNECTIONS:-1}))
    # Twice the workers' share: a restarted worker may connect before the old one's sessions ended.
    as_user tee "$pg/data/queen.conf" >/dev/null <<END
# Written by private-postgres.sh at every start: changes belong into postgresql.auto.conf (ALTER SYSTEM).
listen_addresses = ''
unix_socket_directories = '$pg'
unix_socket_permissions = 0700
max_connections = $((60 + 2 * workers * per_worker))
fsync = on
synchronous_commit = on
full_page_writes = on
shared_buffers = 256MB
max_wal_size = 2GB
min_wal_size = 256MB
checkpoint_timeout = 10min
wal_compression = on
autovacuum = on
autovacuum_naptime = 10s
logging_collector = off
log_destination = stderr
log_line_prefix = '%m [%p] %a '
log_min_duration_statement = 1s
log_parameter_max_length = 0
log_checkpoints = off
timezone = UTC
log_timezone = UTC
END
}

make_cluster() {
    as_user mkdir -p -m 0700 "$pg"
    [ -e "$pg/data/PG_VERSION" ] && return 0
    # Into another name first: an interrupted initdb leaves no half cluster.
    rm -rf "$pg/data.new"
    as_user env LC_ALL=C "$bin/initdb" -D "$pg/data.new" -U queen --auth=trust --encoding=UTF8 --locale=C \
        --data-checksums >"$RUN/log/initdb.log" 2>&1 || die "initdb failed: $(tail -n 5 "$RUN/log/initdb.log")"
    echo "include 'queen.conf'" | as_user tee -a "$pg/data.new/postgresql.conf" >/dev/null
    as_user mv "$pg/data.new" "$pg/data"
}

answers() {
    as_user "$bin/pg_isready" -q -h "$pg" -U queen -d postgres
}

start() {
    place_make "$1"
    pg=$RUN/postgres
    find_programs
    as_user mkdir -p "$RUN/bin" "$RUN/log" "$RUN/pid"
    if [ -n "$(processes_of "$RUN/log/postgres.log")" ] && [ -e "$RUN/pid/postgres.supervisor" ]; then
        : # started earlier; it may still be coming up
    else
        make_cluster
        write_settings
        install -m 0755 "$here/supervise.sh" "$RUN/bin/supervise.sh"
        # What a killed server left in postmaster.pid may be another process's number by now. The
        # supervisor has made sure that no server of ours runs; one started by hand is respected.
        # shellcheck disable=SC2016
        start_component postgres INT sh -c '
            pid=$(head -n 1 "$1/postmaster.pid" 2>/dev/null)
            [ -n "$pid" ] && [ "$(readlink "/proc/$pid/cwd")" != "$1" ] && rm -f "$1/postmaster.pid"
            exec "$2/postgres" -D "$1"' postgres "$pg/data" "$bin"
    fi
    local tenths=600
    until answers; do
        tenths=$((tenths - 1))
        [ $tenths -gt 0 ] || die "PostgreSQL does not answer; the end of $RUN/log/postgres.log: $(tail -n 5 "$RUN/log/postgres.log")"
        sleep 0.1
    done
    if [ "$(as_user "$bin/psql" -X -h "$pg" -U queen -d postgres -Atc "select count(*) from pg_database where datname = 'queen'")" = 0 ]; then
        as_user "$bin/psql" -X -q -h "$pg" -U queen -d postgres -c 'create database queen'
    fi
    conninfo
}

conninfo() {
    echo "host=$pg user=queen dbname=queen"
}

stop() {
    place_find "$1" || return 0
    # A server that was killed together with its supervisor has left shared memory, which only a
    # start removes.
    if [ -z "$(processes_of "$RUN/log/postgres.log")" ]; then
        [ -e "$RUN/postgres/data/postmaster.pid" ] || return 0
        start "$1" >/dev/null
    fi
    stop_begin postgres INT
    stop_end postgres 60
}

status() {
    place_find "$1" || { echo "no cluster for $1"; return 1; }
    pg=$RUN/postgres
    [ -e "$pg/data/PG_VERSION" ] || { echo "no cluster in $pg"; return 1; }
    find_programs
    answers || { echo "PostgreSQL in $pg is stopped"; return 1; }
    conninfo
}

place=$(realpath -m -- "$2")
cd / # the cluster's user may not be able to stay here
case $1 in
start | stop | status) "$1" "$place" ;;
*) usage ;;
esac
