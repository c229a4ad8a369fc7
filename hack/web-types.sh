#!/usr/bin/env bash
# web-types.sh checks the types of the console's TypeScript with npm's tsc. Without npm it says so
# and succeeds, because a fresh clone needs Go only; CI has npm.
set -euo pipefail
cd "$(dirname "$0")/../internal/console/web"
if ! command -v npm > /dev/null; then
  echo "web-types: npm is not installed; the types were not checked"
  exit 0
fi
exec npm exec --yes --package=typescript@7.0.2 -- tsc --project tsconfig.json
