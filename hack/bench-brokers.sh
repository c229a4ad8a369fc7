#!/usr/bin/env bash
# bench-brokers.sh measures one broker of each kind, in turn, on one machine and with the same
# client (`heartwood bench`): the CPU time of broker and client per gigabyte, the throughput, and
# the latencies at a rate that all kinds can sustain. docs/bench/brokers.md contains the results.
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

cat > "$dir/cluster.yaml" <<YAML
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: bench}
spec: {brokers: 1}
YAML

pid=
stop() {
  [ -z "$pid" ] || { kill -TERM "$pid" 2>/dev/null || true; wait "$pid" 2>/dev/null || true; }
  pid=
  rm -rf "$dir/data"
}
trap stop EXIT

start() { # KIND
  rm -rf "$dir/data"; mkdir -p "$dir/data"
  if [ "$1" = kafka ]; then
    cat > "$dir/server.properties" <<P
process.roles=broker,controller
node.id=1
controller.quorum.voters=1@127.0.0.1:$((port + 1))
listeners=PLAINTEXT://127.0.0.1:$port,CONTROLLER://127.0.0.1:$((port + 1))
advertised.listeners=PLAINTEXT://127.0.0.1:$port
controller.listener.names=CONTROLLER
log.dirs=$dir/data/log
offsets.topic.replication.factor=1
P
    java -cp "$KAFKA_LIB/*" kafka.tools.StorageTool format -t AAAAAAAAAAAAAAAAAAAAAQ \
      -c "$dir/server.properties" > "$dir/kafka.out" 2>&1
    java -server -Xms1G -Xmx1G -XX:+UseG1GC -XX:MaxGCPauseMillis=20 \
      -XX:InitiatingHeapOccupancyPercent=35 -Dkafka.logs.dir="$dir" \
      -cp "$KAFKA_LIB/*" kafka.Kafka "$dir/server.properties" >> "$dir/kafka.out" 2>&1 &
  else
    "$dir/$1" dev -f "$dir/cluster.yaml" --data-dir "$dir/data/log" --listen "127.0.0.1:$port" \
      --http "127.0.0.1:$((port + 1))" > "$dir/$1.out" 2>&1 &
  fi
  pid=$!
  for ((i = 0; i < 600; i++)); do
    (exec 3<>"/dev/tcp/127.0.0.1/$port") 2>/dev/null && return
    kill -0 "$pid" || { tail -5 "$dir/$1.out" >&2; exit 1; }
    sleep 0.1
  done
  echo "the broker did not listen within 60 s" >&2; exit 1
}

# ticks prints the CPU time that the broker has used, in clock ticks (100 per second).
ticks() { awk '{print $14 + $15}' "/proc/$pid/stat"; }
field() { sed -n "s/.*\"$2\": *\([0-9.]*\).*/\1/p" "$1" | head -1; }

run() { # KIND MEASUREMENT ARGUMENTS-OF-HEARTWOOD-BENCH...
  local kind=$1 what=$2 before after gb client_cpu; shift 2
  before=$(ticks)
  "$dir/ours" bench "$@" --bootstrap "127.0.0.1:$port" --json > "$dir/result.json"
  after=$(ticks)
  tr -d '\n' < "$dir/result.json" > "$dir/result.line"
  gb=$(field "$dir/result.line" bytes); client_cpu=$(field "$dir/result.line" cpuSeconds)
  printf '%s\t%s\t%s\t%s\t%s\t%s\t%s\n' "$kind" "$what" "$(field "$dir/result.line" MBs)" \
    "$(awk -v b="$before" -v a="$after" -v gb="$gb" \
      'BEGIN {printf "%.2f", (a - b) / 100 / (gb / 1e9)}')" \
    "$(awk -v s="$client_cpu" -v gb="$gb" 'BEGIN {printf "%.2f", s / (gb / 1e9)}')" \
    "$(field "$dir/result.line" p50Millis)" "$(field "$dir/result.line" p99Millis)"
}

uptime
printf 'broker\tmeasurement\tMB/s\tbroker CPU s/GB\tclient CPU s/GB\tp50 ms\tp99 ms\n'
for ((turn = 0; turn < turns; turn++)); do
  for kind in $kinds; do
    start "$kind"
    "$dir/ours" bench produce --bootstrap "127.0.0.1:$port" --topic warm \
      --records $((records / 10)) --record-bytes "$bytes" --codec "$codec" > /dev/null
    "$dir/ours" bench consume --bootstrap "127.0.0.1:$port" --topic warm > /dev/null
    run "$kind" produce produce --topic t --records "$records" --record-bytes "$bytes" \
      --codec "$codec"
    run "$kind" consume consume --topic t
    run "$kind" "consume again" consume --topic t
    run "$kind" "produce at $rate/s" produce --topic rated --records 100000000 --rate "$rate" \
      --duration "$rated" --record-bytes "$bytes" --codec "$codec"
    stop
  done
done
uptime
