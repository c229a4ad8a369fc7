package envtest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// guard ends the child processes of the test when the test is gone without having stopped them: it
// was killed, or something called os.Exit, as Ginkgo does under -count=2. A shell waits for the end
// of a pipe that only the test holds open.
//
// It knows children by /proc, so it guards on Linux only; elsewhere such an end leaves them behind.
func guard(t testing.TB) error {
	children := childProcesses()
	if len(children) == 0 {
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make the guard's pipe: %w", err)
	}
	defer func() { _ = read.Close() }()
	shell := exec.Command("/bin/sh",
		append([]string{"-c", `read -r _; kill -9 "$@"`, "envtest-guard"}, children...)...)
	shell.Stdin = read
	// Out of the terminal's reach: Ctrl-C is for the test.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	t.Cleanup(func() {
		// before the pipe ends, or it would kill whoever has the numbers by now
		_ = shell.Process.Kill()
		_ = shell.Wait()
		_ = write.Close()
	})
	return nil
}

// childProcesses are the numbers of this process's children.
func childProcesses() []string {
	var all []string
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return nil
	}
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			continue // a thread that ended meanwhile
		}
		all = append(all, strings.Fields(string(content))...)
	}
	return all
}
