#!/usr/bin/env bash
# bench-cleaner.sh measures the cleaner without a broker, on complete logs, and Apache Kafka's
# cleaner if available. docs/internals/bench/cleaner.md and docs/internals/zendesk.md contain the
# results.
#
# Logs are created once, by hack/keyedlog, and kept in DIR. Each run cleans a clone of a log. Sealed
# data files are hard links in the clone, because neither cleaner writes to them; all other files
# are copies. The cleaners take turns, and may use the same amount of memory:
#   live      Heartwood, with existing key sidecars, as on a broker; the pass may leave 20 %
#             garbage, which is the default for topics
#   live-all  Heartwood, with existing key sidecars; the pass removes all garbage
#   offline   Heartwood, without key sidecars; the pass removes all garbage
#   kafka     Kafka's cleaner, on the same files as offline
#
# KAFKA names an executable that cleans a directory with Apache Kafka's own cleaner, called as
#   $KAFKA tool isolated-cleaner clean --dir DIR --dedupe BYTES --segment-bytes BYTES
# It must call Cleaner.clean() until nothing is dirty, as a cleaner thread does. Then it must print
# a line that begins with TOTAL and contains passes= rchar_MB= wchar_MB= (of 2^20 bytes) cpu_s=
# wall_s= end_MB=, measured for the cleaning only. If KAFKA is set, there is also a set "kafka",
# which `$KAFKA tool isolated-cleaner gen` writes.
#
# DIR=tmp/bench-cleaner REPS=3 SETS="z3 z12 random u100 u5k u5kz" RESULTS= KAFKA=
# With Kafka, the script takes about half an hour and 15 GB of disk space.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=${DIR:-tmp/bench-cleaner}; segment=$((64 << 20)); kafka=${KAFKA:-}
mkdir -p "$dir"
results=${RESULTS:-$(mktemp)}; : >> "$results"
if [ -z "${HEARTWOOD:-}" ]; then
  CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o bin/heartwood ./cmd/heartwood
  HEARTWOOD=bin/heartwood
fi
go build -o "$dir/keyedlog" ./hack/keyedlog

# spec NAME prints the parameters of a set: records keys size order codec memory. With the memory of
# z3, Kafka's map (24 bytes per key, load factor 0.9) has space for a third of the keys; with that
# of z12, for a twelfth.
spec() { case $1 in
  u100) echo 10000000 1000000 100 uniform none 134217728;;
  u5k) echo 1000000 500000 5120 uniform none 134217728;;
  u5kz) echo 1000000 500000 5120 uniform zstd 134217728;;
  z3|kafka) echo 1200000 600000 512 same none 5333352;;
  z12) echo 1200000 600000 512 same none 1333344;;
  random) echo 1200000 600000 512 random none 5333352;;
  *) echo "unknown set: $1" >&2; exit 2;; esac; }

# make_log NAME creates the log of a set if necessary, and prints its directory. z12 uses the log of
# z3.
make_log() {
  local name=$1 log
  log=$dir/log-${name/z12/z3}
  read -r records keys size order codec _ <<< "$(spec "$name")"
  if [ ! -f "$log/done" ]; then
    rm -rf "$log"; mkdir -p "$log"
    if [ "$name" = kafka ]; then
      "$kafka" tool isolated-cleaner gen --dir "$log/t-0" --segment-bytes $segment \
        --records $records --keys $keys --size $size --pattern seq > "$log/made"
    else
      "$dir/keyedlog" -dir "$log" -records $records -keys $keys -size $size -order $order \
        -compression $codec -segment-bytes $segment > "$log/made"
    fi
    mv "$log/made" "$log/done"
  fi
  echo "$log/t-0"
}

