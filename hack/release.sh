#!/usr/bin/env bash
# release.sh VERSION URL [OS/ARCH...]: writes a release into dist: archives of the programs, the
# krew manifest, the image as an OCI layout, the chart, install.yaml, the OLM bundle with
# policies.yaml, an SBOM (CycloneDX) for each program, sizes.txt and SHA256SUMS. If SIGNING_KEY
# names a secret key of minisign, SHA256SUMS is signed with it; a key with a password is asked for
# it. Users download the files from URL. The plugin for this platform is then unpacked and run. The
# default is all platforms; with all of them, and if VERSION is the tag of the commit, the release
# is pinned in hack/releases, too. Needs GNU tar.
set -euo pipefail
if [ -n "${SIGNING_KEY-}" ]; then # before cd, and before an hour of work
  SIGNING_KEY=$(realpath -e "$SIGNING_KEY")
fi
cd "$(dirname "$0")/.."
version=$1 url=$2
shift 2
[ $# -gt 0 ] || set -- linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64

commit=$(git rev-parse HEAD | cut -c1-12)
binaries=$(mktemp -d)
trap 'rm -rf "$binaries"' EXIT
build() { # OS ARCH PROGRAM FILE
  hack/build-program.sh "$version" "$1" "$2" "$3" "$binaries/$1_$2/$4"
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

# The image index has the Linux platforms that were built. Tags and chart versions have no "v".
number=${version#v}
archs=$(cd "$binaries" && printf '%s\n' linux_*/heartwood | sed -n 's,^linux_\([a-z0-9]*\)/.*,\1,p' |
  paste -sd,)
pack() { # DIRECTORY NAME: a tar archive of DIRECTORY/NAME without times and owners
  tar -C "$1" --sort=name --format=ustar --mtime=@0 --owner=0 --group=0 --numeric-owner \
    --mode=u+rw,go=rX -cf - "$2"
}
if [ -n "$archs" ]; then
  layout=$binaries/oci/heartwood
  mkdir "$binaries/oci"
  (cd hack/image && go run . -layout "$layout" -binaries "$binaries" -archs "$archs" \
    -image "heartwood.dev/heartwood:$number" -version "$version" -commit "$commit") \
    > "dist/heartwood_${version}_image.digest"
  pack "$layout" . > "dist/heartwood_${version}_image.oci.tar"
fi

chart=dist/heartwood-$number.tgz
hack/pack-chart.sh "$version" dist

# The bundle installs the image by its digest. It replaces the previous release.
files=()
if [ -n "$archs" ]; then
  go tool -modfile=hack/tools/helm/go.mod helm template heartwood "$chart" \
    --namespace heartwood-system --set \
    "image.digest=$(cat "dist/heartwood_${version}_image.digest")" > "$binaries/olm.yaml"
  bundle=$binaries/bundle/heartwood_${version}_bundle
  mkdir "$binaries/bundle"
  go run ./hack/bundle -version "$version" -rendered "$binaries/olm.yaml" -archs "$archs" \
    -created "$(TZ=UTC0 git log -1 --format=%cd --date=format-local:%Y-%m-%dT%H:%M:%SZ)" \
    -replaces "$(go run ./hack/pinrelease last -before "$version")" \
    -out "$bundle" -policies dist/policies.yaml
  go tool -C hack/tools/olm olm "$bundle" > "$binaries/olm.log" || {
    cat "$binaries/olm.log" >&2
    exit 1
  }
  pack "$binaries/bundle" "${bundle##*/}" | gzip -n -9 > "dist/${bundle##*/}.tar.gz"
  (cd hack/image && go run . -layout "$binaries/oci/bundle" -bundle "$bundle" \
    -image "heartwood.dev/heartwood-bundle:$number") > "dist/${bundle##*/}.digest"
  pack "$binaries/oci/bundle" . > "dist/${bundle##*/}.oci.tar"
  files=(policies.yaml "${bundle##*/}".{tar.gz,digest,oci.tar})
fi

# The SBOM of a program lists the modules that its binary contains. The tool writes its own checksum
# into the document, so it is built with -trimpath; GOPROXY=off, because the module of this
# repository cannot be downloaded.
sbom() { GOPROXY=off GOFLAGS=-trimpath go tool -modfile=hack/tools/sbom/go.mod cyclonedx-gomod "$@"; }
printf '%12s  %s\n' bytes program > dist/sizes.txt
for binary in "$binaries"/*_*/*; do
  directory=${binary%/*} program=${binary##*/}
  name=${program%.exe}_${version}_${directory##*/}
  sbom bin -json -std -licenses -assert-licenses -noserial -notimestamp -version "$version" \
    -output "dist/$name.cdx.json" "$binary" 2> "$binaries/sbom.log" || {
    cat "$binaries/sbom.log" >&2
    exit 1
  }
  printf '%12d  %s\n' "$(stat -c %s "$binary")" "$name" >> dist/sizes.txt
done

(
  cd dist
  shopt -s nullglob # without a Linux platform there is no image
  sha256sum heartwood.yaml heartwood_*_image.* "${chart#dist/}" install.yaml \
    ./*.cdx.json sizes.txt "${files[@]}" | sed 's, \./, ,' >> SHA256SUMS
  sha256sum --quiet -c SHA256SUMS
)
if [ -n "${SIGNING_KEY-}" ]; then
  # The second line of a key without a password decodes to the algorithm Ed and no key derivation.
  derivation=$(sed -n 2p "$SIGNING_KEY" | base64 -d | od -An -tx1 -j2 -N2 | tr -d ' ')
  [ "$derivation" = 0000 ] && set -- -W || set --
  go tool -modfile=hack/tools/minisign/go.mod minisign -S "$@" -s "$SIGNING_KEY" \
    -c "signature of Heartwood $version" -t "SHA256SUMS of Heartwood $version" -m dist/SHA256SUMS
fi

# A release is tagged first. Its file is committed after the tag, so it is no part of the release.
if [ "$archs" = amd64,arm64 ] && [ "$(git rev-parse -q --verify "refs/tags/$version^{commit}")" = \
  "$(git rev-parse HEAD)" ]; then
  go run ./hack/pinrelease write -version "$version" -commit "$(git rev-parse HEAD)" \
    -go "$(go env GOVERSION)" -image "$(cat "dist/heartwood_${version}_image.digest")" \
    -binaries "$binaries"
  echo "commit hack/releases/$version.yaml"
fi

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
