package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// krewManifest contains the fields that krew reads (see krew's package pkg/index).
type krewManifest struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Metadata   struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Version          string `json:"version"`
		Homepage         string `json:"homepage"`
		ShortDescription string `json:"shortDescription"`
		Description      string `json:"description"`
		Platforms        []struct {
			Selector struct {
				MatchLabels map[string]string `json:"matchLabels"`
			} `json:"selector"`
			URI    string `json:"uri"`
			Sha256 string `json:"sha256"`
			Bin    string `json:"bin"`
			Files  []struct {
				From string `json:"from"`
				To   string `json:"to"`
			} `json:"files"`
		} `json:"platforms"`
	} `json:"spec"`
}

// newRelease returns a release whose binaries are not real programs.
func newRelease(t *testing.T) *release {
	t.Helper()
	dir := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("LICENSE", "license")
	for _, platform := range []string{"linux_amd64", "darwin_arm64"} {
		write("bin/"+platform+"/kubectl-heartwood", "plugin "+platform)
		write("bin/"+platform+"/heartwood", "all "+platform)
	}
	write("bin/windows_amd64/kubectl-heartwood.exe", "plugin windows_amd64")
	return &release{version: "v1.2.3", binaries: filepath.Join(dir, "bin"),
		license: filepath.Join(dir, "LICENSE"), url: "https://example.com/v1.2.3/",
		out: filepath.Join(dir, "dist")}
}

// TestManifestFitsTheArchives checks that the manifest has everything that krew requires (see
// krew's ValidatePlugin), and that its checksums and files match the archives.
func TestManifestFitsTheArchives(t *testing.T) {
	r := newRelease(t)
	if err := r.write(); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(filepath.Join(r.out, "heartwood.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var m krewManifest
	if err := yaml.UnmarshalStrict(content, &m); err != nil {
		t.Fatal(err)
	}
	if m.APIVersion != "krew.googlecontainertools.github.com/v1alpha2" || m.Kind != "Plugin" {
		t.Errorf("got %s %s, want a Plugin of krew", m.APIVersion, m.Kind)
	}
	if m.Metadata.Name != "heartwood" || m.Spec.Version != "v1.2.3" {
		t.Errorf("got %s %s, want heartwood v1.2.3", m.Metadata.Name, m.Spec.Version)
	}
	if m.Spec.Homepage == "" || m.Spec.Description == "" {
		t.Errorf("got no homepage or no description: %s", content)
	}
	short := m.Spec.ShortDescription
	if short == "" || strings.Contains(short, "\n") {
		t.Errorf("got short description %q, want one line", short)
	}
	if len(m.Spec.Platforms) != 3 {
		t.Fatalf("got platforms %+v, want 3", m.Spec.Platforms)
	}
	for _, p := range m.Spec.Platforms {
		name := path(p.URI)
		if p.URI != "https://example.com/v1.2.3/"+name {
			t.Errorf("URI %s", p.URI)
		}
		packed, err := os.ReadFile(filepath.Join(r.out, name))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(packed)
		if p.Sha256 != hex.EncodeToString(sum[:]) {
			t.Errorf("%s: sum %s", name, p.Sha256)
		}
		platform := p.Selector.MatchLabels["os"] + "_" + p.Selector.MatchLabels["arch"]
		files := unpack(t, name, packed)
		if got := files[p.Bin]; got != "-rwxr-xr-x plugin "+platform || len(p.Files) != len(files) {
			t.Errorf("%s: program %s is %q, files %v", name, p.Bin, got, p.Files)
		}
		for _, f := range p.Files {
			if files[f.From] == "" || f.To != "." {
				t.Errorf("%s: file %+v", name, f)
			}
		}
	}
}

func path(uri string) string { return uri[strings.LastIndex(uri, "/")+1:] }

// unpack returns the mode and content of each file in an archive, by name.
func unpack(t *testing.T, name string, packed []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	add := func(name string, mode os.FileMode, in io.Reader) {
		t.Helper()
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		files[name] = mode.String() + " " + string(content)
	}
	if strings.HasSuffix(name, ".zip") {
		archive, err := zip.NewReader(bytes.NewReader(packed), int64(len(packed)))
		if err != nil {
			t.Fatal(err)
		}
		for _, entry := range archive.File {
			in, err := entry.Open()
			if err != nil {
				t.Fatal(err)
			}
			add(entry.Name, entry.Mode(), in)
		}
		return files
	}
	plain, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for archive := tar.NewReader(plain); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		add(header.Name, header.FileInfo().Mode(), archive)
	}
}

// TestSumsNameEveryArchive checks that SHA256SUMS has a line for each archive, in the format of
// sha256sum, and that a second run writes the same bytes.
func TestSumsNameEveryArchive(t *testing.T) {
	r := newRelease(t)
	var before []byte
	for range 2 {
		if err := r.write(); err != nil {
			t.Fatal(err)
		}
		sums, err := os.ReadFile(filepath.Join(r.out, "SHA256SUMS"))
		if err != nil {
			t.Fatal(err)
		}
		if before != nil && !bytes.Equal(sums, before) {
			t.Errorf("the archives differ:\n%s%s", before, sums)
		}
		before = sums
	}
	var names []string
	for line := range strings.Lines(string(before)) {
		if !regexp.MustCompile(`^[0-9a-f]{64}  [a-z]`).MatchString(line) {
			t.Errorf("line %q", line)
		}
		names = append(names, strings.TrimSpace(line[66:]))
	}
	want := []string{"heartwood_v1.2.3_darwin_arm64.tar.gz", "heartwood_v1.2.3_linux_amd64.tar.gz",
		"kubectl-heartwood_v1.2.3_darwin_arm64.tar.gz", "kubectl-heartwood_v1.2.3_linux_amd64.tar.gz",
		"kubectl-heartwood_v1.2.3_windows_amd64.zip"}
	if !slices.Equal(names, want) {
		t.Errorf("got %v", names)
	}
}

func TestInvalidReleasesAreRefused(t *testing.T) {
	for name, change := range map[string]func(*release){
		"dev": func(r *release) { r.version = "dev" }, "1.2.3": func(r *release) { r.version = "1.2.3" },
		"leading zero": func(r *release) { r.version = "v01.2.3" },
		"plain URL":    func(r *release) { r.url = "http://example.com" },
		"no binaries":  func(r *release) { r.binaries += "/nothing" },
		"no license":   func(r *release) { r.license += "x" },
	} {
		r := newRelease(t)
		if change(r); r.write() == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
