package releases

import (
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"heartwood.dev/heartwood/test/kit/git"
)

// repository returns a repository with one commit, whose script writes its arguments as the
// program, and the pin of the commit.
func repository(t *testing.T) (dir string, released Pin) {
	t.Helper()
	dir = t.TempDir()
	script := "#!/bin/sh\necho \"$1 $2 $3 $4\" > \"$5\"\n"
	if err := os.Mkdir(dir+"/hack", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(dir+"/hack/build-program.sh", []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	git.Run(t, dir, "init", "--quiet")
	git.Run(t, dir, "add", ".")
	git.Run(t, dir, "-c", "user.name=test", "-c", "user.email=test@example.com", "commit", "--quiet",
		"--message", "release")
	program := "v0.1.0 linux " + runtime.GOARCH + " heartwood\n"
	released = pin("v0.1.0")
	released.Commit, released.Go = git.Run(t, dir, "rev-parse", "HEAD"), runtime.Version()
	released.Programs = map[string]string{
		"linux_" + runtime.GOARCH: fmt.Sprintf("%x", sha256.Sum256([]byte(program)))}
	return dir, released
}

// TestReleaseIsBuiltByItsOwnScript builds a release after its script was changed. The repository
// has no other worktree afterwards. test/smoke builds heartwood in the same way.
func TestReleaseIsBuiltByItsOwnScript(t *testing.T) {
	dir, released := repository(t)
	if err := os.WriteFile(dir+"/hack/build-program.sh", []byte("#!/bin/sh\nexit 1\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "heartwood")
	if err := released.Build(t.Context(), dir, file); err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(content), "v0.1.0") {
		t.Errorf("the file contains %q, %v", content, err)
	}
	if left := git.Run(t, dir, "worktree", "list"); strings.Contains(left, "\n") {
		t.Errorf("worktrees are left:\n%s", left)
	}
}

// TestAnotherBuildOfAReleaseIsRefused checks that a program is not used if it cannot be the
// released one.
func TestAnotherBuildOfAReleaseIsRefused(t *testing.T) {
	dir, released := repository(t)
	platform := "linux_" + runtime.GOARCH
	for name, test := range map[string]struct {
		change func(*Pin)
		want   string
	}{
		"another sum": {func(p *Pin) {
			p.Programs = map[string]string{platform: strings.Repeat("0", 64)}
		}, "want " + strings.Repeat("0", 64)},
		"no commit": {func(p *Pin) { p.Commit = strings.Repeat("0", 40) },
			"check out " + strings.Repeat("0", 40)},
		"other platforms": {func(p *Pin) { p.Programs = map[string]string{"linux_other": ""} },
			"v0.1.0 is not released for " + platform},
	} {
		changed := released
		test.change(&changed)
		err := changed.Build(t.Context(), dir, filepath.Join(t.TempDir(), "heartwood"))
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
		}
	}
	if left := git.Run(t, dir, "worktree", "list"); strings.Contains(left, "\n") {
		t.Errorf("worktrees are left:\n%s", left)
	}
}
