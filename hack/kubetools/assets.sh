#!/usr/bin/env bash
# assets.sh [--key] prints the path of a directory with the programs etcd and kube-apiserver, for
# KUBEBUILDER_ASSETS. If the directory does not exist, the script first builds the programs from Go
# modules, which takes about 4 minutes of CPU time.
#
# The directory is in the user's cache. Its name contains a key: the hash of the module files, this
# script and the Go version. So a change of any of these triggers a build, and all checkouts share
# the result. --key prints the key, for the cache of a CI system. HEARTWOOD_CACHE is the cache
# directory, if it is not the user's.
set -euo pipefail
cd "$(dirname "$0")"
export GOTOOLCHAIN=local GOWORK=off GOFLAGS= CGO_ENABLED=0

programs=(go.etcd.io/etcd/server/v3 k8s.io/kubernetes/cmd/kube-apiserver)

recipe_key() {
  { cat go.mod go.sum assets.sh; go env GOVERSION GOOS GOARCH; } |
    git hash-object --stdin | cut -c1-16
}
cache_folder() {
  case $(go env GOOS) in
    darwin) echo "${HEARTWOOD_CACHE:-$HOME/Library/Caches/heartwood}" ;;
    *) echo "${HEARTWOOD_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/heartwood}" ;;
  esac
}
# ldflags prints linker flags that set the version of Kubernetes. Without them, the API server has
# version v0.0.0 and rejects its own feature gates.
ldflags() {
  local version package=k8s.io/component-base/version
  version=$(go list -m -f '{{.Version}}' k8s.io/kubernetes)
  IFS=. read -r major minor _ <<<"${version#v}"
  echo "-s -w -X $package.gitVersion=$version" \
    "-X $package.gitMajor=$major -X $package.gitMinor=$minor" \
    "-X $package.gitTreeState=clean -X $package.buildDate=1970-01-01T00:00:00Z"
}
build() { # FOLDER
  local flags program name
  flags=$(ldflags)
  for program in "${programs[@]}"; do
    name=$(basename "$program")
    [ "$name" = v3 ] && name=etcd
    echo "building $name (about 2 minutes of CPU, once)" >&2
    nice go build -trimpath -ldflags "$flags" -o "$1/$name" "$program" >&2
  done
}

key=$(recipe_key)
[ "${1-}" = --key ] && { echo "$key"; exit 0; }
cache=$(cache_folder)
assets=$cache/kubetools-$key
mkdir -p "$cache"
# If several processes run this script, one builds and the others wait. The directory is renamed
# when it is complete, so it is never incomplete.
exec 9>"$cache/kubetools.lock"
! command -v flock >/dev/null || flock 9
if [ ! -d "$assets" ]; then
  fresh=$(mktemp -d "$cache/kubetools-building.XXXXXX")
  trap 'rm -rf "$fresh"' EXIT
  build "$fresh"
  chmod 755 "$fresh"
  mv "$fresh" "$assets"
fi
echo "$assets"
