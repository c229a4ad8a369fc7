package logstore

import (
	"errors"
	"path/filepath"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

func TestCopySourceIsKeptUntilTheCopyIsWhole(t *testing.T) {
	disk := vfs.NewMem()
	s := openStore(t, disk)
	log := createLog(t, s, settings(nil))
	want := func(log *Log, broker int32) {
		t.Helper()
		if got, err := log.CopySource(); err != nil || got != broker {
			t.Errorf("a copy of %d, %v; want %d", got, err, broker)
		}
	}
	want(log, -1)
	for _, broker := range []int32{2, 0} {
		if err := log.SetCopySource(broker); err != nil {
			t.Fatal(err)
		}
		want(log, broker)
	}

	behind := openStore(t, disk.CrashClone())
	want(behind.Log(partition), 0)
	for range 2 {
		if err := log.SetCopySource(-1); err != nil {
			t.Fatal(err)
		}
		want(log, -1)
	}
	name := filepath.Join(log.dir, copySourceFile)
	for _, content := range []string{"", "version: 1\nbroker: 2\n", "version: 0\n", "version: 0\nbroker: -2\n", "version: 0\nbroker: 4294967296\n"} {
		if err := vfs.WriteFileAtomic(disk, name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		if got, err := log.CopySource(); !errors.Is(err, errMeta) {
			t.Errorf("%q: a copy of %d, %v", content, got, err)
		}
	}
}
