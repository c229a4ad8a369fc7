package main

import (
	"archive/tar"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/validate"
)

// bundleDir returns a directory with files of the given contents, by their paths.
func bundleDir(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

var bundleFiles = map[string]string{
	"bundle.Dockerfile": "FROM scratch\n\nLABEL example.package=heartwood\n" +
		"COPY manifests /manifests/\nCOPY metadata /metadata/\n",
	"manifests/b.yaml": "b", "manifests/a.yaml": "a", "metadata/annotations.yaml": "annotations:\n",
	"other": "is not copied",
}

// TestBundleImageHasTheFilesAndLabels reads the image again, verifies its digests, and compares its
// files with those that the Dockerfile copies. A second image must have the same digest.
func TestBundleImageHasTheFilesAndLabels(t *testing.T) {
	out := filepath.Join(t.TempDir(), "oci")
	digest, err := writeBundle(out, "example.com/bundle:1.2.3", bundleDir(t, bundleFiles))
	if err != nil {
		t.Fatal(err)
	}
	again, err := writeBundle(out+"2", "example.com/bundle:1.2.3", bundleDir(t, bundleFiles))
	if err != nil || again != digest {
		t.Errorf("got digest %s (%v) of a second layout, want %s", again, err, digest)
	}
	root, err := layout.ImageIndexFromPath(out)
	if err != nil {
		t.Fatal(err)
	}
	image, err := root.Image(digest)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate.Image(image); err != nil {
		t.Error(err)
	}
	config, err := image.ConfigFile()
	if err != nil || config.Config.Labels["example.package"] != "heartwood" {
		t.Errorf("labels %v, %v", config.Config.Labels, err)
	}
	content := mutate.Extract(image)
	defer content.Close()
	var names []string
	for files := tar.NewReader(content); ; {
		header, err := files.Next()
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		if header.Typeflag == tar.TypeReg {
			names = append(names, header.Name)
		}
	}
	slices.Sort(names)
	want := []string{"manifests/a.yaml", "manifests/b.yaml", "metadata/annotations.yaml"}
	if !slices.Equal(names, want) {
		t.Errorf("files %v, want %v", names, want)
	}
}

func TestUnknownDockerfilesAreRefused(t *testing.T) {
	for dockerfile, want := range map[string]string{
		"FROM scratch\nRUN true\n":               "unknown line in the Dockerfile: RUN true",
		"FROM debian\n":                          "unknown line",
		"FROM scratch\n":                         "copies nothing",
		"FROM scratch\nCOPY missing /missing/\n": "write layer of missing",
	} {
		dir := bundleDir(t, map[string]string{"bundle.Dockerfile": dockerfile})
		if _, err := BundleImage(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", dockerfile, err, want)
		}
	}
}
