#!/usr/bin/env bash
# bench-purgatory.sh runs `heartwood bench purgatory` for docs/internals/bench/purgatory.md and
# prints its tables. The picture is drawn from docs/internals/bench/results/purgatory.json. On a
# machine without other load, a repetition takes about 15 minutes. A kind may include a GOGC
# setting: purgatory@400 runs with GOGC=400. For a comparison with Kafka, KAFKA names a file with a
# line
#   {"case":"low","kind":"kafka","requests":1000000,"target_rate":105000,"achieved_rate":105000.0,
#    "cpu_seconds":4.0}
# (on one line) for each run of Kafka's TestPurgatoryPerformance with the same number of requests,
# timeout, sizes and percentiles.
#
# REPS=3 REQUESTS=1000000 RATES="25000 40000 105000 400000 1000000 0" KINDS="baseline purgatory"
set -euo pipefail
cd "$(dirname "$0")/.."
results=${RESULTS:-$(mktemp)}
: > "$results"
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/heartwood ./cmd/heartwood
# The kinds take turns, so that a temporary slowdown of the machine affects all of them.
for _ in $(seq "${REPS:-3}"); do
  for rate in ${RATES:-25000 40000 105000 400000 1000000 0}; do
    for kind in ${KINDS:-baseline purgatory}; do
      for case in low:20ms:60ms high:200ms:400ms; do
        IFS=: read -r name pct50 pct75 <<< "$case"
        gogc=100
        [[ $kind != *@* ]] || gogc=${kind#*@}
        line=$(GOGC=$gogc bin/heartwood bench purgatory --kind "${kind%@*}" \
          --requests "${REQUESTS:-1000000}" --rate "$rate" --timeout 200ms \
          --pct50 "$pct50" --pct75 "$pct75" --size 100 --keys 3 --of-keys 100 --json)
        line=${line/\"kind\":\"${kind%@*}\"/\"kind\":\"$kind\"}
        echo "{\"case\":\"$name\",${line#\{}" | tee -a "$results" >&2
      done
    done
  done
done
go run ./hack/plots -purgatory "$results" -kafka "${KAFKA:-}"
