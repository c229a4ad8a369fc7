#!/usr/bin/env bash
# bench-cleaner.sh measures the cleaner alone, on whole logs, and Apache Kafka's cleaner if
# available. docs/bench/cleaner.md and docs/zendesk.md have the results.
#
# Logs are created once, by hack/keyedlog, and kept in DIR. Each run cleans a clone: data files are
# hard links, because neither cleaner writes to a sealed one; all other files are copies. The
# cleaners alternate, and may use the same amount of memory:
#   live      Heartwood, with the key sidecars that a broker would have built before, and 20 % of
#             garbage left, the default for topics
#   live-all  the same, with no garbage left
#   offline   Heartwood, with only the data files and Kafka's indexes; no garbage left
#   kafka     Kafka's cleaner, on a directory that is byte for byte that of offline
#
# KAFKA names an executable that cleans a directory with Apache Kafka's own cleaner, called as
#   $KAFKA tool isolated-cleaner clean --dir DIR --dedupe BYTES --segment-bytes BYTES
# It has to call Cleaner.clean() until nothing is dirty, as a cleaner thread does, and to print a
# line that begins with TOTAL and contains passes= rchar_MB= wchar_MB= (of 2^20 bytes) cpu_s=
# wall_s= end_MB= for the cleaning alone. With KAFKA the set "kafka" exists too: `$KAFKA tool
# isolated-cleaner gen` writes it.
#
# DIR=tmp/bench-cleaner REPS=3 SETS="z3 z12 random u100 u5k u5kz" RESULTS= KAFKA=
# It takes about half an hour and 15 GB with Kafka.
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

# spec NAME prints: records keys size order codec memory. With the memory of z3 and z12, Kafka's map
# (24 bytes per key, filled to 0.9) holds a third and a twelfth of the keys.
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

# clone LOG KIND creates DIR/run/t-0, with Heartwood's own files only for live.
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

busy() { awk '/^cpu /{print ($2+$3+$4+$7+$8)/100}' /proc/stat; }
# moved prints the bytes read and written by this shell and the processes that it has waited for.
moved() { awk '/^rchar/{r=$2}/^wchar/{w=$2}END{print r, w}' /proc/$$/io; }
field() { sed -n "s/.*\"$1\":\([0-9.]*\).*/\1/p" <<< "$2"; }
total() { tr '\t' '\n' <<< "$2" | sed -n "s/^$1=//p"; }

# measure NAME KIND REP prints one line: set, cleaner, passes, MB read, MB written, CPU s, wall s,
# MB left, cores kept busy by other processes.
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