# clone LOG KIND clones a log to DIR/run/t-0. Only the kinds live and live-all get files that Kafka
# does not have, such as key sidecars.
clone() {
  local log=$1 kind=$2 f active
  rm -rf "$dir/run"; mkdir -p "$dir/run/t-0"; active=$(ls "$log"/*.log | tail -1)
  for f in "$log"/*; do
    case $f in
      "$active") cp "$f" "$dir/run/t-0/";;
      *.log) ln "$f" "$dir/run/t-0/";;
      *.index|*.timeindex|*.snapshot) cp "$f" "$dir/run/t-0/";;
      *) [ "${kind%-all}" != live ] || cp "$f" "$dir/run/t-0/";;
    esac
  done
}

# busy prints the CPU time that all processes of the machine have used, in seconds.
busy() { awk '/^cpu /{print ($2+$3+$4+$7+$8)/100}' /proc/stat; }
# moved prints the bytes read and written by this shell and the processes for which it has waited.
moved() { awk '/^rchar/{r=$2}/^wchar/{w=$2}END{print r, w}' /proc/$$/io; }
field() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<< "$2"; }
total() { tr '\t' '\n' <<< "$2" | sed -n "s/^$1=//p"; }

# measure NAME KIND REP runs a cleaner and prints one line: set, cleaner, repetition, passes, MB
# read, MB written, CPU s, wall s, MB left, and the number of cores that other processes kept busy.
measure() {
  local name=$1 kind=$2 memory log out line busy_before busy_after r0 w0 r1 w1 left garbage=0
  [ "$kind" != live ] || garbage=20
  log=$(make_log "$name"); read -r _ _ _ _ _ memory <<< "$(spec "$name")"
  clone "$log" "$kind"; sync; busy_before=$(busy)
  if [ "$kind" = kafka ]; then
    out=$("$kafka" tool isolated-cleaner clean --dir "$dir/run/t-0" --dedupe "$memory" \
      --segment-bytes $segment --quiet | grep ^TOTAL)
    line="$(total passes "$out") $(total rchar_MB "$out") $(total wchar_MB "$out")"
    line+=" $(total cpu_s "$out") $(total wall_s "$out") $(total end_MB "$out")"
    line+=" $(total others_cpu "$out")"
  else
    read -r r0 w0 <<< "$(moved)"
    "$HEARTWOOD" log clean --json --memory "$memory" --max-garbage-percent $garbage \
      --segment-size $segment "$dir/run/t-0" > "$dir/out.json"
    read -r r1 w1 <<< "$(moved)"; busy_after=$(busy); out=$(cat "$dir/out.json")
    left=$(cat "$dir"/run/t-0/*.log | wc -c)
    line=$(awk -v r=$((r1 - r0)) -v w=$((w1 - w0)) -v b0="$busy_before" -v b1="$busy_after" \
      -v p="$(field passes "$out")" -v c="$(field cpu_seconds "$out")" \
      -v t="$(field wall_seconds "$out")" -v left="$left" \
      'BEGIN {others = (b1 - b0 - c) / t; m = 1048576
        printf "%d %.1f %.1f %.2f %.2f %.1f %.2f", p, r / m, w / m, c, t, left / m,
          others < 0 ? 0 : others}')
    echo "$name $kind $3 $out" >> "$results.json"
  fi
  echo "$name $kind $3 $line" | tee -a "$results" >&2
  rm -rf "$dir/run"
}

for rep in $(seq "${REPS:-3}"); do
  for name in ${SETS:-z3 z12 random u100 u5k u5kz ${kafka:+kafka}}; do
    for kind in live live-all offline ${kafka:+kafka}; do
      [ "$name" = kafka ] && [ "${kind%-all}" = live ] || measure "$name" "$kind" "$rep"
    done
  done
done

columns="| log | cleaner | passes | MB read | MB written | MB moved | CPU s | wall s | MB left"
echo "$columns | others busy |"
echo "|---|---|---|---|---|---|---|---|---|---|"
awk '{k = $1 " | " $2; if (!(k in n)) order[++m] = k; i = ++n[k]
    for (f = 4; f <= 10; f++) v[k, f, i] = $f; v[k, 11, i] = $5 + $6}
  function median(k, f,   i, j, t, a) {
    for (i = 1; i <= n[k]; i++) a[i] = v[k, f, i] + 0
    for (i = 1; i <= n[k]; i++)
      for (j = i + 1; j <= n[k]; j++) if (a[j] < a[i]) {t = a[i]; a[i] = a[j]; a[j] = t}
    low = a[1]; high = a[n[k]] + 0
    return n[k] % 2 ? a[(n[k] + 1) / 2] : (a[n[k] / 2] + a[n[k] / 2 + 1]) / 2
  }
  END {for (o = 1; o <= m; o++) {k = order[o]
    p = median(k, 4); r = median(k, 5); w = median(k, 6); x = median(k, 11)
    t = median(k, 8); e = median(k, 9); b = median(k, 10); c = median(k, 7)
    printf "| %s | %d | %.0f | %.0f | %.0f | %.2f (%.2f to %.2f) | %.2f | %.0f | %.1f |\n",
      k, p, r, w, x, c, low, high, t, e, b}}' \
  <(awk '{l = $1 " " $2 " " $3; $1 = $2 = $3 = ""; print l, $0}' "$results")
