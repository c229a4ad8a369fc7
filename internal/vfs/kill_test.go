package vfs

import (
	"errors"
	"io/fs"
	"testing"
)

// TestKillClone checks that all writes of a process survive when it is killed, and that a later
// power cut still loses the unsynced writes.
func TestKillClone(t *testing.T) {
	disk := NewMem()
	put := func(name, content string, sync bool) {
		t.Helper()
		file, err := disk.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte(content), 0); err != nil {
			t.Fatal(err)
		}
		if sync {
			if err := errors.Join(file.Sync(), disk.SyncDir("/")); err != nil {
				t.Fatal(err)
			}
		}
	}
	put("synced", "old", true)
	put("moved", "whole", true)
	put("written", "here", false)
	if err := disk.Rename("moved", "there"); err != nil {
		t.Fatal(err)
	}
	lock, err := disk.Lock("lock")
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()

	put("synced", "new", false)

	killed := disk.KillClone()
	put("synced", "later", true) // changes only the original, not the clone
	for name, want := range map[string]string{"synced": "new", "written": "here",
		"there": "whole"} {
		if got, err := killed.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("after the kill %s contains %q, %v; want %q", name, got, err, want)
		}
	}
	if again, err := killed.Lock("lock"); err != nil {
		t.Errorf("lock after the process was killed: %v, want success", err)
	} else {
		_ = again.Close()
	}
	cut := killed.CrashClone()
	for name, want := range map[string]string{"synced": "old", "moved": "whole"} {
		if got, err := cut.ReadFile(name); err != nil || string(got) != want {
			t.Errorf("after the power cut %s contains %q, %v; want %q", name, got, err, want)
		}
	}
	for _, name := range []string{"written", "there"} {
		if _, err := cut.ReadFile(name); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("after the power cut %s: %v, want fs.ErrNotExist", name, err)
		}
	}
}
