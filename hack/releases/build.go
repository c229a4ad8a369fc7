package releases

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
)

// Build builds heartwood of a release for this architecture, with the release's own script, into a
// file. It checks out the commit into a temporary worktree of the repository, so tags and
// uncommitted files do not matter. The file's sum must be the pinned one.
func (p Pin) Build(ctx context.Context, repository, file string) error {
	platform := "linux_" + runtime.GOARCH
	want, ok := p.Programs[platform]
	if !ok {
		return fmt.Errorf("%s is not released for %s", p.Version, platform)
	}
	file, err := filepath.Abs(file)
	if err != nil {
		return fmt.Errorf("find the directory of %s: %w", file, err)
	}
	parent, err := os.MkdirTemp("", "heartwood-release-")
	if err != nil {
		return fmt.Errorf("create a directory for the worktree: %w", err)
	}
	defer func() { _ = os.RemoveAll(parent) }()
	tree := filepath.Join(parent, "heartwood")
	if err := run(ctx, repository, nil, "git", "worktree", "add", "--detach", "--force", tree,
		p.Commit); err != nil {
		return fmt.Errorf("check out %s of %s: %w", p.Commit, p.Version, err)
	}
	defer func() { // also after a cancellation
		_ = run(context.WithoutCancel(ctx), repository, nil, "git", "worktree", "remove", "--force", tree)
	}()
	// With GOTOOLCHAIN, the go command downloads the release's version of Go if it is not installed.
	if err := run(ctx, tree, []string{"GOTOOLCHAIN=" + p.Go}, "hack/build-program.sh", p.Version,
		"linux", runtime.GOARCH, "heartwood", file); err != nil {
		return fmt.Errorf("build %s: %w", p.Version, err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		return fmt.Errorf("read the program of %s: %w", p.Version, err)
	}
	sum := sha256.Sum256(content)
	if got := hex.EncodeToString(sum[:]); got != want {
		return fmt.Errorf("heartwood of %s for %s has sum %s, want %s", p.Version, platform, got, want)
	}
	return nil
}

// run runs a program in a directory, with further environment variables.
func run(ctx context.Context, dir string, environment []string, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), environment...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w: %s", name, strings.Join(args, " "), err, out.String())
	}
	return nil
}
