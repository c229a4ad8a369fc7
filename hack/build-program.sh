#!/usr/bin/env bash
# build-program.sh VERSION OS ARCH PROGRAM FILE: builds a program of a release. The file depends
# only on the commit, the version and the Go version: not on the path of the checkout, nor on its
# tags and untracked files, which go build would write into the program. hack/releases calls the
# script of an earlier release's commit.
set -euo pipefail
version=$1 os=$2 arch=$3 program=$4 file=$(realpath -m "$5")
cd "$(dirname "$0")/.."
module=heartwood.dev/heartwood
commit=$(git rev-parse HEAD | cut -c1-12)
GOFLAGS='' GOOS=$os GOARCH=$arch CGO_ENABLED=0 go build -trimpath -buildvcs=false -o "$file" \
  -ldflags "-s -w -X $module/internal/version.version=$version \
-X $module/internal/version.commit=$commit" "./cmd/$program"
