#!/usr/bin/env bash
# Breaks parts of a Kubernetes cluster and mends them again, for `make e2e FAULTS=hack/e2e-faults.sh`. It is for a cluster whose nodes are
# processes of this machine, each part with a file NAME.pid in the directory PIDS: apiserver, kubelet-NODE, containerd-NODE. Another
# cluster needs another script that takes the same words.
#
#   kill-container ID            kills all processes of a container (SIGKILL)
#   kubelet-stop NODE            kills a kubelet; its pods go on
#   kubelet-start NODE
#   power-off NODE               kills a kubelet, its container runtime and all processes of its pods at once
#   power-on NODE
#   apiserver-stop               kills the API server
#   apiserver-start
set -euo pipefail
: "${PIDS:?the directory with the pid files}"

# remember NAME: how the process of NAME was started, so that start can do the same.
remember() {
  local pid
  pid=$(cat "$PIDS/$1.pid")
  cp "/proc/$pid/cmdline" "$PIDS/$1.cmdline"
  readlink "/proc/$pid/fd/1" > "$PIDS/$1.output"
}

# dead PID...: waits until the processes are gone, or wait for their parents alone: what they listened on is free then.
dead() {
  local pid
  for pid in "$@"; do
    while [ -e "/proc/$pid" ] && ! grep -q '^State:.Z' "/proc/$pid/status"; do sleep 0.05; done
  done 2> /dev/null
}

# end NAME...: kills the processes of these names, and whatever else EXTRA names.
end() {
  local name pids
  read -r -d '' -a pids <<< "${EXTRA-}" || true
  for name in "$@"; do
    remember "$name"
    pids+=("$(cat "$PIDS/$name.pid")")
  done
  kill -9 "${pids[@]}" 2> /dev/null || true
  dead "${pids[@]}"
}

start() {
  local words
  mapfile -d '' -t words < "$PIDS/$1.cmdline"
  setsid nohup "${words[@]}" >> "$(cat "$PIDS/$1.output")" 2>&1 < /dev/null &
  echo $! > "$PIDS/$1.pid"
}

# family PID: a process and all that descend from it.
family() {
  local child
  echo "$1"
  for child in $(cat "/proc/$1/task/"*/children 2> /dev/null); do family "$child"; done
}

# shims NODE: the processes of a node's containers, by the shims that hold them: these name the node's container runtime.
shims() {
  local file
  for file in /proc/[0-9]*/cmdline; do
    if tr '\0' ' ' < "$file" 2> /dev/null | grep -q -e "containerd-shim.* -address [^ ]*/$1/"; then
      family "$(basename "$(dirname "$file")")"
    fi
  done
}

case "${1-}" in
  kill-container) # each process of it has its id in the name of its cgroup
    pids=$({ grep -l -e "$2" /proc/[0-9]*/cgroup 2> /dev/null || true; } | cut -d / -f 3)
    [ -n "$pids" ] || { echo "no process is in container $2" >&2; exit 1; }
    # shellcheck disable=SC2086 # one word a process
    kill -9 $pids
    ;;
  kubelet-stop) end "kubelet-$2" ;;
  kubelet-start) start "kubelet-$2" ;;
  power-off) EXTRA=$(shims "$2") end "kubelet-$2" "containerd-$2" ;;
  power-on)
    start "containerd-$2"
    sleep 2
    start "kubelet-$2"
    ;;
  apiserver-stop) end apiserver ;;
  apiserver-start) start apiserver ;;
  *) sed -n '2,13p' "$0" >&2; exit 2 ;;
esac
