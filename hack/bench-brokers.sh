#!/usr/bin/env bash
# bench-brokers.sh measures one broker of each kind, in turn, on one machine and with the same
# client (`heartwood bench`): the CPU time of broker and client per gigabyte, the throughput, and
# the latencies at a rate that all kinds can sustain. docs/internals/bench/brokers.md contains the
# results.
#
#   ours     heartwood dev (this repository)
#   copying  heartwood dev that reads and writes fetched ranges instead of sending them with
#            sendfile; a build overlay changes the constant sendfileWorks
#   kafka    Apache Kafka from the jars in directory KAFKA_LIB; skipped if KAFKA_LIB is not set
#
# Every kind acknowledges records when they are in the page cache of one replica. Each broker starts
# with an empty directory, is warmed up with a tenth of the records, and is stopped by its pid.
#
# DIR=tmp/bench-brokers TURNS=3 RECORDS=1000000 BYTES=1000 CODEC=none RATE=5000 RATED=20s PORT=31192
# KINDS="ours copying kafka" KAFKA_LIB=
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$(mkdir -p "${DIR:-tmp/bench-brokers}" && cd "${DIR:-tmp/bench-brokers}" && pwd)
port=${PORT:-31192}; turns=${TURNS:-3}
records=${RECORDS:-1000000}; bytes=${BYTES:-1000}; codec=${CODEC:-none}
rate=${RATE:-5000}; rated=${RATED:-20s}
kinds=${KINDS:-ours copying kafka}; [ -n "${KAFKA_LIB:-}" ] || kinds=${kinds/kafka/}

CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o "$dir/ours" ./cmd/heartwood
sendfile=internal/wire/sendfile_linux.go
sed 's/^const sendfileWorks = true/const sendfileWorks = false/' "$sendfile" > "$dir/copying.go"
grep -q '^const sendfileWorks = false' "$dir/copying.go"
echo "{\"Replace\": {\"$PWD/$sendfile\": \"$dir/copying.go\"}}" > "$dir/overlay.json"
CGO_ENABLED=0 go build -overlay "$dir/overlay.json" -trimpath -ldflags '-s -w' -o "$dir/copying" \
  ./cmd/heartwood

. hack/bench-lib.bash

client=$dir/ours

uptime
printf 'broker\tmeasurement\tMB/s\tbroker CPU s/GB\tclient CPU s/GB\tp50 ms\tp99 ms\n'
for ((turn = 0; turn < turns; turn++)); do
  for kind in $kinds; do
    start "$kind" "$dir/$kind"
    "$dir/ours" bench produce --bootstrap "127.0.0.1:$port" --topic warm \
      --records $((records / 10)) --record-bytes "$bytes" --codec "$codec" > /dev/null
    "$dir/ours" bench consume --bootstrap "127.0.0.1:$port" --topic warm > /dev/null
    measure "$kind" produce produce --topic t --records "$records" --record-bytes "$bytes" \
      --codec "$codec"
    measure "$kind" consume consume --topic t
    measure "$kind" "consume again" consume --topic t
    measure "$kind" "produce at $rate/s" produce --topic rated --records 100000000 --rate "$rate" \
      --duration "$rated" --record-bytes "$bytes" --codec "$codec"
    stop
  done
done
uptime
