#!/usr/bin/env bash
# fuzz.sh TIME runs every fuzz target of the module for TIME each. It runs them one after the other,
# because go test -fuzz accepts only one target.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}

found=0
while IFS=: read -r file func; do
  found=$((found + 1))
  echo "== $(dirname "$file") $func"
  # Without -fuzzminimizetime, a short run would spend most of its time on minimizing inputs.
  go test -run '^$' -fuzz "^$func\$" -fuzztime "$time" -fuzzminimizetime 5x "./$(dirname "$file")"
done < <(git grep -oE --untracked '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' |
  sed 's/:func /:/' | sort)
echo "$found fuzz targets"
