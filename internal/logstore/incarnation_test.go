package logstore

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/vfs"
)

func TestReplicaIncarnationIsStored(t *testing.T) {
	disk := vfs.NewMem()
	s := openStore(t, disk)
	log := createLog(t, s, settings(nil))
	want := func(log *Log, id string) {
		t.Helper()
		if got, err := log.Notes().ReplicaIncarnation(); err != nil || got != id {
			t.Errorf("incarnation %q, %v; want %q", got, err, id)
		}
	}
	want(log, "")
	for _, id := range []string{"first", "-second_of: two"[:7],
		strings.Repeat("x", 64)} {
		if err := log.Notes().SetReplicaIncarnation(id); err != nil {
			t.Fatal(err)
		}
		want(log, id)
	}
	behind := openStore(t, disk.CrashClone())
	want(behind.Log(partition), strings.Repeat("x", 64))
	for _, id := range []string{"", "two words", "two\nlines",
		strings.Repeat("x", 65), "\x00"} {
		if err := log.Notes().SetReplicaIncarnation(id); !errors.Is(err, datadir.ErrMalformed) {
			t.Errorf("id %q was stored: %v", id, err)
		}
	}
	name := filepath.Join(log.dir, datadir.AssignmentFile)
	for _, content := range []string{"", "version: 1\nid: a\n", "version: 0\n",
		"version: 0\nid: \n", "version: 0\nid: a b\n"} {
		if err := vfs.WriteFileAtomic(disk, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := log.Notes().ReplicaIncarnation(); !errors.Is(err, datadir.ErrMalformed) {
			t.Errorf("%q: incarnation %q, %v", content, got, err)
		}
	}
}

// TestRetainedLogKeepsReplicaIncarnation checks that a retained log keeps the id of the replica
// incarnation for which it was created, even after it is reopened.
func TestRetainedLogKeepsReplicaIncarnation(t *testing.T) {
	s := openStore(t, vfs.NewMem())
	log := createLog(t, s, settings(nil))
	if err := log.Notes().SetReplicaIncarnation("old"); err != nil {
		t.Fatal(err)
	}
	if err := s.Release(partition, true); err != nil {
		t.Fatal(err)
	}
	again := createLog(t, s, settings(nil))
	if got, err := again.Notes().ReplicaIncarnation(); err != nil || got != "old" {
		t.Errorf("incarnation %q, %v; want old", got, err)
	}
}
