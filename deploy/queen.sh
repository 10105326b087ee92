#!/bin/bash
# queen.sh up|down|run|status|purge: one instance of the product, from the build to a healthy URL.
#
#   up      starts it in the background; says so when it is up already
#   run     starts it, stays until Ctrl-C or TERM, stops it
#   down    stops everything of it, also what is left after a crash
#   status  what runs; exit 0 when it is healthy
#   purge   removes the run directory of a stopped one, with its data
#
# Settings: QUEEN_PORT (6632), QUEEN_BIND (all addresses), QUEEN_RUN_DIR (.run in the checkout), QUEEN_WORKERS (2),
# QUEEN_DATABASE_URL (a private cluster), QUEEN_BUILD_DIR (build); and those of the programs (docs/configuration.md).
set -euo pipefail
here=$(dirname "$(realpath "$0")")
checkout=$(dirname "$here")
# shellcheck source=deploy/place.sh
. "$here/place.sh"

QUEEN_PORT=${QUEEN_PORT:-6632}
QUEEN_WORKERS=${QUEEN_WORKERS:-2}
QUEEN_BIND=${QUEEN_BIND:-}
place=$(realpath -m -- "${QUEEN_RUN_DIR:-$checkout/.run}")
build=$(realpath -m -- "${QUEEN_BUILD_DIR:-$checkout/build}")
cd / # the instance's user may not be able to stay here
COMPONENTS='nginx worker flusher keeper postgres' # in the order in which they stop

check_settings() {
    [[ $QUEEN_PORT =~ ^[0-9]{1,5}$ && $QUEEN_PORT -ge 1 && $QUEEN_PORT -le 65535 ]] || die "QUEEN_PORT=$QUEEN_PORT: a port number is needed"
    [[ $QUEEN_WORKERS =~ ^[0-9]{1,3}$ && $QUEEN_WORKERS -ge 1 && $QUEEN_WORKERS -le ${QUEEN_WORKER_SLOTS:-64} ]] ||
        die "QUEEN_WORKERS=$QUEEN_WORKERS: a number from 1 to ${QUEEN_WORKER_SLOTS:-64} (QUEEN_WORKER_SLOTS) is needed"
    [[ $QUEEN_BIND =~ ^[0-9a-zA-Z.:]*$ ]] || die "QUEEN_BIND=$QUEEN_BIND: an address is needed"
    [[ ${QUEEN_FRONT_MAX_REQUESTS:-1} =~ ^[1-9][0-9]{0,6}$ ]] || die "QUEEN_FRONT_MAX_REQUESTS=$QUEEN_FRONT_MAX_REQUESTS: a number is needed"
    local program
    for program in queen-worker queen-flusher queen-keeper queenctl; do
        [ -x "$build/bin/$program" ] || die "$build/bin/$program is missing: run make first"
    done
    for program in nginx spawn-fcgi multiwatch setpriv flock curl; do
        command -v $program >/dev/null || die "$program is missing: run deploy/install-dependencies.sh"
    done
}

# Whether somebody listens on the port, on any address of either family.
port_is_used() {
    local hex
    hex=$(printf ':%04X' "$QUEEN_PORT")
    awk -v port="$hex" '$4 == "0A" && substr($2, length($2) - 4) == port { found = 1 } END { exit !found }' \
        /proc/net/tcp /proc/net/tcp6 2>/dev/null
}

url() {
    case $QUEEN_BIND in
    '' | 0.0.0.0) echo "http://127.0.0.1:$QUEEN_PORT" ;;
    *:*) echo "http://[$QUEEN_BIND]:$QUEEN_PORT" ;;
    *) echo "http://$QUEEN_BIND:$QUEEN_PORT" ;;
    esac
}

healthy() {
    curl -gfs -m 5 -o /dev/null "$(url)/health"
}

# What the programs were started with, for queenctl and for `down`.
write_environment() {
    local name
    (
        umask 077
        for name in ${!QUEEN_@} ${!DEFAULT_@}; do
            case $name in QUEEN_TEST_*) continue ;; esac
            printf 'export %s=%q\n' "$name" "${!name}"
        done | as_user tee "$RUN/environment" >/dev/null
    )
}

