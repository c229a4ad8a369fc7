package main

import (
	"archive/tar"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// compile builds a small program and returns its path. If static is false, the program needs a
// dynamic loader.
func compile(t *testing.T, static bool) string {
	t.Helper()
	dir := t.TempDir()
	source := "package main\n\nimport _ \"net\"\n\nfunc main() {}\n"
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	binary := filepath.Join(dir, "program")
	build := exec.Command("go", "build", "-o", binary, filepath.Join(dir, "main.go"))
	build.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=")
	if !static {
		build.Args = []string{"go", "build", "-buildmode=pie", "-o", binary,
			filepath.Join(dir, "main.go")}
	}
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return binary
}

func TestImageContainsBinaryAndRunsAsNonRoot(t *testing.T) {
	spec := Spec{Binary: compile(t, true), Version: "v1.2.3", Revision: "abc",
		Architecture: "amd64"}
	out := filepath.Join(t.TempDir(), "image.tar")
	if err := run("heartwood.dev/heartwood:v1.2.3", out, spec); err != nil {
		t.Fatal(err)
	}
	tag, err := name.NewTag("heartwood.dev/heartwood:v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	image, err := tarball.ImageFromPath(out, &tag)
	if err != nil {
		t.Fatal(err)
	}
	config, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	if config.Config.User != "65532:65532" ||
		!slices.Equal(config.Config.Entrypoint, []string{"/program"}) {
		t.Errorf("got entrypoint %v and user %s, want /program and 65532:65532", config.Config.Entrypoint, config.Config.User)
	}
	if !slices.Equal(config.Config.Env, []string{"PATH=/"}) {
		t.Errorf("got environment %v, want the program in PATH", config.Config.Env)
	}
	for label, want := range map[string]string{"version": "v1.2.3", "licenses": "Apache-2.0"} {
		if got := config.Config.Labels["org.opencontainers.image."+label]; got != want {
			t.Errorf("label %s: got %q, want %q", label, got, want)
		}
	}

	var names []string
	files := mutate.Extract(image)
	defer files.Close()
	for archive := tar.NewReader(files); ; {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, header.Name)
	}
	slices.Sort(names)
	if want := []string{"etc", "program", "tmp"}; !slices.Equal(trimmed(names), want) {
		t.Errorf("got files %v in the image, want %v", names, want)
	}
}

func trimmed(names []string) []string {
	out := make([]string, len(names))
	for i, one := range names {
		out[i] = filepath.Clean(one)
	}
	return out
}

func TestArchiveIsReproducible(t *testing.T) {
	spec := Spec{Binary: compile(t, true), Architecture: "amd64"}
	var archives [2][]byte
	for i := range archives {
		out := filepath.Join(t.TempDir(), "image.tar")
		if err := run("heartwood.dev/heartwood:dev", out, spec); err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(out)
		if err != nil {
			t.Fatal(err)
		}
		archives[i] = content
	}
	if !slices.Equal(archives[0], archives[1]) {
		t.Error("two archives of the same binary differ")
	}
}

func TestInvalidInputIsRejected(t *testing.T) {
	out := filepath.Join(t.TempDir(), "image.tar")
	static := compile(t, true)
	for name, test := range map[string]struct{ image, binary string }{
		"no tag":         {"heartwood.dev/heartwood", static},
		"no binary":      {"heartwood.dev/heartwood:dev", filepath.Join(t.TempDir(), "absent")},
		"not a program":  {"heartwood.dev/heartwood:dev", "build.go"},
		"needs a loader": {"heartwood.dev/heartwood:dev", compile(t, false)},
	} {
		if err := run(test.image, out, Spec{Binary: test.binary}); err == nil {
			t.Errorf("%s: got no error", name)
		}
	}
	if _, err := os.Stat(out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("after a rejected image: got file %s (%v), want none", out, err)
	}
}
