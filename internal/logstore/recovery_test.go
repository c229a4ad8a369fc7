package logstore

import (
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
)

func TestACleanRestartBringsEverythingBack(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	fill(t, createLog(t, store, settings(nil)), 30)
	id := store.DirectoryID()
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	store = openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 30)) {
		t.Errorf("read %v", got)
	}
	if store.DirectoryID() != id {
		t.Errorf("the directory's id changed from %v to %v", id, store.DirectoryID())
	}
	if log.HighWatermark() != 30 {
		t.Errorf("high watermark is %d", log.HighWatermark())
	}
	fill(t, log, 5)
	if got := readKeys(t, log, 28); !slices.Equal(got, expectKeys(28, 35)) {
		t.Errorf("read %v", got)
	}
}

func TestACrashLosesNothingThatWasSynced(t *testing.T) {
	fsys := vfs.NewMem()
	store := openStore(t, fsys)
	log := createLog(t, store, settings(nil))
	fill(t, log, 30)
	store.tick(epoch0, false)
	fill(t, log, 20)
	for seed := range uint64(200) {
		crashed := fsys.CrashClonePartly(seed)
		again := openStore(t, crashed)
		log := createLog(t, again, settings(nil))
		if log.LogEnd() < 30 || log.LogEnd() > 50 {
			t.Fatalf("seed %d: log end is %d", seed, log.LogEnd())
		}
		if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, log.LogEnd())) {
			t.Fatalf("seed %d: read %v", seed, got)
		}
	}
}
