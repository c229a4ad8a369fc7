#!/usr/bin/env bash
# e2e-faults.sh stops and starts parts of a Kubernetes cluster: make e2e FAULTS=hack/e2e-faults.sh
# The parts must be processes of this machine: apiserver, and for each node kubelet-NODE and
# containerd-NODE. Directory PIDS must contain a file NAME.pid for each of them, and may contain
# kcm.pid and scheduler.pid. For another kind of cluster, write another script with the same
# commands.
#
#   kill-container ID            kills all processes of a container (SIGKILL)
#   pause-container ID           stops all processes of a container (SIGSTOP)
#   resume-container ID          continues them (SIGCONT)
#   drop FROM TO                 drops the packets that a pod sends to an address
#   heal                         drops no packets any more
#   kubelet-stop NODE            kills a kubelet; its pods continue to run
#   kubelet-start NODE           starts it again
#   power-off NODE               kills a kubelet, its container runtime and its pods
#   power-on NODE                starts the container runtime and the kubelet again
#   apiserver-stop               kills the API server
#   apiserver-start              starts it again, and the controllers as an outage restarts them
#   volume DIR SIZE              mounts a file system of its own at DIR (such as 200M), as a device
#   volume-remove DIR            removes it, also while it is in use
set -euo pipefail
: "${PIDS:?the directory with the pid files}"

# remember NAME saves the command line and the output file of a part, which function start uses.
remember() {
  local pid
  pid=$(cat "$PIDS/$1.pid")
  cp "/proc/$pid/cmdline" "$PIDS/$1.cmdline"
  readlink "/proc/$pid/fd/1" > "$PIDS/$1.output"
}

# alive PID reports whether a process may hold ports. A zombie does not, unless other threads of it
# are still exiting.
alive() {
  [ -e "/proc/$1" ] && ! { grep -q '^State:.Z' "/proc/$1/status" &&
    [ "$(find "/proc/$1/task" -mindepth 1 -maxdepth 1 | wc -l)" -le 1 ]; } 2> /dev/null
}

# await_exit PID... waits until the processes have exited and so released their ports.
await_exit() {
  local pid
  for pid in "$@"; do
    while alive "$pid"; do sleep 0.05; done
  done
}

# kill_parts NAME... kills the processes of these parts, and the processes whose pids are in EXTRA.
kill_parts() {
  local name pids
  read -r -d '' -a pids <<< "${EXTRA-}" || true
  for name in "$@"; do
    remember "$name"
    pids+=("$(cat "$PIDS/$name.pid")")
  done
  kill -9 "${pids[@]}" 2> /dev/null || true
  await_exit "${pids[@]}"
}

# start NAME starts a part with the saved command line, unless it runs: after a failed step the test
# starts the API server without knowing its state. The part outlives the test, so it must not
# inherit other files than its own output: a lock that the caller holds would stay locked.
start() {
  local words
  ! alive "$(cat "$PIDS/$1.pid")" || return 0
  mapfile -d '' -t words < "$PIDS/$1.cmdline"
  (
    for fd in "/proc/$BASHPID/fd"/*; do
      fd=${fd##*/}
      [ "$fd" -le 2 ] || exec {fd}>&-
    done
    exec setsid nohup "${words[@]}"
  ) >> "$(cat "$PIDS/$1.output")" 2>&1 < /dev/null &
  echo $! > "$PIDS/$1.pid"
}

# runs NAME reports whether a part that was just started still runs after 20 s. On a busy machine,
# the controller manager exits only 6 s after its start.
runs() {
  local pid
  pid=$(cat "$PIDS/$1.pid")
  for _ in $(seq 40); do
    alive "$pid" || return 1
    sleep 0.5
  done
}

# restart_controllers restarts the controller manager and the scheduler if the API server was away
# for more than 10 s. With leader election, the default, they exit then, because they cannot renew
# their Leases. Without it, the controller manager may continue with caches that are out of date:
# it did not update the EndpointSlices of new pods for minutes, and cluster DNS with them.
restart_controllers() {
  local name attempt
  [ $(($(date +%s) - $(stat -c %Y "$PIDS/apiserver.cmdline"))) -gt 10 ] || return 0
  for name in kcm scheduler; do
    [ -e "$PIDS/$name.pid" ] || continue
    kill_parts "$name"
    for attempt in $(seq 20); do # the controller manager exits until the API server authorizes it
      start "$name"
      ! runs "$name" || break
      [ "$attempt" -lt 20 ] || { echo "$name does not start" >&2; exit 1; }
    done
  done
}

# family PID prints a process and all its descendants.
family() {
  local child
  echo "$1"
  for child in $(cat "/proc/$1/task/"*/children 2> /dev/null); do family "$child"; done
}

# shims NODE prints the pids of a node's container processes. It finds them as descendants of the
# containerd shims whose command lines contain the directory of the node's container runtime.
shims() {
  local file
  for file in /proc/[0-9]*/cmdline; do
    if tr '\0' ' ' < "$file" 2> /dev/null |
      grep -q -e "containerd-shim.* -address [^ ]*/$1/"; then
      family "$(basename "$(dirname "$file")")"
    fi
  done
}

# signal_container SIGNAL ID sends a signal to all processes of a container. The cgroup names of its
# processes contain its id.
signal_container() {
  local pids
  pids=$({ grep -l -e "$2" /proc/[0-9]*/cgroup 2> /dev/null || true; } | cut -d / -f 3)
  [ -n "$pids" ] || { echo "found no process of container $2" >&2; exit 1; }
  # shellcheck disable=SC2086 # one word per process
  kill "-$1" $pids
}

# Rules with this comment drop packets. Table raw sees them before Services and connections do.
rule_comment=heartwood-e2e

case "${1-}" in
  kill-container) signal_container KILL "$2" ;;
  pause-container) signal_container STOP "$2" ;;
  resume-container) (signal_container CONT "$2") || true ;; # it may have been restarted meanwhile
  drop)
    iptables -w -t raw -I PREROUTING -s "$2" -d "$3" -m comment --comment "$rule_comment" -j DROP
    ;;
  heal)
    iptables -w -t raw -S PREROUTING | { grep -e "--comment $rule_comment" || true; } |
      while read -r _ rule; do
        # shellcheck disable=SC2086 # the words of the rule
        iptables -w -t raw -D $rule
      done
    ;;
  kubelet-stop) kill_parts "kubelet-$2" ;;
  kubelet-start) start "kubelet-$2" ;;
  power-off) EXTRA=$(shims "$2") kill_parts "kubelet-$2" "containerd-$2" ;;
  power-on)
    start "containerd-$2"
    sleep 2
    start "kubelet-$2"
    ;;
  apiserver-stop) kill_parts apiserver ;;
  apiserver-start)
    start apiserver
    restart_controllers > "$PIDS/controllers.output" 2>&1 & # the caller measures from now on
    ;;
  volume)
    truncate -s "$3" "$2.img"
    mkfs.ext4 -q -F -m 0 "$2.img"
    mkdir -p "$2"
    mount -o loop "$2.img" "$2"
    chmod 0777 "$2"
    ;;
  volume-remove)
    umount -l "$2" || true # the loop device goes with its last user
    rm -f "$2.img"
    ;;
  *) sed -n '2,20p' "$0" >&2; exit 2 ;;
esac
