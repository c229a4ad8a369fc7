#!/usr/bin/env bash
# release.sh VERSION URL [OS/ARCH...]: writes the archives of a release, SHA256SUMS and the krew
# manifest into dist. Users download the archives from URL. The plugin for this platform is then
# unpacked and run. The default is all platforms.
set -euo pipefail
cd "$(dirname "$0")/.."
version=$1 url=$2
shift 2
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

module=heartwood.dev/heartwood
commit=$(git rev-parse --short=12 HEAD)
flags="-s -w -X $module/internal/version.version=$version -X $module/internal/version.commit=$commit"
binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
build() { # OS ARCH PROGRAM FILE
  GOOS=$1 GOARCH=$2 CGO_ENABLED=0 \
    go build -trimpath -ldflags "$flags" -o "$binaries/$1_$2/$4" "./cmd/$3"
}
for platform; do
  os=${platform%/*} arch=${platform#*/}
  case $os in
    windows) build "$os" "$arch" kubectl-heartwood kubectl-heartwood.exe ;; # brokers need Unix
    *)
      build "$os" "$arch" kubectl-heartwood kubectl-heartwood
      build "$os" "$arch" heartwood heartwood
      ;;
  esac
done
rm -rf dist
go run ./hack/release -version "$version" -binaries "$binaries" -url "$url" -out dist
(cd dist && sha256sum --quiet -c SHA256SUMS)

native=dist/kubectl-heartwood_${version}_$(go env GOOS)_$(go env GOARCH).tar.gz
if [ -f "$native" ]; then
  unpacked=$binaries/unpacked
  mkdir "$unpacked"
  tar -xzf "$native" -C "$unpacked"
  printed=$("$unpacked/kubectl-heartwood" --version)
  case $printed in
    *"$version"*) ;;
    *) echo "the plugin in $native prints the version $printed" >&2; exit 1 ;;
  esac
fi
ls -l dist
