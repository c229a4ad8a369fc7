package logstore

import (
	"path/filepath"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// Retention deletes three segments, and a crash restores the third one. This segment has no
// producer snapshot at its base offset, because recovery once scanned it. The start must still know
// the producers whose batches were in the deleted segments. (Seed 3000962 of TestCrashes found
// this.)
func TestCrashDuringRetentionKeepsProducers(t *testing.T) {
	mem := vfs.NewMem()
	var crashed *vfs.Mem
	var third string
	disk := newCrashDisk(mem, func(what, name string) {
		if crashed == nil && what == "rename" && third != "" &&
			strings.Contains(name, third) && !strings.Contains(name, swap.SnapshotSuffix) {
			crashed = mem.CrashClone()
		}
	})
	store := openStore(t, disk)
	log := createLog(t, store, settings(nil))
	first := storetest.Batch{Producer: 7, Keys: []string{"first"}}
	appendBatch(t, log, first.Bytes(t))
	fill(t, log, 50)
	store.tick(epoch0, false)
	all := bases(log)
	if len(all) < 4 {
		t.Fatalf("segments %v", all)
	}
	damageAll(t, mem, swap.SnapshotSuffix, func([]byte) []byte { return nil })
	third = strings.TrimSuffix(segment.Name(all[2], segment.LogExtension, ""), segment.LogExtension)
	log.maintain.Lock()
	err := deleteFront(log, 3)
	log.maintain.Unlock()
	if err != nil || crashed == nil {
		t.Fatalf("%v; crashed %t", err, crashed != nil)
	}
	// Without recovery points, recovery scans every segment, and uses no snapshot above the first
	// segment.
	if err := crashed.Remove(filepath.Join(dataDir, checkpoint.RecoveryPointFile)); err != nil {
		t.Fatal(err)
	}
	again := createLog(t, openStore(t, crashed), settings(nil))
	if again.LogStart() != all[2] {
		t.Fatalf("the log begins at %d, want %d", again.LogStart(), all[2])
	}
	if got := appendBatch(t, again, first.Bytes(t)); !got.Duplicate || got.BaseOffset != 0 {
		t.Errorf("the producer's batch sent again: %+v", got)
	}
}
