# lib.bash contains what the examples' run.sh share: a cluster of `heartwood dev` on free ports,
# services that run beside it, pinned packages in a cache folder, and the comparison of states. A script that
# sources it works in the temporary folder $work, and stops at its end every process that it started.
#
# HEARTWOOD_BINARY names the heartwood binary; by default it is built. EXAMPLE_DIR names the folder
# to work in, which is then kept. EXAMPLES_CACHE is the folder of installed packages; default:
# heartwood/examples in the user's cache folder.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[1]}")" && pwd)
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
cache=${EXAMPLES_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/heartwood/examples}
work=${EXAMPLE_DIR:-$(mktemp -d)}
mkdir -p "$cache" "$work"
declare -A pids    # process ids by name
declare -A signals # signals that end a process, by name; default: TERM
remove=()          # further folders to remove at the end

step() { printf '\n== %s\n' "$*"; }
say() { printf '%s\n' "$*"; }
fail() { printf 'FAILED: %s\n' "$*" >&2; exit 1; }

# need exits with code 77, which the tests report as skipped, if a program is missing.
need() { # PROGRAM HINT
  command -v "$1" >/dev/null || { printf 'skipped: %s is not installed: %s\n' "$1" "$2"; exit 77; }
}

# skip_on runs a command that downloads packages, and exits with code 77 if it fails.
skip_on() { # REASON COMMAND...
  local reason=$1
  shift
  "$@" >"$work/install.log" 2>&1 || { tail -n 5 "$work/install.log"; say "skipped: $reason"; exit 77; }
}

# stop ends a process by a signal and waits until it has exited.
stop() { # NAME [SIGNAL]
  local pid=${pids[$1]:-}
  [ -n "$pid" ] || return 0
  unset "pids[$1]"
  kill "-${2:-TERM}" "$pid" 2>/dev/null || true
  wait "$pid" 2>/dev/null || true
}

finish() {
  local code=$? name
  for name in "${!pids[@]}"; do
    [ "$name" = heartwood ] || stop "$name" "${signals[$name]:-TERM}"
  done
  stop heartwood
  if [ "$code" != 0 ] && [ "$code" != 77 ]; then
    for name in "$work"/*.log; do
      printf -- '--- the end of %s\n' "$name" >&2
      tail -n 20 "$name" >&2
    done
  fi
  [ -n "${EXAMPLE_DIR:-}" ] || remove+=("$work")
  rm -rf "${remove[@]}"
}
trap finish EXIT

# start runs a program in the background. Its output is in $work/NAME.log.
start() { # NAME COMMAND...
  local name=$1
  shift
  "$@" >"$work/$name.log" 2>&1 &
  pids[$name]=$!
}

# until_true repeats a command until it succeeds, for at most five minutes. It fails if the process
# NAME exits earlier.
until_true() { # NAME WHAT COMMAND...
  local name=$1 what=$2 deadline=$((SECONDS + 300))
  shift 2
  until "$@"; do
    kill -0 "${pids[$name]}" 2>/dev/null || fail "$name has exited before: $what"
    [ $SECONDS -lt $deadline ] || fail "timed out: $what"
    sleep 0.2
  done
}

# free_port prints a port on which nobody listens. It is below the range of the ports of outgoing
# connections, so that the port stays free while a broker restarts.
free_port() {
  local port
  while :; do
    port=$((10000 + RANDOM % 10000))
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null || { echo "$port"; return; }
  done
}

# start_heartwood runs one broker with the example's manifests. It returns when the broker is ready.
# The first call chooses the ports; a later call restarts the broker on the same ports and data.
start_heartwood() {
  if [ -z "${bootstrap:-}" ]; then
    bootstrap=127.0.0.1:$(free_port) http=127.0.0.1:$(free_port)
    binary=${HEARTWOOD_BINARY:-$work/heartwood}
    [ -n "${HEARTWOOD_BINARY:-}" ] ||
      (cd "$root" && CGO_ENABLED=0 go build -o "$work/heartwood" ./cmd/heartwood)
  fi
  start heartwood "$binary" dev -f "$here/manifests" --listen "$bootstrap" --http "$http" \
    --data-dir "$work/data"
  until_true heartwood "the broker is ready" grep -q '^ready' "$work/heartwood.log"
  say "heartwood dev is ready at $bootstrap"
}

# kill_heartwood ends the broker as a crash does, and starts it again.
kill_heartwood() {
  say "kill -9 ${pids[heartwood]}"
  stop heartwood KILL
  start_heartwood
}

# restart_heartwood stops the broker gracefully, and starts it again.
restart_heartwood() {
  stop heartwood TERM
  start_heartwood
}

# clean lets the brokers clean topics now, and prints how much they removed.
clean() { # TOPIC...
  local topic
  for topic in "$@"; do
    "$binary" clean "$topic" --wait --address "$http"
  done
}

# same compares two files, and fails if they differ.
same() { # WHAT BEFORE AFTER
  diff -u "$2" "$3" || fail "$1: the state differs"
  say "$1: the state is the same ($(wc -l <"$3") lines)"
}

# java_jars prints the class path of the dependencies of a pom.xml. Maven keeps the jars in its own
# repository; the class path is cached.
java_jars() { # POM
  need java "Java 17 or later, Debian's package default-jdk-headless" >&2
  local file
  file=$cache/classpath-$(sha256sum "$1" | cut -c 1-16)
  if [ ! -s "$file" ]; then
    need mvn "Maven, Debian's package maven" >&2
    skip_on "Maven cannot download the jars" mvn -B -q -f "$1" dependency:build-classpath \
      "-Dmdep.outputFile=$file.partial" >&2
    mv "$file.partial" "$file"
  fi
  cat "$file"
}

# python_with prints the interpreter of a virtual environment with the packages of a
# requirements.txt.
python_with() { # REQUIREMENTS
  need python3 "Python 3.9 or later" >&2
  local venv
  venv=$cache/python-$(sha256sum "$1" | cut -c 1-16)
  if [ ! -e "$venv/complete" ]; then
    rm -rf "$venv"
    skip_on "no virtual environment can be made" python3 -m venv "$venv" >&2
    skip_on "pip cannot download the packages" "$venv/bin/pip" install -r "$1" >&2
    touch "$venv/complete"
  fi
  echo "$venv/bin/python"
}
