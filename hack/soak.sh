#!/usr/bin/env bash
# soak.sh TIME: runs every test that draws random numbers (test/kit/seed) with seeds that nobody has tried, over and over for TIME (90s,
# 10m, 8h). Of each failure it keeps the log under bin/soak and prints the command that repeats it; it fails if there was any.
# Needs HEARTWOOD_BINARY and KUBEBUILDER_ASSETS, as `make soak` sets them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD kept=$PWD/bin/soak
case ${1:-10m} in
  *h) seconds=$((${1%h} * 3600)) ;;
  *m) seconds=$((${1%m} * 60)) ;;
  *s) seconds=${1%s} ;;
  *) echo "soak.sh: the time is 90s, 10m or 8h, not $1" >&2; exit 2 ;;
esac
binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
mkdir -p "$kept"

mapfile -t packages < <(git grep -lE --untracked '"heartwood.dev/heartwood/test/kit/seed"' -- '*_test.go' ':!test/kit/seed' | xargs -n 1 dirname | sort -u)
for package in "${packages[@]}"; do
  go test -c -o "$binaries/${package//\//_}" "./$package"
done
# seeded PACKAGE: the tests of a package that ask for a seed, as a pattern.
seeded() {
  awk '/^func /{name = ""} /^func Test/{split($2, part, "("); name = part[1]} name && /seed\.(New|Sequence)\(|newRandom\(t\)/ {print name}' "$1"/*_test.go |
    sort -u | paste -sd '|' -
}

runs=0 failures=0 SECONDS=0 # building does not count
while ((SECONDS < seconds)); do
  while read -r package; do
    ((SECONDS < seconds)) || break
    name=${package//\//_}
    log=$kept/$name.$runs.log
    runs=$((runs + 1))
    if (cd "$package" && HEARTWOOD_SEED=random "$binaries/$name" -test.v -test.timeout 20m -test.run "^($(seeded "$root/$package"))\$") >"$log" 2>&1; then
      rm "$log"
    else
      failures=$((failures + 1))
      echo "FAIL $package: $log"
      grep -E -e '--- FAIL|^panic:|repeat: ' "$log" || true
    fi
  done < <(printf '%s\n' "${packages[@]}" | sort -R)
done
echo "soak: $runs runs of ${#packages[@]} packages, $failures failed"
((failures == 0))
