package logstore

import (
	"errors"
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestCopyGapIsStored checks that the leader epoch of a copy gap that SetCopyGap has stored
// survives a crash.
func TestCopyGapIsStored(t *testing.T) {
	disk := vfs.NewMem()
	log := createLog(t, openStore(t, disk), settings(nil))
	for _, epoch := range []int32{-1, 0, 7, 9, -1, -1} {
		if err := log.Notes().SetCopyGap(epoch); err != nil {
			t.Fatal(err)
		}
		if got, err := log.Notes().CopyGap(); err != nil || got != epoch {
			t.Errorf("gap of epoch %d, %v; want %d", got, err, epoch)
		}
		behind := openStore(t, disk.CrashClone()).Log(partition)
		if got, err := behind.Notes().CopyGap(); epoch >= 0 && (err != nil || got != epoch) {
			t.Errorf("after a crash: gap of epoch %d, %v; want %d", got, err, epoch)
		}
		if source, err := behind.Notes().CopySource(); source != -1 || err != nil {
			t.Errorf("copy source %d, %v", source, err)
		}
	}
	if err := vfs.WriteFileAtomic(disk, filepath.Join(log.dir, datadir.CopyGapFile),
		[]byte("version: 0\nepoch: x\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := log.Notes().CopyGap(); !errors.Is(err, datadir.ErrMalformed) {
		t.Errorf("gap of epoch %d, %v", got, err)
	}
}

func TestCopySourceIsStoredUntilTheCopyIsComplete(t *testing.T) {
	disk := vfs.NewMem()
	s := openStore(t, disk)
	log := createLog(t, s, settings(nil))
	want := func(log *Log, broker int32) {
		t.Helper()
		if got, err := log.Notes().CopySource(); err != nil || got != broker {
			t.Errorf("copy source %d, %v; want %d", got, err, broker)
		}
	}
	want(log, -1)
	for _, broker := range []int32{2, 0} {
		if err := log.Notes().SetCopySource(broker); err != nil {
			t.Fatal(err)
		}
		want(log, broker)
	}

	behind := openStore(t, disk.CrashClone())
	want(behind.Log(partition), 0)
	for range 2 {
		if err := log.Notes().SetCopySource(-1); err != nil {
			t.Fatal(err)
		}
		want(log, -1)
	}
	name := filepath.Join(log.dir, datadir.CopySourceFile)
	for _, content := range []string{"", "version: 1\nbroker: 2\n", "version: 0\n",
		"version: 0\nbroker: -2\n", "version: 0\nbroker: 4294967296\n"} {
		if err := vfs.WriteFileAtomic(disk, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := log.Notes().CopySource(); !errors.Is(err, datadir.ErrMalformed) {
			t.Errorf("%q: copy source %d, %v", content, got, err)
		}
	}
}