# The programs run from here: their user may not be able to read the checkout, and a build must not
# change what is running.
copy_programs() {
    local program
    as_user mkdir -p "$RUN/bin" "$RUN/log" "$RUN/pid" "$RUN/nginx"
    for program in queen-worker queen-flusher queen-keeper; do
        install -m 0755 "$build/bin/$program" "$RUN/bin/$program"
    done
    install -m 0755 "$build/bin/queenctl" "$RUN/bin/queenctl.program"
    install -m 0755 "$here/supervise.sh" "$RUN/bin/supervise.sh"
    # queenctl with this instance's settings, as its user: the shared memory is that user's.
    cat >"$RUN/bin/queenctl" <<END
#!/bin/bash
. '$RUN/environment'
if [ "\$(id -u)" -eq 0 ]; then
    exec setpriv --reuid=$PRODUCT_USER --regid=$(id -gn "$PRODUCT_USER") --init-groups -- '$RUN/bin/queenctl.program' "\$@"
fi
exec '$RUN/bin/queenctl.program' "\$@"
END
    chmod 0755 "$RUN/bin/queenctl"
}

render_nginx() {
    local nofile connections listen features=() option
    nofile=$(ulimit -Hn)
    [[ $nofile =~ ^[0-9]+$ && $nofile -le 20000 ]] || nofile=20000
    connections=$((nofile * 9 / 10))
    listen=${QUEEN_BIND:+$QUEEN_BIND:}$QUEEN_PORT
    [[ $QUEEN_BIND == *:* ]] && listen="[$QUEEN_BIND]:$QUEEN_PORT"
    [ -z "$QUEEN_BIND" ] && [ -s /proc/net/if_inet6 ] && features+=(IPV6)
    option=$(nginx -V 2>&1)
    [[ $option == *--without-http_proxy_module* ]] || features+=(PROXY)
    [[ $option == *--without-http_uwsgi_module* ]] || features+=(UWSGI)
    [[ $option == *--without-http_scgi_module* ]] || features+=(SCGI)
    sed -e "$(printf 's/^@%s?//;' "${features[@]}" NONE)" -e '/^@[A-Z0-9]*?/d' \
        -e "s|@RUN@|$RUN|g; s|@PORT@|$QUEEN_PORT|g; s|@LISTEN@|$listen|g; s|@NOFILE@|$nofile|g; s|@CONNECTIONS@|$connections|g" \
        -e "s|@REQUESTS@|${QUEEN_FRONT_MAX_REQUESTS:-$((connections * $(nproc) * 3 / 8))}|g; s|@MAX_BODY@|${QUEEN_MAX_BODY_BYTES:-67108864}|g" \
        -e "s|@READ_TIMEOUT@|$((${QUEEN_POP_MAX_TIMEOUT_MS:-300000} / 1000 + 30))|g" \
        "$checkout/nginx/nginx.conf.template" | as_user tee "$RUN/nginx.conf" >/dev/null
    as_user nginx -t -q -e stderr -p "$RUN" -c "$RUN/nginx.conf" -g 'daemon off;' || die "nginx refuses $RUN/nginx.conf"
}

start_programs() {
    start_component flusher TERM "$RUN/bin/queen-flusher"
    start_component keeper TERM "$RUN/bin/queen-keeper"
    # multiwatch sends QUIT for "-s TERM" in Debian 12 (its names are off by one); workers take both.
    # It starts a worker anew when it ends, without a pause and, by default, three times only:
    # hence the number and the pause. Workers end when multiwatch dies.
    # shellcheck disable=SC2016
    start_component worker TERM spawn-fcgi -n -s "$RUN/worker.sock" -M 0660 -b 4096 -- \
        "$(command -v multiwatch)" -f "$QUEEN_WORKERS" -s TERM -r 1000000000 -- \
        /bin/sh -c 'sleep 0.2; exec setpriv --pdeathsig TERM -- "$0"' "$RUN/bin/queen-worker"
    start_component nginx QUIT nginx -e stderr -p "$RUN" -c "$RUN/nginx.conf" -g 'daemon off;'
}

show_logs() {
    local name
    for name in $COMPONENTS; do
        [ -s "$RUN/log/$name.log" ] || continue
        echo "--- the end of $RUN/log/$name.log" >&2
        tail -n 8 "$RUN/log/$name.log" >&2
    done
}

running_port() {
    sed -n 's/^export QUEEN_PORT=//p' "$RUN/environment" 2>/dev/null || true
}

# One script at a time works on an instance. The lock goes with this shell.
lock() {
    exec 9>>"$RUN/lock"
    flock -w 120 9 || die "another queen.sh works on $RUN"
}

