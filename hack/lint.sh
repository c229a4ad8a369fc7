#!/usr/bin/env bash
# lint.sh: every check that runs nothing of ours: format, vet, golangci-lint, generated files, the chart.
# It goes on after a finding, so that one run shows all of them.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
check() { # NAME COMMAND...
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}
# formatted fails when a tracked file is not as gofmt writes it; gofmt itself only lists.
formatted() {
  local files
  files=$(git ls-files --cached --others --exclude-standard '*.go' | xargs -r gofmt -l)
  [ -z "$files" ] || { echo "not formatted; run gofmt -w:"; echo "$files"; return 1; }
}

check gofmt formatted
check "go.mod" go mod tidy -diff
check vet go vet ./...
check "vet e2e" go vet -tags e2e ./test/e2e/...
check "vet compat" go vet -tags compat ./test/compat
check golangci-lint go tool -modfile=hack/tools/golangci-lint/go.mod golangci-lint run
check generated hack/verify.sh
check chart hack/chart-lint.sh

[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
