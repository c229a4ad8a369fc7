#!/usr/bin/env bash
# fuzz.sh TIME runs every fuzz target of the module for TIME. Go fuzzes one target of one package at
# a time.
set -euo pipefail
cd "$(dirname "$0")/.."
time=${1:-10s}

found=0
while IFS=: read -r file func; do
  found=$((found + 1))
  echo "== $(dirname "$file") $func"
  # Without the bound on minimization, a short run spends most of its time on it.
  go test -run '^$' -fuzz "^$func\$" -fuzztime "$time" -fuzzminimizetime 5x "./$(dirname "$file")"
done < <(git grep -oE --untracked '^func Fuzz[A-Za-z0-9_]+' -- '*_test.go' |
  sed 's/:func /:/' | sort)
echo "$found fuzz targets"
