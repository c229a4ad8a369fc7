#!/usr/bin/env bash
# docs.sh builds the documents as a site in bin/docs/site, and checks links, anchors, requests to
# other hosts and the search. It needs Python 3 with the module venv. The site generator
# (hack/docs/requirements.txt) is installed once in the user's cache; HEARTWOOD_CACHE is the cache
# directory, if it is not the user's.
set -euo pipefail
cd "$(dirname "$0")/.."
cache=${HEARTWOOD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/heartwood}
key=$({ cat hack/docs/requirements.txt; python3 --version; } | git hash-object --stdin | cut -c1-16)
venv=$cache/docs-$key
if [ ! -e "$venv/complete" ]; then
  rm -rf "$venv"
  python3 -m venv "$venv"
  "$venv/bin/pip" install --quiet --disable-pip-version-check --no-deps \
    -r hack/docs/requirements.txt
  touch "$venv/complete"
fi
rm -rf bin/docs
"$venv/bin/python" hack/docs/pages.py . bin/docs/pages
mkdir -p bin/docs/pages/assets
cp hack/docs/assets/* bin/docs/pages/assets/
export NO_MKDOCS_2_WARNING=1 PYTHONDONTWRITEBYTECODE=1
"$venv/bin/mkdocs" build --strict --config-file hack/docs/mkdocs.yml
(cd hack/docs && python3 -m unittest -q check_test)
python3 hack/docs/check.py bin/docs/site

# Commands, and what make test checks in the documents too.
GOTOOLCHAIN=local go test ./cmd/heartwood -run Documents
GOTOOLCHAIN=local go test ./internal/lint -run 'Document|Folders|Decisions'

# The search must find a word when the site is opened as files. Needs Chromium.
if browser=$(command -v chromium || command -v google-chrome); then
  "$browser" --headless --no-sandbox --disable-gpu --virtual-time-budget=60000 --dump-dom \
    "file://$PWD/bin/docs/site/index.html?q=tombstone" 2> /dev/null |
    grep -q '[0-9] matching documents' || { echo "the offline search finds nothing"; exit 1; }
else
  echo "Chromium is not installed: the offline search was not tried."
fi
echo "The site is in bin/docs/site; open bin/docs/site/index.html."
