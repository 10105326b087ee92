# shellcheck shell=bash
# Where an instance lives and as whom it runs. Sourced by queen.sh and private-postgres.sh (bash).
#
# place_find DIR     sets RUN to the directory that DIR stands for; false when there is none yet
# place_make DIR     the same, making it; dies when it cannot
# as_user COMMAND    runs a command as the instance's user
# processes_of PREFIX  pids whose stderr is a file that begins with PREFIX: what this instance started

die() {
    echo "$(basename "$0"): $*" >&2
    exit 1
}

PATH=$PATH:/usr/sbin:/sbin
export PATH

# PostgreSQL refuses root, and nothing of the product needs it.
if [ "$(id -u)" -ne 0 ]; then
    PRODUCT_USER=$(id -un)
elif id queen >/dev/null 2>&1; then
    PRODUCT_USER=queen
elif id postgres >/dev/null 2>&1; then
    PRODUCT_USER=postgres
else
    die "neither a user 'queen' nor 'postgres' exists: run deploy/install-dependencies.sh first"
fi

AS_USER=()
if [ "$(id -u)" -eq 0 ]; then
    AS_USER=(setpriv "--reuid=$PRODUCT_USER" "--regid=$(id -gn "$PRODUCT_USER")" --init-groups --)
fi
as_user() {
    "${AS_USER[@]}" "$@"
}

# A marker tells a run directory from a directory that somebody named by mistake.
PLACE_MARKER=queen-instance

place_find() {
    local dir
    dir=$(realpath -m -- "$1")
    RUN=$dir
    if [ -r "$dir/where" ]; then
        RUN=$(cat "$dir/where")
    fi
    [ -e "$RUN/$PLACE_MARKER" ]
}

# Socket paths end at 107 bytes, and configuration files quote only plain characters.
place_fits() {
    local dir=$1 pattern='^[A-Za-z0-9/._+@=,-]+$'
    [ ${#dir} -le 80 ] && [[ $dir =~ $pattern ]]
}

place_claim() {
    local dir=$1
    chmod 0700 "$dir"
    if [ "$(id -u)" -eq 0 ]; then
        chown "$PRODUCT_USER:" "$dir"
    fi
    as_user test -w "$dir" -a -x "$dir" 2>/dev/null || return 1
    as_user touch "$dir/$PLACE_MARKER"
}

place_make() {
    local dir base
    if place_find "$1"; then
        if [ "$(stat -c %U "$RUN")" != "$PRODUCT_USER" ]; then
            die "$RUN belongs to user $(stat -c %U "$RUN"), not to $PRODUCT_USER: use another QUEEN_RUN_DIR"
        fi
        return 0
    fi
    dir=$(realpath -m -- "$1")
    mkdir -p -- "$dir" || die "cannot make the run directory $dir"
    rm -f -- "$dir/where" # a temporary directory that is gone
    [ -z "$(ls -A "$dir")" ] || die "$dir is not empty and not a run directory: name another one in QUEEN_RUN_DIR"
    RUN=$dir
    if place_fits "$dir" && place_claim "$dir"; then
        return 0
    fi
    # The user cannot get there (a clone under /root), or the path is too long for a socket.
    if [ "$(id -u)" -eq 0 ]; then
        chown root: "$dir"
    fi
    for base in "${TMPDIR:-/tmp}" /tmp; do
        RUN=$(realpath -- "$(mktemp -d "$base/queen.XXXXXX")")
        if place_fits "$RUN" && place_claim "$RUN"; then
            echo "$RUN" >"$dir/where"
            echo "user $PRODUCT_USER cannot use $dir: this instance lives in $RUN" >&2
            return 0
        fi
        rmdir "$RUN"
    done
    die "user $PRODUCT_USER can use neither $dir nor a directory under ${TMPDIR:-/tmp}"
}

processes_of() {
    find /proc/[0-9]*/fd/2 -maxdepth 0 -printf '%h %l\n' 2>/dev/null |
        PREFIX=$1 awk '{ split($1, part, "/"); if (index(substr($0, length($1) + 2), ENVIRON["PREFIX"]) == 1) print part[3] }' || true
}

# start_component NAME SIGNAL COMMAND...: under a supervisor that survives this script. The caller
# has put supervise.sh into $RUN/bin. Descriptor 9 is the caller's lock.
start_component() {
    local name=$1
    as_user touch "$RUN/log/$name.log"
    "${AS_USER[@]}" setsid sh "$RUN/bin/supervise.sh" "$RUN" "$@" </dev/null >>"$RUN/log/$name.log" 2>&1 9>&- &
}

# stop_begin NAME SIGNAL: tells a component's supervisor to stop it, or, when that one is gone, the
# processes it left. stop_end NAME SECONDS: waits, then kills what is left.
stop_begin() {
    local name=$1 signal=$2 supervisor pids
    pids=$(processes_of "$RUN/log/$name.log")
    [ -n "$pids" ] || return 0
    supervisor=$(cat "$RUN/pid/$name.supervisor" 2>/dev/null || true)
    if [ -n "$supervisor" ] && grep -qx "$supervisor" <<<"$pids"; then
        kill -TERM "$supervisor" 2>/dev/null || true
    else
        # shellcheck disable=SC2086
        kill -"$signal" $pids 2>/dev/null || true
    fi
}

stop_end() {
    local name=$1 tenths=$(($2 * 10)) pids
    while pids=$(processes_of "$RUN/log/$name.log") && [ -n "$pids" ]; do
        if [ "$tenths" -le 0 ]; then
            echo "$name did not stop within $2 s: killing it" >&2
            # shellcheck disable=SC2086
            kill -KILL $pids 2>/dev/null || true
            tenths=20
        fi
        sleep 0.1
        tenths=$((tenths - 1))
    done
    rm -f "$RUN/pid/$name.supervisor" "$RUN/pid/$name.pid"
}
