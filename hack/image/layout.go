package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
)

// refName is the annotation with which skopeo, crane and oras select an image in an OCI layout.
const refName = "org.opencontainers.image.ref.name"

// Index returns an image index with one image for each spec, in their order.
func Index(specs []Spec) (v1.ImageIndex, error) {
	if len(specs) == 0 {
		return nil, errors.New("an image index needs a binary")
	}
	index := mutate.IndexMediaType(empty.Index, "application/vnd.oci.image.index.v1+json")
	for _, spec := range specs {
		built, err := Build(spec)
		if err != nil {
			return nil, err
		}
		index = mutate.AppendManifests(index, mutate.IndexAddendum{Add: built,
			Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux",
				Architecture: spec.Architecture}}})
	}
	return index, nil
}

// writeLayout writes the image index as an OCI layout to the directory out, with the name ref, and
// returns the index's digest.
func writeLayout(out, ref string, specs []Spec) (v1.Hash, error) {
	index, err := Index(specs)
	if err != nil {
		return v1.Hash{}, err
	}
	dir, err := newLayout(out)
	if err != nil {
		return v1.Hash{}, err
	}
	named := layout.WithAnnotations(map[string]string{refName: ref})
	if err := dir.AppendIndex(index, named); err != nil {
		return v1.Hash{}, fmt.Errorf("write OCI layout: %w", err)
	}
	return index.Digest()
}

// newLayout creates an empty OCI layout. It refuses an existing directory, which could contain
// blobs of another image.
func newLayout(out string) (layout.Path, error) {
	if err := os.Mkdir(out, 0o755); err != nil {
		return "", fmt.Errorf("create OCI layout: %w", err)
	}
	dir, err := layout.Write(out, empty.Index)
	if err != nil {
		return "", fmt.Errorf("write OCI layout: %w", err)
	}
	return dir, nil
}

// platformSpecs returns the spec of dir/linux_ARCH/program for each architecture.
func platformSpecs(dir, program string, architectures []string, base Spec) []Spec {
	var specs []Spec
	for _, arch := range architectures {
		spec := base
		spec.Architecture = arch
		spec.Binary = filepath.Join(dir, "linux_"+arch, program)
		specs = append(specs, spec)
	}
	return specs
}
