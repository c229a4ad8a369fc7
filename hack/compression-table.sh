#!/usr/bin/env bash
# compression-table.sh prints the table of docs/use/compression.md. For each codec and level, and
# for three batch sizes, it contains the compression ratio and the MB per second of CPU time for
# writing and reading. Variables: HEARTWOOD is the binary (default bin/heartwood), MB the size of
# the uncompressed data for a fast codec (slow codecs use less), DIR the directory for logs.
set -euo pipefail
cd "$(dirname "$0")/.."
heartwood=${HEARTWOOD:-bin/heartwood}
mb=${MB:-64}
shapes=("16384 1000" "65536 1000" "1048576 5000")

# cell CODEC LEVEL BATCH-BYTES RECORD-BYTES MB prints "ratio | in | out".
cell() {
  local level=(); [ "$2" = - ] || level=(--level "$2")
  "$heartwood" bench append --codec "$1" "${level[@]}" --batch-bytes "$3" --record-bytes "$4" \
    --records $(($5 * 1000000 / $4)) --dir "${DIR:-}" --flush 1h --json |
    sed -E 's/.*"ratio":([0-9.]+).*"cpuMBs":([0-9.]+).*"cpuMBs":([0-9.]+).*/\1 \2 \3/' |
    awk '{printf "%.2f | %.0f | %.0f", $1, $2, $3}'
}

printf '| codec | level | %s | in | out | %s | in | out | %s | in | out |\n' \
  '16 KB: ratio' '64 KB: ratio' '1 MB: ratio'
echo '|---|---|---|---|---|---|---|---|---|---|---|'
while read -r codec level part; do
  printf '| %s | %s |' "$codec" "${level/#-/}"
  for shape in "${shapes[@]}"; do
    read -r batch record <<<"$shape"
    printf ' %s |' "$(cell "$codec" "$level" "$batch" "$record" $((mb / part)))"
  done
  echo
done <<'ROWS'
none - 1
snappy - 1
lz4 1 2
lz4 5 2
lz4 9 1
lz4 12 4
lz4 17 8
gzip 1 2
gzip 6 4
gzip 9 4
zstd 1 1
zstd 3 1
zstd 6 2
zstd 10 4
ROWS
