#!/usr/bin/env bash
# lint.sh runs the static checks: format, vet, golangci-lint, workflows, generated files, the chart.
# It continues after a failed check, so that one run shows all findings.
set -uo pipefail
cd "$(dirname "$0")/.."

failed=()
check() { # NAME COMMAND...
  local name=$1
  shift
  echo "== $name"
  "$@" || failed+=("$name")
}
# formatted fails when a file is not formatted; gofmt itself only lists such files.
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
check "vet examples" go vet -tags examples ./test/examples
check golangci-lint go tool -modfile=hack/tools/golangci-lint/go.mod golangci-lint run
# shellcheck and pyflakes are disabled: only some machines have them, and results must not differ.
check actionlint go tool -modfile=hack/tools/actionlint/go.mod actionlint -shellcheck= -pyflakes=
check generated hack/verify.sh
check chart hack/chart-lint.sh

[ ${#failed[@]} = 0 ] || { echo "failed: ${failed[*]}"; exit 1; }
