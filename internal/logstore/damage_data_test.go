package logstore

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// A byte of a sealed segment changes below the recovery point, while the log is in use: a reader of
// the batch gets an error with its location, the batches behind it can be read, appends continue,
// and other partitions are not affected. A start rejects the log and names the location: synced
// records must not be removed.
func TestDamagedDataIsReportedWithItsLocation(t *testing.T) {
	for _, clean := range []bool{true, false} {
		w := newWorld(t, clean)
		store := openStore(t, w.mem)
		log := createLog(t, store,
			settings(func(s *topicconfig.Settings) { s.Delete, s.Compact = true, true }))
		path := filepath.Join(dataDir, partition.String(), "00000000000000000010.log")
		file, err := w.mem.OpenReadWrite(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := file.WriteAt([]byte{0x40}, 8); err != nil { // the length of its first batch
			t.Fatal(err)
		}
		if err := errors.Join(file.Sync(), file.Close()); err != nil {
			t.Fatal(err)
		}
		log.AdvanceHighWatermark(log.LogEnd())
		_, err = log.Read(10, log.LogEnd(), 4096, true)
		wantLocation(t, err, "read at offset 10", path, "position 0")
		if got := readKeys(t, log, 20); !slices.Equal(got,
			w.want.keys[len(w.want.keys)-len(got):]) || len(got) < 10 {
			t.Errorf("clean %v: read behind it: %v", clean, got)
		}
		appendBatch(t, log, keyed(t, "more"))
		other := PartitionID{Topic: "other"}
		if !slices.Equal(readKeys(t, store.Log(other), 0), expectKeys(0, 3)) {
			t.Errorf("clean %v: another partition was harmed", clean)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		store = openStore(t, w.mem)
		wantLocation(t, store.Offline()[partition], partition.String(), "00000000000000000010.log",
			"position 0")
		if !slices.Equal(readKeys(t, store.Log(other), 0), expectKeys(0, 3)) {
			t.Errorf("clean %v: another partition was harmed by the start", clean)
		}
	}
}

// wantLocation expects a storage error that names a location.
func wantLocation(t *testing.T, err error, places ...string) {
	t.Helper()
	if !errors.Is(err, ErrStorage) || !errors.Is(err, record.ErrCorrupt) {
		t.Errorf("%v", err)
	}
	for _, place := range places {
		if err != nil && !strings.Contains(err.Error(), place) {
			t.Errorf("%q does not contain %q", err, place)
		}
	}
}
