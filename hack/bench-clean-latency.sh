#!/usr/bin/env bash
# How long a produce takes while the cleaner works, next to without: docs/bench/cleaner.md. One broker (`heartwood dev`) with a topic to
# clean, of PARTITIONS, RECORDS of 1 KB over KEYS in all, and a compacted topic to produce to with acks=all at RATE records a second. For
# each partition: a measurement without (as long as the last clean), and one during `heartwood clean --partition`. Prints the medians.
#
# DIR=tmp/bench-latency PARTITIONS=5 RECORDS=3000000 KEYS=500000 RATE=1000 PORT=19092    some 4 minutes and 4 GB
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${DIR:-tmp/bench-latency}; port=${PORT:-19092}; http=127.0.0.1:$((port + 100)); broker=127.0.0.1:$port; partitions=${PARTITIONS:-5}
rm -rf "$dir"; mkdir -p "$dir/manifests"
[ -n "${HEARTWOOD:-}" ] || { CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/heartwood ./cmd/heartwood; HEARTWOOD=bin/heartwood; }
go build -o "$dir/cleanlatency" ./hack/cleanlatency
topic() { # NAME PARTITIONS
  printf 'apiVersion: heartwood.dev/v1alpha1\nkind: Topic\nmetadata: {name: %s}\nspec: {cluster: demo, partitions: %d, cleanupPolicy: Compact, compaction: {minDirtyPercent: 100}, segment: {size: 64Mi}}\n---\n' "$1" "$2"; }
{ printf 'apiVersion: heartwood.dev/v1alpha1\nkind: LogCluster\nmetadata: {name: demo}\nspec: {brokers: 1, storage: {size: 20Gi}, cleaner: {workers: 1, memory: 64Mi}}\n---\n'
  topic big "$partitions"; topic live 1; } > "$dir/manifests/all.yaml"
"$HEARTWOOD" dev -f "$dir/manifests" --listen "$broker" --http "$http" --data-dir "$dir/data" > "$dir/dev.log" 2>&1 & dev=$!
trap 'kill $dev 2>/dev/null || true; wait $dev 2>/dev/null || true; rm -rf "$dir/data"' EXIT
for _ in $(seq 300); do grep -q ^ready "$dir/dev.log" && break; kill -0 $dev; sleep 0.1; done
grep -q ^ready "$dir/dev.log" || { cat "$dir/dev.log" >&2; exit 1; }

"$dir/cleanlatency" -broker "$broker" -topic big -records "${RECORDS:-3000000}" -keys "${KEYS:-500000}" -rate 0 > /dev/null
sleep 5 # what the load left to do
seconds=5
for partition in $(seq 0 $((partitions - 1))); do
  without=$("$dir/cleanlatency" -broker "$broker" -topic live -rate "${RATE:-1000}" sleep $seconds)
  during=$("$dir/cleanlatency" -broker "$broker" -topic live -rate "${RATE:-1000}" "$HEARTWOOD" clean big --address "$http" --partition "$partition" --wait 2>> "$dir/clean.log")
  seconds=$(sed 's/.*"seconds":\([0-9.]*\).*/\1/' <<< "$during")
  echo "without $without"; echo "during $during"
done | tee "$dir/results" >&2
tail -n "$partitions" "$dir/clean.log" >&2

echo "| | seconds | p50 ms | p99 ms | p99.9 ms | longest ms |"
echo "|---|---|---|---|---|---|"
for kind in without during; do
  printf '| %s |' $kind
  for field in seconds p50_ms p99_ms p999_ms max_ms; do
    sed -n "s/^$kind .*\"$field\":\([0-9.]*\).*/\1/p" "$dir/results" | sort -n | awk '{v[NR]=$1} END{printf " %.2f (%.2f to %.2f) |", NR%2?v[(NR+1)/2]:(v[NR/2]+v[NR/2+1])/2, v[1], v[NR]}'
  done
  echo
done
