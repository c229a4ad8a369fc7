package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// twoPlatforms returns the specs of one program for two architectures.
func twoPlatforms(t *testing.T) []Spec {
	t.Helper()
	binary, err := os.ReadFile(compile(t, true))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, arch := range []string{"amd64", "arm64"} {
		sub := filepath.Join(dir, "linux_"+arch)
		if err := os.Mkdir(sub, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(sub, "heartwood"), binary, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return platformSpecs(dir, "heartwood", []string{"amd64", "arm64"}, Spec{Version: "v1.2.3"})
}

// TestLayoutHasAnImageForEachPlatform reads the layout again and verifies each digest in it. A
// second layout must have the same digest.
func TestLayoutHasAnImageForEachPlatform(t *testing.T) {
	specs := twoPlatforms(t)
	out := filepath.Join(t.TempDir(), "oci")
	digest, err := writeLayout(out, "1.2.3", specs)
	if err != nil {
		t.Fatal(err)
	}
	again, err := writeLayout(out+"2", "1.2.3", specs)
	if err != nil || again != digest {
		t.Errorf("got digest %s (%v) of a second layout, want %s", again, err, digest)
	}
	root, err := layout.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	top, err := root.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	if len(top.Manifests) != 1 || top.Manifests[0].Digest != digest ||
		top.Manifests[0].Annotations[refName] != "1.2.3" {
		t.Fatalf("got index.json %+v, want %s as 1.2.3", top.Manifests, digest)
	}
	index, err := root.ImageIndex(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Index(index); err != nil {
		t.Error(err)
	}
	manifest, err := index.IndexManifest()
	if err != nil {
		t.Fatal(err)
	}
	var platforms string
	for _, image := range manifest.Manifests {
		platforms += image.Platform.String() + " "
	}
	if platforms != "linux/amd64 linux/arm64 " {
		t.Errorf("got platforms %s", platforms)
	}
}

func TestLayoutRefusesADirectoryThatExists(t *testing.T) {
	if _, err := writeLayout(t.TempDir(), "1.2.3", twoPlatforms(t)); err == nil {
		t.Error("got no error")
	}
	if _, err := writeLayout(filepath.Join(t.TempDir(), "oci"), "1.2.3", nil); err == nil {
		t.Error("an index without images: got no error")
	}
}
