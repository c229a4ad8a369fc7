#!/usr/bin/env bash
# soak.sh TIME runs every test that draws random numbers (test/kit/seed) with new seeds, over and
# over for TIME (90s, 10m, 8h). It keeps the log of each failure under bin/soak and prints the
# command that repeats it; it fails if there was a failure. It needs HEARTWOOD_BINARY and
# KUBEBUILDER_ASSETS, as `make soak` sets them.
set -euo pipefail
cd "$(dirname "$0")/.."
root=$PWD kept=$PWD/bin/soak
case ${1:-10m} in
  *h) seconds=$((${1%h} * 3600)) ;;
  *m) seconds=$((${1%m} * 60)) ;;
  *s) seconds=${1%s} ;;
  *) echo "soak.sh: invalid time $1: want a number with s, m or h, such as 10m" >&2; exit 2 ;;
esac
binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
mkdir -p "$kept"

mapfile -t packages < <(
  git grep -lE --untracked '"heartwood.dev/heartwood/test/kit/seed"' -- \
    '*_test.go' ':!test/kit/seed' | xargs -n 1 dirname | sort -u
)
for package in "${packages[@]}"; do
  go test -c -o "$binaries/${package//\//_}" "./$package"
done
# seeded PACKAGE prints the tests of a package that use a seed, as a pattern.
seeded() {
  awk '/^func /{name = ""} /^func Test/{split($2, part, "("); name = part[1]}
    name && /seed\.(New|Sequence)\(|newRandom\(t\)/ {print name}' "$1"/*_test.go |
    sort -u | paste -sd '|' -
}

runs=0 failures=0 SECONDS=0 # excludes the build
while ((SECONDS < seconds)); do
  while read -r package; do
    ((SECONDS < seconds)) || break
    name=${package//\//_}
    log=$kept/$name.$runs.log
    runs=$((runs + 1))
    tests=$(seeded "$root/$package")
    if (cd "$package" && HEARTWOOD_SEED=random "$binaries/$name" -test.v -test.timeout 20m \
      -test.run "^($tests)\$") >"$log" 2>&1; then
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
