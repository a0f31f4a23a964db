# Runs one PostgreSQL server. After the end of its owner it stops the server, cleans up and ends.
#
#   sh -c "$(cat guard.sh)" guard TMP DATA BINARIES STOP SYNC [postgres argument]...
#
#   TMP       where to make the home directory: the socket, the log and, if DATA is empty, the data
#   DATA      a data directory to keep, or empty for one that is removed
#   BINARIES  the directory with initdb and postgres
#   STOP      the signal that ends the server: INT (with a checkpoint) or QUIT (without)
#   SYNC      initdb's option for flushing: --no-sync or nothing
#
# Standard input is a pipe whose other end only the owner has. When it closes, two watchers stop the server, however the
# owner ended. Either of them suffices, and neither needs the guard, so no death of one process leaves a server.
# Standard output gets "home PATH", "initdb PID" and "server PID". Other lines are the reason of a failure.
#
# Two files in the home connect the processes. "child" holds the process that runs now, and the signal that ends it.
# "stopping" keeps another from starting. A child writes the first before it looks for the second. The stop writes the
# second before it reads the first. So at least one of the two sees the other.

tmp=$1 data=$2 binaries=$3 stop=$4 sync=$5
shift 5
umask 077

# Caught, not ignored: a child would inherit the ignoring. A lost reader (PIPE) must not skip the clean-up.
trap : PIPE

# Stops what runs and removes the home, unless the guard does so first. The signal is sent until the child is gone: a
# shell starts its background commands with INT and QUIT ignored, and a server catches them only some time after its start.
halt() {
    : >"$home/stopping"
    tries=0 idle=0
    while [ -d "$home" ] && [ "$idle" -lt 40 ]; do
        tries=$((tries + 1)) idle=$((idle + 1))
        if read -r process signal <"$home/child" && kill -s "$signal" "$process"; then
            if [ -e "$data/postmaster.pid" ] || [ "$tries" -lt 200 ]; then
                idle=0
            else
                # After ten seconds it has neither ended nor become a server.
                kill -s KILL "$process"
            fi
        fi
        sleep 0.05 || sleep 1
    done
    rm -rf "$home"
} >/dev/null 2>&1

# Runs a named command to its end. In the background, since a shell runs no trap before a foreground command has ended.
run() {
    name=$1 signal=$2
    shift 2
    /bin/sh -c 'echo "$$ $2" >"$1/child" && [ ! -e "$1/stopping" ] || exit 1; shift 2; exec "$@"' \
        "$name" "$home" "$signal" "$@" >>"$log" 2>&1 & child=$!
    echo "$name $child"
    wait "$child"
    status=$?
    # A trapped signal ends the wait, not the child.
    while [ "$status" -gt 128 ] && kill -0 "$child" 2>/dev/null; do
        wait "$child"
        status=$?
    done
    rm -f "$home/child"
    return "$status"
}

finish() {
    kill -s TERM $watchers 2>/dev/null
    rm -rf "$home"
}

home=$(mktemp -d "$tmp/uniqueue-XXXXXX" 2>/dev/null || mktemp -d /tmp/uniqueue-XXXXXX 2>&1) || {
    echo "$home"
    exit 1
}
[ -n "$data" ] || data=$home/data
trap finish EXIT
trap 'halt &' HUP INT TERM

# A shell gives its background commands /dev/null to read, so the pipe moves to descriptor 3.
exec 3<&0 </dev/null
watchers=''
for watcher in first second; do
    {
        while read -r _; do :; done
        halt
    } <&3 >/dev/null &
    watchers="$watchers $!"
done
exec 3<&-
echo "home $home"

log=$home/log
if [ ! -e "$data/PG_VERSION" ]; then
    # $sync and $icu unquoted: nothing must become no argument. The tests of this project also run in databases of a locale.
    icu=${UNIQUEUE_ICU_LOCALE:+--locale-provider=icu --icu-locale=$UNIQUEUE_ICU_LOCALE}
    run initdb TERM "$binaries/initdb" -D "$data" -U postgres -A trust -E UTF8 --no-locale $icu $sync || {
        cat "$log"
        exit 1
    }
fi
[ ! -e "$home/stopping" ] || exit 1

[ "$data" = "$home/data" ] || log=$data/server.log
: >"$log"
run server "$stop" "$binaries/postgres" -D "$data" -k "$home" "$@"
[ -e "$home/stopping" ] || cat "$log"
exit "$status"
