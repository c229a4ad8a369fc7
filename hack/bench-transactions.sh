#!/usr/bin/env bash
# bench-transactions.sh measures the CPU time of one broker of each kind for transactions, in turns,
# on one machine and with the same client (`heartwood bench produce`).
# docs/internals/bench/transactions.md contains the results. The last lines are the ratios of the
# medians, with their targets.
#
#   ours     heartwood dev (this repository)
#   kafka    Apache Kafka from the jars in directory KAFKA_LIB; skipped if KAFKA_LIB is not set
#
# Measurements: transactions of one record by 1 producer and by 50 producers, as fast as possible;
# RATE records per second without transactions, and with a commit each 10 ms. Each broker starts
# with an empty directory, is warmed up with both kinds of load, and is stopped by its pid.
#
# DIR=tmp/bench-transactions TURNS=3 SECONDS_EACH=20 WARM=15 BYTES=1000 RATE=20000 PORT=31292
# KINDS="ours kafka" KAFKA_LIB= HEARTWOOD=(a binary; default: built)
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mkdir -p "${DIR:-tmp/bench-transactions}" && cd "${DIR:-tmp/bench-transactions}" && pwd)
port=${PORT:-31292}; turns=${TURNS:-3}; each=${SECONDS_EACH:-20}; warm=${WARM:-15}
bytes=${BYTES:-1000}; rate=${RATE:-20000}
kinds=${KINDS:-ours kafka}; [ -n "${KAFKA_LIB:-}" ] || kinds=${kinds/kafka/}
heartwood=${HEARTWOOD:-$dir/heartwood}
[ -n "${HEARTWOOD:-}" ] || CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$heartwood" \
  ./cmd/heartwood

. hack/bench-lib.bash

bench() { # ARGUMENTS...
  "$heartwood" bench produce --bootstrap "127.0.0.1:$port" --records 1000000000 \
    --record-bytes "$bytes" "$@"
}

# number prints the first number with a name in the result, or in its part that begins with a name.
number() { # NAME [PART]
  tr -d '\n' < "$dir/result.json" | sed "s/.*\"${2:-way}\"://" |
    grep -o "\"$1\": *[0-9.]*" | head -1 | sed 's/.*: *//'
}

# run prints the kind, the measurement, the number of transactions and of records, the CPU time of
# the broker in microseconds for each of the things that are counted, and latencies in milliseconds:
# of commits if transactions are counted, else of records.
run() { # KIND MEASUREMENT COUNTED(transactions|records) ARGUMENTS...
  local before after of=way
  [ "$3" = records ] || of=commit
  before=$(ticks)
  bench --topic t --duration "${each}s" --json "${@:4}" > "$dir/result.json"
  after=$(ticks)
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$1" "$2" "$(number transactions)" \
    "$(number records)" \
    "$(awk -v b="$before" -v a="$after" -v n="$(number "$3")" \
      'BEGIN {printf "%.2f", (a - b) * 1e4 / n}')" \
    "$(number p50Millis $of)" "$(number p99Millis $of)" | tee -a "$dir/rows"
}

median() { # KIND MEASUREMENT
  awk -F '\t' -v k="$1" -v m="$2" '$1 == k && $2 == m {print $5}' "$dir/rows" | sort -n |
    awk '{v[NR] = $1} END {print (NR ? v[int((NR + 1) / 2)] : 0)}'
}

ratio() { # NAME NUMERATOR DENOMINATOR TARGET
  awk -v n="$1" -v a="$2" -v b="$3" -v t="$4" \
    'BEGIN {if (a > 0 && b > 0) printf "%s: %.2f (target: at most %s)\n", n, a / b, t}'
}

rm -f "$dir/rows"
uptime
printf 'broker\tmeasurement\ttransactions\trecords\tbroker CPU us each\tp50 ms\tp99 ms\n'
for ((turn = 0; turn < turns; turn++)); do
  for kind in $kinds; do
    start "$kind" "$heartwood"
    bench --topic warm --duration "${warm}s" --rate "$rate" --transaction 10ms > /dev/null
    bench --topic warm --duration "${warm}s" --transaction-records 1 --producers 10 > /dev/null
    run "$kind" "1 record, 1 producer" transactions --transaction-records 1
    run "$kind" "1 record, 50 producers" transactions --transaction-records 1 --producers 50
    run "$kind" "$rate/s" records --rate "$rate"
    run "$kind" "$rate/s, commit each 10 ms" records --rate "$rate" --transaction 10ms
    stop
  done
done
uptime
for what in "1 record, 1 producer" "1 record, 50 producers"; do
  ratio "$what, ours / kafka" "$(median ours "$what")" "$(median kafka "$what")" 0.6
done
rated_ours=$(median ours "$rate/s, commit each 10 ms")
ratio "$rate/s with commits, ours / kafka" "$rated_ours" \
  "$(median kafka "$rate/s, commit each 10 ms")" 0.7
ratio "$rate/s, ours with / without commits" "$rated_ours" "$(median ours "$rate/s")" 1.15
