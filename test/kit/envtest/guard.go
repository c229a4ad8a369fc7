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

// guard kills the test's child processes if the test ends without stopping them. This happens if
// the test was killed, or if code called os.Exit, as Ginkgo does with -count=2. guard starts a
// shell that waits for the end of a pipe, which only the test process keeps open.
//
// guard finds the child processes in /proc, so it works only on Linux.
func guard(t testing.TB) error {
	children := childProcesses()
	if len(children) == 0 {
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create the guard's pipe: %w", err)
	}
	defer func() { _ = read.Close() }()
	shell := exec.Command("/bin/sh",
		append([]string{"-c", `read -r _; kill -9 "$@"`, "envtest-guard"}, children...)...)
	shell.Stdin = read
	// The shell has its own process group. So Ctrl-C does not end it before the test.
	shell.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := shell.Start(); err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	t.Cleanup(func() {
		// Kill the shell before the pipe is closed. Otherwise it would kill the processes that have these
		// ids by now, which may be unrelated.
		_ = shell.Process.Kill()
		_ = shell.Wait()
		_ = write.Close()
	})
	return nil
}

// childProcesses returns the ids of this process's children.
func childProcesses() []string {
	var all []string
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		return nil
	}
	for _, list := range lists {
		content, err := os.ReadFile(list)
		if err != nil {
			continue // the thread has ended
		}
		all = append(all, strings.Fields(string(content))...)
	}
	return all
}
