#!/usr/bin/env bash
# bench-failover.sh measures how long partitions accept no writes with acks=all after a broker is
# killed or stopped, or while brokers are killed one after the other. The cluster has a thousand
# partitions on three brokers in separate processes. docs/internals/bench/failover.md contains the
# results.
#
# The script starts `heartwood dev --processes` and stops it by its pid, which also stops the
# brokers. It ends after at most LIMIT seconds.
#
# DIR=tmp/bench-failover PARTITIONS=1000 LOADED=30 FAULTS=kill,term,turns PORT=31092 LIMIT=420
# KILLS=3 LOG_LEVEL=warn HEARTWOOD= ALONE=
#
# With ALONE=1, each partition under load has a separate client. Otherwise all of them share one
# client, whose requests contain several partitions, so a response waits for the slowest of them.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${DIR:-tmp/bench-failover}; partitions=${PARTITIONS:-1000}; port=${PORT:-31092}
mkdir -p "$dir"; rm -rf "$dir/data" "$dir/out"
if [ -z "${HEARTWOOD:-}" ]; then
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/heartwood ./cmd/heartwood
  HEARTWOOD=bin/heartwood
fi
go build -o "$dir/benchfailover" ./hack/benchfailover

cat > "$dir/cluster.yaml" <<YAML
apiVersion: heartwood.dev/v1alpha1
kind: LogCluster
metadata: {name: bench}
spec:
  brokers: 3
  storage: {size: 1Gi}
  topicDefaults: {replicas: 3, minInSyncReplicas: 2}
---
apiVersion: heartwood.dev/v1alpha1
kind: Topic
metadata: {name: failover}
spec: {cluster: bench, partitions: $partitions, cleanupPolicy: Delete}
YAML

uptime
"$HEARTWOOD" dev --processes --brokers 3 --log-level "${LOG_LEVEL:-warn}" \
  -f "$dir/cluster.yaml" --data-dir "$dir/data" --listen "127.0.0.1:$port" \
  --http "127.0.0.1:$((port + 10))" > "$dir/out" 2> "$dir/err" &
pid=$!
trap 'kill -TERM $pid 2>/dev/null || true; wait $pid 2>/dev/null || true; rm -rf "$dir/data"' EXIT
for ((i = 0; i < 600; i++)); do
  grep -q '^ready' "$dir/out" && break
  kill -0 $pid 2>/dev/null || { cat "$dir/err" >&2; exit 1; }
  sleep 0.1
done
grep -q '^ready' "$dir/out" || { echo "the cluster was not ready within 60 s" >&2; exit 1; }

brokers=127.0.0.1:$port,127.0.0.1:$((port + 1)),127.0.0.1:$((port + 2))
timeout "${LIMIT:-420}" "$dir/benchfailover" -brokers "$brokers" -output "$dir/out" \
  -partitions "$partitions" -loaded "${LOADED:-30}" -faults "${FAULTS:-kill,term,turns}" \
  -kills "${KILLS:-3}" ${ALONE:+-alone}
uptime
