package releases

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// pin returns a valid pin of a version.
func pin(version string) Pin {
	return Pin{Version: version, Commit: strings.Repeat("a", 40), Go: "go1.26.8",
		Programs: map[string]string{"linux_amd64": strings.Repeat("b", 64)},
		Image:    "sha256:" + strings.Repeat("c", 64)}
}

// TestPinsOfThisRepositoryAreValid reads the files in this directory.
func TestPinsOfThisRepositoryAreValid(t *testing.T) {
	if _, err := Read("."); err != nil {
		t.Error(err)
	}
}

func TestLastReleaseIsByVersion(t *testing.T) {
	dir := t.TempDir()
	for _, version := range []string{"v0.10.0", "v0.9.1", "v0.10.0-rc.1"} {
		if err := Write(dir, pin(version)); err != nil {
			t.Fatal(err)
		}
	}
	pins, err := Read(dir)
	if err != nil {
		t.Fatal(err)
	}
	for before, want := range map[string]string{"": "v0.10.0", "v0.10.0": "v0.10.0-rc.1",
		"v0.10.0-rc.1": "v0.9.1", "v0.9.1": "", "v1.0.0": "v0.10.0"} {
		got := ""
		if last := Last(pins, before); last != nil {
			got = last.Version
		}
		if got != want {
			t.Errorf("last before %q: %q, want %q", before, got, want)
		}
	}
	if pins, err := Read(t.TempDir()); err != nil || Last(pins, "") != nil {
		t.Errorf("empty directory: %v, %v", pins, err)
	}
}

// TestVersionIsReleasedOnce checks that the pin of a release can be written again, but not changed.
func TestVersionIsReleasedOnce(t *testing.T) {
	dir, first := t.TempDir(), pin("v0.1.0")
	for range 2 {
		if err := Write(dir, first); err != nil {
			t.Fatal(err)
		}
	}
	first.Commit = strings.Repeat("d", 40)
	if err := Write(dir, first); err == nil ||
		!strings.Contains(err.Error(), "v0.1.0 is already released, with other files") {
		t.Errorf("another commit: %v", err)
	}
}

func TestInvalidPinsAreRefused(t *testing.T) {
	for name, change := range map[string]func(*Pin){
		"no version":     func(p *Pin) { p.Version = "" },
		"no v":           func(p *Pin) { p.Version = "0.1.0" },
		"short version":  func(p *Pin) { p.Version = "v0.1" },
		"short commit":   func(p *Pin) { p.Commit = p.Commit[:12] },
		"no Go":          func(p *Pin) { p.Go = "" },
		"no programs":    func(p *Pin) { p.Programs = nil },
		"short sum":      func(p *Pin) { p.Programs["linux_amd64"] = "abc" },
		"no image":       func(p *Pin) { p.Image = "" },
		"another digest": func(p *Pin) { p.Image = "sha512:" + strings.Repeat("c", 64) },
	} {
		changed := pin("v0.1.0")
		if change(&changed); Write(t.TempDir(), changed) == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for content, want := range map[string]string{"versions: v1": "unknown field", "": "version"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "v0.1.0.yaml"), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", content, err, want)
		}
	}
	dir := t.TempDir()
	if err := Write(dir, pin("v0.1.0")); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(filepath.Join(dir, "v0.1.0.yaml"),
		filepath.Join(dir, "v0.2.0.yaml")); err != nil {
		t.Fatal(err)
	}
	if _, err := Read(dir); err == nil || !strings.Contains(err.Error(), "want v0.1.0.yaml") {
		t.Errorf("name of another version: %v", err)
	}
}
