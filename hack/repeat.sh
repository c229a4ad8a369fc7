#!/usr/bin/env bash
# repeat.sh TIMES [PACKAGE...] runs the tests of the packages (default ./...) TIMES times, each with
# new seeds, and continues after a failure. For each failed test it prints the run, the package, the
# test, its time and the command that repeats its seed; the logs of runs with failures remain in
# bin/repeat. BUSY=N runs N processes beside the tests that only use CPU time. GO_TEST_FLAGS are
# more flags of go test, such as -race. The exit code is 1 if any test failed.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
times=${1:?usage: repeat.sh TIMES [PACKAGE...]}
shift
[ $# -gt 0 ] || set -- ./...
kept=bin/repeat
mkdir -p "$kept"
make --silent build
KUBEBUILDER_ASSETS=${KUBEBUILDER_ASSETS:-$(hack/kubetools/assets.sh)} || exit 1
export KUBEBUILDER_ASSETS HEARTWOOD_BINARY=$PWD/bin/heartwood HEARTWOOD_SEED=random

busy=()
trap '[ ${#busy[@]} = 0 ] || kill "${busy[@]}"' EXIT
for ((i = 0; i < ${BUSY:-0}; i++)); do
  while :; do :; done &
  busy+=($!)
done

# failures RUN prints the failures in the output of go test.
failures() {
  awk -v run="$1" '
    /^ *--- FAIL: / {tests[++count] = $3 " " $4}
    /repeat: / {sub(/.*repeat: /, ""); tests[++count] = "repeat: " $0}
    /^panic: / {tests[++count] = $0}
    /^FAIL\t/ {
      if (count == 0) print "run " run ": " $2 ": no test failed, but the package did (" $3 ")"
      for (i = 1; i <= count; i++) print "run " run ": " $2 ": " tests[i]
      count = 0
    }
    /^ok / {count = 0}'
}

failed=0
for ((run = 1; run <= times; run++)); do
  log=$kept/$run.log start=$SECONDS
  # shellcheck disable=SC2086 # flags are words
  if go test -count=1 -timeout 60m ${GO_TEST_FLAGS:-} "$@" >"$log" 2>&1; then
    rm "$log"
  else
    failed=$((failed + 1))
    failures "$run" <"$log"
  fi
  echo "run $run of $times: $((SECONDS - start)) s, $failed runs with failures"
done
((failed == 0))
