#!/usr/bin/env bash
# reproduce.sh VERSION [OS/ARCH...]: builds the release of the last commit twice, in clones at
# different paths and with empty build caches, and fails if a file of the two differs. The default
# platform is linux/amd64. It takes several minutes.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1
shift
[ $# -gt 0 ] || set -- linux/amd64
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset SIGNING_KEY # signatures of minisign are equal as well, but need a password
for copy in first second/at/another/path; do
  mkdir -p "$work/$copy"
  git clone --quiet . "$work/$copy/heartwood"
  GOCACHE="$work/$copy/cache" "$work/$copy/heartwood/hack/release.sh" "$version" \
    "https://heartwood.dev/releases/$version" "$@" > "$work/$copy/log" || {
    cat "$work/$copy/log"
    exit 1
  }
done
diff -r "$work/first/heartwood/dist" "$work/second/at/another/path/heartwood/dist"
echo "$(find "$work/first/heartwood/dist" -type f | wc -l) files are equal"
