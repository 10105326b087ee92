#!/bin/sh
# supervise.sh RUN NAME SIGNAL COMMAND...: keeps one program of an instance running.
#
# Restarts it whenever it ends, at once at first and with growing pauses (at most 2 s) when it ends
# quickly again and again. On TERM it sends SIGNAL to the program, waits for its end and exits. The
# program gets SIGNAL as well when the supervisor dies. Its own stderr must be RUN/log/NAME.log:
# that is how what an earlier program left behind is found and ended before a new one starts (an
# nginx worker whose master was killed still holds the port, for instance).
run=$1 name=$2 signal=$3
shift 3
log=$run/log/$name.log
child='' stop='' pause=0

note() {
    echo "$(date -u +%Y-%m-%dT%H:%M:%SZ) supervise[$$] $name: $*" >&2
}

# Everything but this shell whose stderr is our log. The look-out's own processes have another.
left_behind() {
    exec 2>/dev/null
    find /proc/[0-9]*/fd/2 -maxdepth 0 -printf '%h %l\n' | LOG=$log SELF=$$ awk '
        { split($1, part, "/"); target = substr($0, length($1) + 2) }
        index(target, ENVIRON["LOG"]) == 1 && part[3] != ENVIRON["SELF"] { print part[3] }'
}

# shellcheck disable=SC2086 # process ids, one a line
sweep() {
    tries=0
    while left=$(left_behind) && [ -n "$left" ]; do
        if [ $tries -eq 0 ]; then
            note "ending what was left behind:" $left
            kill -s "$signal" $left 2>/dev/null
        fi
        [ $tries -ge 20 ] && kill -s KILL $left 2>/dev/null
        tries=$((tries + 1))
        sleep 0.1
    done
}

trap 'stop=1; [ -n "$child" ] && kill -s "$signal" "$child" 2>/dev/null' TERM
echo $$ >"$run/pid/$name.supervisor"

while [ -z "$stop" ]; do
    sweep
    [ -n "$stop" ] && break
    started=$(cut -d. -f1 /proc/uptime)
    setpriv --pdeathsig "$signal" -- "$@" &
    child=$!
    echo $child >"$run/pid/$name.pid"
    [ -n "$stop" ] && kill -s "$signal" $child 2>/dev/null
    # A trapped signal ends wait early.
    while wait $child; status=$?; kill -0 $child 2>/dev/null; do :; done
    child=''
    [ -n "$stop" ] && break
    lived=$(($(cut -d. -f1 /proc/uptime) - started))
    if [ $lived -ge 5 ]; then pause=0; fi
    note "ended with status $status after $lived s: starting it again in $pause s"
    if [ "$pause" != 0 ]; then
        sleep "$pause" &
        child=$!
        wait $child
        kill $child 2>/dev/null
        child=''
    fi
    case $pause in 0) pause=0.2 ;; 0.2) pause=0.5 ;; 0.5) pause=1 ;; *) pause=2 ;; esac
done
rm -f "$run/pid/$name.supervisor" "$run/pid/$name.pid"
