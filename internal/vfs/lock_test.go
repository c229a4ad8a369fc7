//go:build linux

package vfs

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// TestLockConflictsWithKafkaBroker locks a file with a record lock of the process, as a Kafka
// broker does. Lock must then fail with ErrLocked. A process does not conflict with its own record
// locks, so a second process, another instance of this test binary, holds the lock.
func TestLockConflictsWithKafkaBroker(t *testing.T) {
	const variable = "VFS_TEST_LOCK"
	if name := os.Getenv(variable); name != "" {
		file, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
		if err == nil {
			err = syscall.FcntlFlock(file.Fd(), syscall.F_SETLK,
				&syscall.Flock_t{Type: syscall.F_WRLCK, Whence: io.SeekStart})
		}
		if err != nil {
			t.Fatal(err)
		}
		_, _ = os.Stdout.WriteString("locked\n")
		_, _ = io.Copy(io.Discard, os.Stdin) // hold the lock until the parent closes the pipe
		return
	}
	name := filepath.Join(t.TempDir(), ".lock")
	holder := exec.CommandContext(t.Context(), os.Args[0],
		"-test.run=^TestLockConflictsWithKafkaBroker$")
	holder.Env = append(os.Environ(), variable+"="+name)
	stdin, err := holder.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := holder.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := holder.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, len("locked\n"))); err != nil {
		t.Fatal(err)
	}
	if _, err := (OS{}).Lock(name); !errors.Is(err, ErrLocked) {
		t.Errorf("lock while a Kafka broker holds it: %v, want ErrLocked", err)
	}
	if err := stdin.Close(); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, stdout)
	if err := holder.Wait(); err != nil {
		t.Fatal(err)
	}
	lock, err := OS{}.Lock(name)
	if err != nil {
		t.Fatalf("lock after the holder has exited: %v", err)
	}
	if _, err := (OS{}).Lock(name); !errors.Is(err, ErrLocked) {
		t.Errorf("second lock in one process: %v, want ErrLocked", err)
	}
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
}
