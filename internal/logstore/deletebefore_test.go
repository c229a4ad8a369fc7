package logstore

import (
	"errors"
	"slices"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/topicconfig"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// TestDeleteBeforeDeletesSegments checks that DeleteBefore deletes segments under every cleanup
// policy (KAFKA-7400). After a crash the deleted records stay deleted, and all later records exist.
func TestDeleteBeforeDeletesSegments(t *testing.T) {
	for _, compact := range []bool{false, true} {
		mem := vfs.NewMem()
		store := openStore(t, mem)
		config := settings(func(s *topicconfig.Settings) {
			s.Compact, s.Delete = compact, !compact
		})
		log := createLog(t, store, config)
		fill(t, log, 50)
		store.tick(epoch0, false)
		for _, offset := range []int64{0, 5, 25, 25, 20, 40, 47, 50} {
			start := max(offset, log.LogStart())
			if err := log.DeleteBefore(offset); err != nil {
				t.Fatal(err)
			}
			if log.LogStart() != start || log.LogEnd() != 50 || log.LastStable() != 50 {
				t.Fatalf("delete before %d: [%d, %d)", offset, log.LogStart(), log.LogEnd())
			}
			if first := bases(log)[0]; first > start || first+10 <= start && len(bases(log)) > 1 {
				t.Errorf("delete before %d: segments %v", offset, bases(log))
			}
			again := createLog(t, openStore(t, mem.CrashClone()), config)
			if got := readKeys(t, again, again.LogStart()); again.LogStart() != start ||
				!slices.Equal(got, expectKeys(start, 50)) {
				t.Fatalf("delete before %d, after a crash: from %d read %v", offset,
					again.LogStart(), got)
			}
		}
		// Appends continue at the log end, although the log start is above the base offset of the
		// active segment (KAFKA-8764).
		fill(t, log, 3)
		if got := readKeys(t, log, 50); !slices.Equal(got, expectKeys(50, 53)) {
			t.Errorf("read %v", got)
		}
	}
}

// TestRepeatedDeleteBeforeWritesTheLogStart calls DeleteBefore twice. The first call moves the log
// start but fails to write it. A second call with the same offset must write the log start, because
// otherwise a crash would restore the deleted records.
func TestRepeatedDeleteBeforeWritesTheLogStart(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	store := openStore(t, fault)
	log := createLog(t, store, settings(nil))
	fill(t, log, 50)
	store.tick(epoch0, false)
	fault.Inject(vfs.Rule{Name: "log-start-offset-checkpoint*", Err: syscall.ENOSPC})
	if err := log.DeleteBefore(25); !errors.Is(err, syscall.ENOSPC) {
		t.Fatalf("got error %v, want ENOSPC", err)
	}
	fault.Clear()
	if err := log.DeleteBefore(25); err != nil {
		t.Fatal(err)
	}
	again := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	if got := again.LogStart(); got != 25 {
		t.Errorf("log start after a crash: got %d, want 25", got)
	}
}

func TestDeleteBeforeStopsAtTheHighWatermark(t *testing.T) {
	_, _, log := newLogForTest(t)
	for range 5 {
		if _, err := log.Append(keyed(t, "k"), epoch0); err != nil {
			t.Fatal(err)
		}
	}
	log.AdvanceHighWatermark(3)
	if err := log.DeleteBefore(4); !errors.Is(err, ErrOffsetOutOfRange) || log.LogStart() != 0 {
		t.Errorf("%v, log start %d", err, log.LogStart())
	}
	if err := log.DeleteBefore(3); err != nil || log.LogStart() != 3 {
		t.Errorf("%v, log start %d", err, log.LogStart())
	}
}

// TestDeleteBeforeWithinAnOpenTransaction deletes the beginning of an open transaction. The last
// stable offset is then the log start, although the transaction's first offset is lower.
func TestDeleteBeforeWithinAnOpenTransaction(t *testing.T) {
	_, _, log := newLogForTest(t)
	inTxn(t, log, 7, 0, "a")
	fill(t, log, 18)
	inTxn(t, log, 7, 1, "b")
	if err := log.DeleteBefore(15); err != nil {
		t.Fatal(err)
	}
	if log.LastStable() != 15 {
		t.Errorf("last stable offset %d", log.LastStable())
	}
	endTxn(t, log, 7, false)
	if log.LastStable() != 21 {
		t.Errorf("last stable offset %d", log.LastStable())
	}
}

// TestDeletedTransactionIsNotOpen deletes all records of an open transaction. The transaction then
// blocks no reader, neither before nor after a restart. The transaction's marker has no effect, and
// a later batch begins a new transaction.
func TestDeletedTransactionIsNotOpen(t *testing.T) {
	for _, restart := range []bool{false, true} {
		mem, store, log := newLogForTest(t)
		inTxn(t, log, 7, 0, "a")
		inTxn(t, log, 8, 0, "a")
		fill(t, log, 20)
		store.tick(epoch0, false)
		if err := log.DeleteBefore(15); err != nil {
			t.Fatal(err)
		}
		if restart {
			store = openStore(t, mem.CrashClone())
			log = createLog(t, store, settings(nil))
			log.AdvanceHighWatermark(log.LogEnd())
		}
		count, oldest := log.OpenTransactions()
		if log.LastStable() != 22 || log.Producers().HasOpenTransaction(7, 0) || count != 0 ||
			oldest.First != producer.NoTransaction {
			t.Fatalf("restart %t: last stable offset %d of %d, open %d, %+v", restart,
				log.LastStable(), log.LogEnd(), count, oldest)
		}
		next := storetest.Batch{Producer: 8, Sequence: 1, Keys: []string{"b"},
			Transactional: true}.Bytes(t)
		if _, err := log.Append(next, epoch0); !errors.Is(err, ErrInvalidTxnState) {
			t.Errorf("restart %t: an unverified batch of a deleted transaction: %v", restart, err)
		}
		endTxn(t, log, 7, false)
		inTxn(t, log, 8, 1, "b") // 23
		if count, oldest := log.OpenTransactions(); log.LastStable() != 23 || count != 1 ||
			oldest.ProducerID != 8 || oldest.First != 23 {
			t.Errorf("restart %t: last stable offset %d, open %d, %+v", restart, log.LastStable(),
				count, oldest)
		}
		endTxn(t, log, 8, false)
		for _, s := range sourcesOf(log, 0, len(bases(log))) {
			if _, err := s.Aborted(0, log.LogEnd(), func(a segment.AbortedTxn) {
				if a.FirstOffset != 23 {
					t.Errorf("restart %t: entry %+v of the transaction index", restart, a)
				}
			}); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestRetentionUnblocksReadersOfADeletedTransaction checks that an open transaction no longer
// blocks readers after retention has deleted the only segments that contain its records.
func TestRetentionUnblocksReadersOfADeletedTransaction(t *testing.T) {
	_, store, log := newLogForTest(t)
	inTxn(t, log, 7, 0, "a")
	fill(t, log, 40)
	log.Configure(settings(func(s *topicconfig.Settings) { s.RetentionBytes = 0 }), false)
	store.tick(epoch0, true)
	if log.LogStart() == 0 || log.LastStable() != log.LogEnd() {
		t.Errorf("log start %d, last stable offset %d of %d", log.LogStart(), log.LastStable(),
			log.LogEnd())
	}
}

// TestDeleteBeforeResetsTheFirstDirtyOffset checks that DeleteBefore raises a first dirty offset
// that is below the new log start, in memory and on disk.
func TestDeleteBeforeResetsTheFirstDirtyOffset(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	fill(t, log, 50)
	store.tick(epoch0, false)
	if err := errors.Join(log.compaction.Progress.SetFirstDirty(10),
		log.DeleteBefore(25)); err != nil {
		t.Fatal(err)
	}
	again := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	if got := again.compaction.Progress.FirstDirty(); got != 25 {
		t.Errorf("first dirty offset %d", got)
	}
}