start() {
    check_settings
    place_make "$place"
    lock
    started_here=yes
    if [ -n "$(processes_of "$RUN/log/")" ]; then
        QUEEN_PORT=$(running_port)
        if [ "$(find "$RUN/pid" -name '*.supervisor' | wc -l)" -ge 4 ] && healthy; then
            started_here=no
            echo "already up: $(url) (run directory $RUN)"
            return 0
        fi
        echo "ending what an earlier instance left in $RUN"
        stop
        QUEEN_PORT=${wanted_port:-$QUEEN_PORT}
    fi
    if port_is_used; then
        die "port $QUEEN_PORT is in use: set QUEEN_PORT to a free one"
    fi
    ulimit -n "$(ulimit -Hn)" || true
    copy_programs
    export QUEEN_PORT QUEEN_WORKERS QUEEN_BIND QUEEN_RUN_DIR=$RUN
    local private=
    if [ -z "${QUEEN_DATABASE_URL:-}" ]; then
        private=yes
        QUEEN_DATABASE_URL=$("$here/private-postgres.sh" start "$place") || { stop; die "the private PostgreSQL does not start"; }
        export QUEEN_DATABASE_URL
    fi
    write_environment
    render_nginx
    if ! "$RUN/bin/queenctl" migrate >"$RUN/log/migrate.log" 2>&1; then
        cat "$RUN/log/migrate.log" >&2
        stop
        [ -n "$private" ] || die "queenctl migrate failed on the database that QUEEN_DATABASE_URL names"
        die "queenctl migrate failed"
    fi
    # Nothing runs: what a killed instance left may have another geometry.
    "$RUN/bin/queenctl" shm-remove --force
    start_programs
    local tenths=600
    until healthy; do
        tenths=$((tenths - 1))
        if [ $tenths -le 0 ]; then
            show_logs
            stop
            die "not healthy within 60 s"
        fi
        sleep 0.1
    done
    echo "Queen is up: $(url)"
    echo "try: curl $(url)/api/v1/push -d '{\"items\":[{\"queue\":\"orders\",\"payload\":{\"total\":30}}]}'"
    echo "     curl '$(url)/api/v1/pop/queue/orders?batch=10'"
    echo "run directory (logs, sockets, data): $RUN"
}

# nginx first, which takes no new request but finishes those it has; the workers, which answer
# parked polls and finish; then what the workers need.
stop() {
    stop_begin nginx QUIT
    local tenths=20
    while [ $tenths -gt 0 ] && [ -n "$(processes_of "$RUN/log/nginx.log")" ] && port_is_used; do
        sleep 0.1
        tenths=$((tenths - 1))
    done
    stop_begin worker TERM
    stop_end worker 12
    stop_end nginx 5
    stop_begin flusher TERM
    stop_end flusher 10
    stop_begin keeper TERM
    stop_end keeper 10
    "$here/private-postgres.sh" stop "$place"
    if [ -x "$RUN/bin/queenctl" ] && [ -r "$RUN/environment" ]; then
        "$RUN/bin/queenctl" shm-remove --force || true
    fi
    rm -f "$RUN/worker.sock" "$RUN"/*.fifo "$RUN/nginx.pid"
}

up() {
    start
}

down() {
    if ! place_find "$place"; then
        echo "nothing to stop: no instance in $place"
        return 0
    fi
    lock
    local was
    was=$(processes_of "$RUN/log/")
    QUEEN_PORT=$(running_port)
    QUEEN_PORT=${QUEEN_PORT:-6632}
    stop
    if [ -n "$was" ]; then echo "stopped ($RUN)"; else echo "was not running ($RUN)"; fi
}

run() {
    start
    [ "$started_here" = yes ] || die "stop that instance first (make down), or set QUEEN_RUN_DIR and QUEEN_PORT"
    echo "Ctrl-C stops it"
    local stopping=
    trap 'stopping=yes' INT TERM HUP
    exec 9>&-
    while [ -z "$stopping" ]; do
        sleep 3600 &
        wait $! || true
    done
    kill %% 2>/dev/null || true
    trap '' INT TERM HUP
    echo "stopping"
    down
}

status() {
    if ! place_find "$place"; then
        echo "no instance in $place"
        return 3
    fi
    QUEEN_PORT=$(running_port)
    QUEEN_PORT=${QUEEN_PORT:-6632}
    local name pids
    for name in $COMPONENTS; do
        pids=$(processes_of "$RUN/log/$name.log" | tr '\n' ' ')
        printf '%-9s %s\n' "$name" "${pids:-not running}"
    done
    if healthy; then
        echo "healthy: $(url) (run directory $RUN)"
    else
        echo "not healthy: $(url) (run directory $RUN)"
        return 3
    fi
}

wanted_port=$QUEEN_PORT
purge() {
    place_find "$place" || return 0
    [ -z "$(processes_of "$RUN/log/")" ] || die "still running: make down first"
    rm -rf -- "$RUN" "$(realpath -m -- "$place")"
    echo "removed $RUN"
}

case ${1:-} in
up | down | run | status | purge) "$1" ;;
*)
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
    ;;
esac
