#!/usr/bin/env bash
# soak.sh TIME runs every test that uses random numbers (test/kit/seed) repeatedly for TIME (90s,
# 10m, 8h), each time with a new seed. For each failed test it keeps the log in bin/soak and prints
# the command that repeats the failure. The exit code is 1 if any test failed. The script requires
# the variables HEARTWOOD_BINARY and KUBEBUILDER_ASSETS, which `make soak` sets.
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
# seeded PACKAGE prints a pattern for go test -run that matches the tests of a package that use a
# seed.
seeded() {
  awk '/^func /{name = ""} /^func Test/{split($2, part, "("); name = part[1]}
    name && /seed\.(New|Sequence)\(|newRandom\(t\)/ {print name}' "$1"/*_test.go |
    sort -u | paste -sd '|' -
}

runs=0 failures=0 SECONDS=0 # SECONDS starts at 0 here, so the time of the builds is not included
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
