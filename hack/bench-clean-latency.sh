#!/usr/bin/env bash
# bench-clean-latency.sh measures the latency of produce requests with and without a running pass of
# the cleaner, for docs/internals/bench/cleaner.md. It runs one broker (`heartwood dev`) with two
# compacted topics. Topic big is cleaned: it has PARTITIONS partitions, and RECORDS records of 1 KB
# with KEYS keys in total. Topic live receives RATE records per second with acks=all, whose
# latencies are measured. For each partition of big, the script measures once without cleaning, for
# as long as the previous clean took, and once during `heartwood clean --partition`. It prints the
# medians.
#
# DIR=tmp/bench-latency PARTITIONS=5 RECORDS=3000000 KEYS=500000 RATE=1000 PORT=19092
# The script takes about 4 minutes and 4 GB of disk space.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${DIR:-tmp/bench-latency}; port=${PORT:-19092}; partitions=${PARTITIONS:-5}
http=127.0.0.1:$((port + 100)); broker=127.0.0.1:$port
rm -rf "$dir"; mkdir -p "$dir/manifests"
if [ -z "${HEARTWOOD:-}" ]; then
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/heartwood ./cmd/heartwood
  HEARTWOOD=bin/heartwood
fi
go build -o "$dir/cleanlatency" ./hack/cleanlatency
topic() { # NAME PARTITIONS
  cat <<YAML
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: $1}
spec:
  cluster: demo
  partitions: $2
  cleanupPolicy: Compact
  compaction: {minDirtyPercent: 100}
  segment: {size: 64Mi}
---
YAML
}
cat > "$dir/manifests/all.yaml" <<YAML
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: demo}
spec: {brokers: 1, storage: {size: 20Gi}, cleaner: {workers: 1, memory: 64Mi}}
---
$(topic big "$partitions")
$(topic live 1)
YAML
"$HEARTWOOD" dev -f "$dir/manifests" --listen "$broker" --http "$http" --data-dir "$dir/data" \
  > "$dir/dev.log" 2>&1 & dev=$!
trap 'kill $dev 2>/dev/null || true; wait $dev 2>/dev/null || true; rm -rf "$dir/data"' EXIT
for _ in $(seq 300); do grep -q ^ready "$dir/dev.log" && break; kill -0 $dev; sleep 0.1; done
grep -q ^ready "$dir/dev.log" || { cat "$dir/dev.log" >&2; exit 1; }

measure() { "$dir/cleanlatency" -broker "$broker" "$@"; }
measure -topic big -records "${RECORDS:-3000000}" -keys "${KEYS:-500000}" -rate 0 > /dev/null
sleep 5 # time for the background work of the broker after the load, such as syncs
seconds=5
for partition in $(seq 0 $((partitions - 1))); do
  without=$(measure -topic live -rate "${RATE:-1000}" sleep $seconds)
  during=$(measure -topic live -rate "${RATE:-1000}" "$HEARTWOOD" clean big --address "$http" \
    --partition "$partition" --wait 2>> "$dir/clean.log")
  seconds=$(sed 's/.*"seconds":\([0-9.]*\).*/\1/' <<< "$during")
  echo "without $without"; echo "during $during"
done | tee "$dir/results" >&2
tail -n "$partitions" "$dir/clean.log" >&2

echo "| | seconds | p50 ms | p99 ms | p99.9 ms | maximum ms |"
echo "|---|---|---|---|---|---|"
for kind in without during; do
  printf '| %s |' $kind
  for field in seconds p50_ms p99_ms p999_ms max_ms; do
    sed -n "s/^$kind .*\"$field\":\([0-9.]*\).*/\1/p" "$dir/results" | sort -n |
      awk '{v[NR] = $1}
        END {median = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
          printf " %.2f (%.2f to %.2f) |", median, v[1], v[NR]}'
  done
  echo
done
