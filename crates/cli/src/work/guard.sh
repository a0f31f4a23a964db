# Ends the process groups of a program after the end of their owner.
#
#   sh -c "$(cat guard.sh)" guard GRACE
#
# Standard input is a pipe whose other end only the owner has. A line "+ GROUP" adds a process group, a line "- GROUP" takes
# it out. The pipe closes however the owner ended. Then the groups that are left get SIGTERM, and SIGKILL after GRACE seconds.

trap '' HUP INT TERM
groups=' '
while read -r sign group; do
    case $sign in
    +) groups="$groups$group " ;;
    -) groups="${groups%% "$group" *} ${groups#* "$group" }" ;;
    esac
done

signal() {
    for group in $groups; do
        kill -s "$1" -- "-$group" && sent=1
    done
} 2>/dev/null

signal TERM
left=$1 sent=1
while [ "$left" -gt 0 ] && [ -n "$sent" ]; do
    sleep 1
    left=$((left - 1)) sent=
    signal 0
done
signal KILL
