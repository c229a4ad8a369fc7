package logstore

import (
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/vfs"
)

// otherMachine is a disk in another machine.
type otherMachine struct{ vfs.FS }

func (otherMachine) BootID() string { return "other" }

// unknownMachine is a disk in a machine without boot ids.
type unknownMachine struct{ vfs.FS }

func (unknownMachine) BootID() string { return "" }

// TestBootEpoch checks that a store knows the first broker epoch of the current boot, also after
// kills and clean shutdowns, until the machine loses its power or the disk is used by another one.
func TestBootEpoch(t *testing.T) {
	mem := vfs.NewMem()
	open := func(fsys vfs.FS, want, epoch int64, why string) *Store {
		t.Helper()
		store := openStore(t, fsys)
		if got := (DirectoryFiles{store}).BootEpoch(); got != want {
			t.Errorf("%s: boot epoch %d, want %d", why, got, want)
		}
		store.SetBrokerEpoch(epoch)
		return store
	}
	first := open(mem, 0, 4, "new disk")
	first.SetBrokerEpoch(4)
	mem = mem.KillClone()
	open(mem, 4, 5, "killed")
	mem = mem.KillClone()
	third := open(mem, 4, 6, "killed twice")
	if err := third.Close(); err != nil {
		t.Fatal(err)
	}
	open(mem, 4, 7, "stopped gracefully")
	mem = mem.CrashClone()
	open(mem, 0, 8, "power cut")
	mem = mem.KillClone()
	openStore(t, otherMachine{mem}) // ends before it is registered
	mem = mem.KillClone()
	open(mem, 0, 9, "used by another machine meanwhile")
	open(unknownMachine{mem.KillClone()}, 0, 10, "a machine without boot ids")
}

// TestDamagedBootFileCountsAsMissing flips a digit of the epoch, and shortens the file.
func TestDamagedBootFileCountsAsMissing(t *testing.T) {
	intact := vfs.NewMem()
	openStore(t, intact).SetBrokerEpoch(4)
	name := filepath.Join(dataDir, datadir.BootFile)
	content, err := intact.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range content {
		mem := intact.KillClone()
		damaged := append([]byte{}, content...)
		damaged[i] ^= 4
		if i%2 == 0 {
			damaged = damaged[:i]
		}
		if err := vfs.WriteFileAtomic(mem, name, damaged); err != nil {
			t.Fatal(err)
		}
		store := openStore(t, mem)
		if got := (DirectoryFiles{store}).BootEpoch(); got != 0 {
			t.Errorf("byte %d: boot epoch %d, want 0", i, got)
		}
		store.SetBrokerEpoch(5)
		if err := (DirectoryFiles{store}).Rewrite(datadir.BootFile); err != nil {
			t.Error(err)
		}
		if got := (DirectoryFiles{openStore(t, mem.KillClone())}).BootEpoch(); got != 5 {
			t.Errorf("byte %d: boot epoch %d after the next start, want 5", i, got)
		}
	}
}
