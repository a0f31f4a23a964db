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
# Standard input is a pipe whose other end only the owner has. When it closes, the guard stops the server, however the
# owner ended. Standard output gets "home PATH", "initdb PID" and "server PID". Other lines are the reason of a failure.

tmp=$1 data=$2 binaries=$3 stop=$4 sync=$5
shift 5
umask 077

# Caught, not ignored: a child would inherit the ignoring. A lost reader (PIPE) must not skip the clean-up.
trap : PIPE
stopping='' child='' signal=TERM
trap 'stopping=1; [ -z "$child" ] || kill -s "$signal" "$child"' HUP INT TERM

# A shell gives its background commands /dev/null to read, so the pipe moves to descriptor 3.
exec 3<&0 </dev/null
(
    cat <&3 & cat=$!
    trap 'kill "$cat"' TERM
    wait "$cat" && kill -s TERM "$$"
) >/dev/null &
watcher=$!
exec 3<&-

# Runs a named command to its end. In the background, since a shell runs no trap before a foreground command has ended.
run() {
    name=$1
    shift
    "$@" >>"$log" 2>&1 & child=$!
    [ -z "$stopping" ] || kill -s "$signal" "$child"
    echo "$name $child"
    wait "$child"
    status=$?
    # A trapped signal ends the wait, not the child.
    while [ "$status" -gt 128 ] && kill -0 "$child" 2>/dev/null; do
        wait "$child"
        status=$?
    done
    child=''
    return "$status"
}

finish() {
    kill -s TERM "$watcher" 2>/dev/null
    rm -rf "$home"
}

home=$(mktemp -d "$tmp/uniqueue-XXXXXX" 2>/dev/null || mktemp -d /tmp/uniqueue-XXXXXX 2>&1) || {
    echo "$home"
    kill -s TERM "$watcher" 2>/dev/null
    exit 1
}
trap finish EXIT
echo "home $home"

log=$home/log
if [ ! -e "${data:=$home/data}/PG_VERSION" ]; then
    # $sync unquoted: nothing must become no argument.
    run initdb "$binaries/initdb" -D "$data" -U postgres -A trust -E UTF8 --no-locale $sync || {
        cat "$log"
        exit 1
    }
fi
[ -z "$stopping" ] || exit 1

[ "$data" = "$home/data" ] || log=$data/server.log
: >"$log"
signal=$stop
run server "$binaries/postgres" -D "$data" -k "$home" "$@"
[ -n "$stopping" ] || cat "$log"
exit "$status"
