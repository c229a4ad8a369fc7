package cli

import (
	"os"
	"path/filepath"
	"testing"
)

// TestCredentialsStayPrivate checks that a file that others can read is replaced, and that a
// symbolic link is refused.
func TestCredentialsStayPrivate(t *testing.T) {
	dir := t.TempDir()
	file, target := filepath.Join(dir, "password"), filepath.Join(dir, "target")
	for _, name := range []string{file, target} {
		if err := os.WriteFile(name, []byte("old"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := writePrivate(file, []byte("new")); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if info, _ := os.Stat(file); err != nil || string(content) != "new" || info.Mode() != 0o600 {
		t.Errorf("file: %q, error %v, %v", content, err, info)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := writePrivate(link, []byte("new")); err == nil {
		t.Error("a symbolic link was accepted")
	}
	if content, err := os.ReadFile(target); err != nil || string(content) != "old" {
		t.Errorf("target: %q, error %v", content, err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 3 {
		t.Errorf("files: %v", entries)
	}
}
