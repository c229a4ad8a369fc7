package logstore

import (
	"errors"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestReserveEndsAppends checks that while the remaining space is reserved, records from clients
// and from the leader are refused without stopping the log. Reads and deletions continue, and
// appends succeed again afterwards.
func TestReserveEndsAppends(t *testing.T) {
	store := openStore(t, vfs.NewMem())
	log := createLog(t, store, settings(nil))
	fill(t, log, 20)
	other, err := store.Create(PartitionID{Topic: "tickets", Index: 1}, topicOne, settings(nil), true)
	if err != nil {
		t.Fatal(err)
	}
	replicated := storetest.Batch{Keys: []string{"k"}, Timestamp: epoch0}.Bytes(t)

	store.SetReserved(true)
	if _, err := log.Append(keyed(t, "refused"), epoch0); !errors.Is(err, ErrStorage) {
		t.Errorf("append in the reserve: %v, want ErrStorage", err)
	}
	if err := other.AppendReplicated(slices.Clone(replicated), epoch0); !errors.Is(err, ErrStorage) {
		t.Errorf("replicated append in the reserve: %v, want ErrStorage", err)
	}
	if log.Fault() != nil || other.Fault() != nil {
		t.Errorf("the logs have stopped: %v, %v", log.Fault(), other.Fault())
	}
	if got := readKeys(t, log, 0); !slices.Equal(got, expectKeys(0, 20)) {
		t.Errorf("read %v", got)
	}
	if err := log.DeleteBefore(10); err != nil || log.LogStart() != 10 {
		t.Errorf("log start %d after a deletion in the reserve, error %v", log.LogStart(), err)
	}

	store.SetReserved(false)
	fill(t, log, 1)
	if err := other.AppendReplicated(replicated, epoch0); err != nil {
		t.Errorf("replicated append after the reserve: %v", err)
	}
}
