# shellcheck shell=bash disable=SC2034
# What the cases share. A case is a script that sources this, defines `up_case` and `run_case`, and ends in
#     case_main "$@"
# It lives in one folder (DIR), starts what it needs there, and ends exactly that: nothing runs longer than LIMIT_S.
# Two hosts are two network namespaces, a (10.98.0.1) and b (10.98.0.2), joined by a cable; their clock is the same.
set -euo pipefail

CASES=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ROOT=$(cd "$CASES/../.." && pwd)
NAME=$(basename "$0")
readonly CASES ROOT NAME TOOLS=$CASES/tools PROGRAMS=$CASES/programs
readonly LIMIT_S=300 A=10.98.0.1 B=10.98.0.2

say() { printf '%s: %s\n' "$NAME" "$*" >&2; }
fail() { say "$*"; exit 1; }

usage() {
    cat <<USAGE
usage: $NAME up DIR      start it; DIR/env then has the servers: WATCH='--pid N ...' for \`wakepath record\`
       $NAME run DIR     one bounded load; DIR/truth.jsonl gets a line for each thing done (CLOCK_MONOTONIC, ns)
       $NAME down DIR    end what \`up\` started there (at any time, also twice)
       $NAME all DIR     up, run, down

Needs root. Exits with 77 and says why where a program is missing.
USAGE
}

# ---------------------------------------------------------------- what is needed

# Programs, or the case is skipped: need ERLC erlang-base means: erlc, else install erlang-base.
need() {
    command -v "$1" >/dev/null || { say "skipped: no $1; remedy: apt-get install --no-install-recommends $2"; exit 77; }
}

# A program of the workspace: the release build if there is one, else the debug build.
built() {
    local target=${CARGO_TARGET_DIR:-$ROOT/target} kind
    for kind in release debug; do
        if [[ -x $target/$kind/$1 ]]; then echo "$target/$kind/$1"; return; fi
    done
    say "skipped: $1 is not built; remedy: cargo build --release -p $2"
    exit 77
}

# ---------------------------------------------------------------- processes

# When a process began: with its pid it names the process for good.
begun() {
    local stat
    stat=$(cat "/proc/$1/stat" 2>/dev/null) || return 1
    # the fields behind the name, which may have anything in it
    awk '{ print $20 }' <<<"${stat##*) }"
}

# start WHAT COMMAND...: in a session of its own, so that its children can be ended with it; its words go to DIR/WHAT.log.
start() {
    local what=$1 pid
    shift
    setsid timeout --foreground --kill-after=5 "$LIMIT_S" "$@" >"$DIR/$what.log" 2>&1 </dev/null 9>&- &
    pid=$!
    echo "$pid $(begun "$pid") $what" >>"$DIR/processes"
    WATCHED+=("$pid")
}

# Until DIR/WHAT.log has a line that begins with a word.
wait_for_line() {
    local what=$1 word=$2 tenths=200
    until grep -q "^$word" "$DIR/$what.log" 2>/dev/null; do
        ((tenths-- > 0)) || { tail -n 5 "$DIR/$what.log" >&2; fail "$what did not start"; }
        sleep 0.1
    done
}

# Until somebody listens on a port of a host.
wait_for_port() {
    local host=$1 port tenths=200
    port=$(printf ':%04X' "$2")
    until on "$host" cat /proc/net/tcp /proc/net/tcp6 | awk -v p="$port" '$4 == "0A" && index($2, p) { found = 1 } END { exit !found }'; do
        ((tenths-- > 0)) || fail "nobody listens on port $2 of host $host"
        sleep 0.1
    done
}

end_processes() {
    local pid since what signal tenths
    [[ -e $DIR/processes ]] || return 0
    for signal in TERM KILL; do
        while read -r pid since what; do
            if [[ $(begun "$pid") == "$since" ]]; then kill "-$signal" -- "-$pid" 2>/dev/null || true; fi
        done <"$DIR/processes"
        for ((tenths = 30; tenths > 0; tenths--)); do
            some_are_left || break 2
            sleep 0.1
        done
    done
    rm -f "$DIR/processes"
}

some_are_left() {
    local pid since what
    while read -r pid since what; do
        [[ $(begun "$pid") == "$since" ]] && return
    done <"$DIR/processes"
    return 1
}

# ---------------------------------------------------------------- hosts

# Names of the two namespaces: short, and other ones for each DIR.
host() { echo "wpc-$(printf '%s' "$DIR" | cksum | cut -d' ' -f1)-$1"; }

# on HOST COMMAND...
on() { local name; name=$(host "$1"); shift; ip netns exec "$name" "$@"; }

make_hosts() {
    need ip iproute2
    local each name
    for each in a b; do
        name=$(host "$each")
        ip netns add "$name"
        mkdir -p "/etc/netns/$name"
        # whoever resolves a name asks host b
        printf 'nameserver %s\noptions timeout:5 attempts:1\n' "$B" >"/etc/netns/$name/resolv.conf"
        on "$each" ip link set lo up
    done
    ip link add eth0 netns "$(host a)" type veth peer name eth0 netns "$(host b)"
    on a ip addr add "$A/24" dev eth0
    on b ip addr add "$B/24" dev eth0
    on a ip link set eth0 up
    on b ip link set eth0 up
}

drop_hosts() {
    local each name
    for each in a b; do
        name=$(host "$each")
        ip netns delete "$name" 2>/dev/null || true
        rm -rf "/etc/netns/$name"
    done
    rmdir /etc/netns 2>/dev/null || true
}

# ---------------------------------------------------------------- commands

write_env() {
    local pid flags=
    for pid in "${WATCHED[@]}"; do flags+=" --pid $pid"; done
    printf "WATCH='%s'\nHOST_A=%s\nHOST_B=%s\n" "${flags# }" "$(host a)" "$(host b)" >"$DIR/env"
}

down() {
    if declare -F down_case >/dev/null; then down_case; fi
    end_processes
    drop_hosts
    rm -f "$DIR/env"
}

up() {
    [[ ! -e $DIR/processes ]] || fail "something is up in $DIR; remedy: $NAME down $DIR"
    mkdir -p "$DIR"
    local status
    trap 'status=$?; trap - EXIT; ((status == 0)) || { say "up failed, ending what had started"; down; }; exit $status' EXIT
    : >"$DIR/processes"
    up_case
    write_env
    trap - EXIT
    say "up in $DIR"
}

run() {
    [[ -e $DIR/env ]] || fail "nothing is up in $DIR; remedy: $NAME up $DIR"
    rm -f "$DIR/truth.jsonl"
    run_case
    [[ -s $DIR/truth.jsonl ]] || fail 'the load wrote no truth'
    say "$(wc -l <"$DIR/truth.jsonl") lines in $DIR/truth.jsonl"
}

case_main() {
    if (($# != 2)) || [[ ! $1 =~ ^(up|run|down|all)$ || $2 == -* ]]; then usage >&2; exit 2; fi
    ((EUID == 0)) || fail 'needs root: network namespaces'
    DIR=$(realpath -m -- "$2")
    # what `start` started
    WATCHED=()
    if [[ $1 == all ]]; then
        up
        trap 'status=$?; trap - EXIT; down; exit $status' EXIT
        run
    else
        "$1"
    fi
}
