#!/usr/bin/env bash
# Runs `heartwood bench purgatory` for docs/bench/purgatory.md, writes the picture beside it and prints the tables: on a machine
# that does nothing else, about 15 minutes a repetition. A kind may have a setting of the Go runtime: purgatory@400 is with
# GOGC=400. To stand beside Kafka, KAFKA names a file with a line
#   {"case":"low","kind":"kafka","requests":1000000,"target_rate":105000,"achieved_rate":105000.0,"cpu_seconds":4.0}
# for each run of its TestPurgatoryPerformance with the same requests, timeout, sizes and percentiles.
#
# REPS=3 REQUESTS=1000000 RATES="25000 40000 105000 400000 1000000 0" KINDS="baseline purgatory"
set -euo pipefail
cd "$(dirname "$0")/.."
results=${RESULTS:-$(mktemp)}
: > "$results"
CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/heartwood ./cmd/heartwood
for _ in $(seq "${REPS:-3}"); do # the kinds take turns, so that a slow minute of the machine hits all of them
  for rate in ${RATES:-25000 40000 105000 400000 1000000 0}; do
    for kind in ${KINDS:-baseline purgatory}; do
      for case in low:20ms:60ms high:200ms:400ms; do
        IFS=: read -r name pct50 pct75 <<< "$case"
        line=$(GOGC=$([[ $kind == *@* ]] && echo "${kind#*@}" || echo 100) bin/heartwood bench purgatory --kind "${kind%@*}" --requests "${REQUESTS:-1000000}" --rate "$rate" --timeout 200ms \
          --pct50 "$pct50" --pct75 "$pct75" --size 100 --keys 3 --of-keys 100 --json)
        line=${line/\"kind\":\"${kind%@*}\"/\"kind\":\"$kind\"}
        echo "{\"case\":\"$name\",${line#\{}" | tee -a "$results" >&2
      done
    done
  done
done
go run ./hack/benchplot -results "$results" -kafka "${KAFKA:-}" -svg docs/bench/purgatory.svg
