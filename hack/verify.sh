#!/usr/bin/env bash
# verify.sh fails when a generated file is not up to date. It runs hack/generate.sh in a copy of the
# repository, so it changes nothing here and also detects generated files that were never committed.
set -euo pipefail
cd "$(dirname "$0")/.."

copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
git ls-files --cached --others --exclude-standard -z | while IFS= read -r -d '' file; do
  [ ! -e "$file" ] || printf '%s\0' "$file"
done | tar --null --files-from=- -cf - | tar -xf - -C "$copy"

cd "$copy"
git init --quiet
git add --all
hack/generate.sh
git add --all --intent-to-add
if ! git --no-pager diff --exit-code; then
  echo "generated files are stale: run make generate and commit its changes" >&2
  exit 1
fi
