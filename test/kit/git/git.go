// Package git runs Git in tests.
package git

import (
	"os/exec"
	"strings"
	"testing"
)

// Run runs a Git command in a directory, and returns its output without the last line break. It
// ends the test if the command fails.
func Run(t testing.TB, dir string, args ...string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "git", args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("git %v: %v: %s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}
