package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// TestDamagedDataIsReportedWithItsLocation changes a byte of a sealed segment, below the recovery
// point, while the log is in use. A read of the damaged batch fails with an error that contains the
// batch's location. Later batches can be read, appends succeed, and other partitions are not
// affected. The next start opens the log, with the same results, and a pass refuses to rewrite the
// damaged segment, because its records can be repaired.
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
		// Damage the length field of the first batch.
		if _, err := file.WriteAt([]byte{0x40}, 8); err != nil {
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
			t.Errorf("clean %v: read after the damaged segment: %v", clean, got)
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
		log = createLog(t, store,
			settings(func(s *topicconfig.Settings) { s.Delete, s.Compact = true, true }))
		_, err = log.Read(10, log.LogEnd(), 4096, true)
		wantLocation(t, err, "read at offset 10", path)
		log.AdvanceHighWatermark(log.LogEnd())
		if after := readKeys(t, log, 20); len(after) < 10 || after[len(after)-1] != fmt.Sprintf(
			"%d=more", log.LogEnd()-1) {
			t.Errorf("clean %v: read behind the damaged segment: %v", clean, after)
		}
		c := log.Compaction()
		if _, err := c.Pass(t.Context(), compaction.PassOptions{Settings: c.Settings(),
			MemoryBytes: 1 << 20}); !errors.Is(err, ErrStorage) {
			t.Errorf("clean %v: a pass over the damaged segment: %v", clean, err)
		}
		if !slices.Equal(readKeys(t, store.Log(other), 0), expectKeys(0, 3)) {
			t.Errorf("clean %v: another partition was harmed by the start", clean)
		}
	}
}

// wantLocation checks that err is a storage error whose text contains all places.
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
