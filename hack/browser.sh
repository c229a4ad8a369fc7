#!/usr/bin/env bash
# browser.sh tests the web console in headless Chromium (test/browser). It fetches the script of
# axe-core, which checks accessibility, from npm if npm is installed.
set -euo pipefail
cd "$(dirname "$0")/.."
axe=4.14.1
export AXE="$PWD/bin/axe-$axe.min.js"
if [ ! -e "$AXE" ] && command -v npm > /dev/null; then
  dir=$(mktemp -d)
  trap 'rm -rf "$dir"' EXIT
  (cd "$dir" && npm pack --silent "axe-core@$axe" > /dev/null && tar -xzf "axe-core-$axe.tgz")
  cp "$dir/package/axe.min.js" "$AXE"
fi
# The login page is tested with a real API server.
export KUBEBUILDER_ASSETS="${KUBEBUILDER_ASSETS:-$(hack/kubetools/assets.sh)}"
# The login page is tested with a real API server.
export KUBEBUILDER_ASSETS="${KUBEBUILDER_ASSETS:-$(hack/kubetools/assets.sh)}"
export HEARTWOOD_BINARY="${HEARTWOOD_BINARY:-$PWD/bin/heartwood}"
cd test/browser
exec go test -count=1 -timeout 20m -v "$@" .
