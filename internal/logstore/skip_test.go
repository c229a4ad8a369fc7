package logstore

import (
	"math"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// farBatch returns a batch with an offset and a leader epoch, as a follower fetches it.
func farBatch(t *testing.T, offset int64, epoch int32, values ...string) []byte {
	t.Helper()
	b := record.Batch(slices.Clone(keyed(t, values...)))
	b.SetBaseOffset(offset)
	b.SetLeaderEpoch(epoch)
	return b
}

// TestFollowerSkipsHugeGap replicates a log with a gap of more than 2^31 offsets, between records
// or at the log's start, to a follower. After a crash at any moment, the follower's log is intact,
// and replication can continue.
func TestFollowerSkipsHugeGap(t *testing.T) {
	for _, first := range []int64{0, 5} {
		mem := vfs.NewMem()
		store := openStore(t, mem)
		log := createLog(t, store, settings(nil))
		var sent []byte
		if first > 0 {
			sent = append(farBatch(t, 0, 1, "a", "b"), farBatch(t, 2, 1, "c", "d", "e")...)
		}
		far := first + 3*math.MaxInt32
		sent = append(sent, farBatch(t, far, 2, "f")...)
		sent = append(sent, farBatch(t, far+1, 2, "g")...)
		sent = append(sent, farBatch(t, 2*far, 4, "h")...)
		if err := log.AppendReplicated(slices.Clone(sent), epoch0); err != nil {
			t.Fatal(err)
		}
		if log.LogEnd() != 2*far+1 || !slices.Equal(bytesOf(t, log), sent) || log.LogStart() != 0 {
			t.Fatalf("log [%d, %d)", log.LogStart(), log.LogEnd())
		}
		crashed := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
		if got := bytesOf(t, crashed); len(got) > len(sent) || !slices.Equal(got, sent[:len(got)]) {
			t.Fatalf("after a crash: %d bytes differ from the leader's", len(got))
		}
		rest := sent[len(bytesOf(t, crashed)):]
		if err := crashed.AppendReplicated(slices.Clone(rest), epoch0); err != nil ||
			!slices.Equal(bytesOf(t, crashed), sent) {
			t.Fatalf("appending %d more bytes: %v", len(rest), err)
		}
		// Another leader does not have the records after the gap, so the follower removes them.
		if err := log.TruncateTo(first); err != nil || log.LogEnd() > first {
			t.Fatalf("truncated to %d: %v", log.LogEnd(), err)
		}
		if err := log.AppendReplicated(farBatch(t, log.LogEnd(), 5, "x"), epoch0); err != nil {
			t.Fatal(err)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestFollowRejectsProducers checks that after Follow, the log rejects appends of producers until
// Lead. It accepts replicated batches.
func TestFollowRejectsProducers(t *testing.T) {
	log := createLog(t, openStore(t, vfs.NewMem()), settings(nil))
	if err := log.Lead(1); err != nil {
		t.Fatal(err)
	}
	fill(t, log, 1)
	log.Follow()
	if _, err := log.Append(keyed(t, "x"),
		epoch0); err != ErrFollows { //nolint:errorlint // exactly this one
		t.Errorf("append: %v", err)
	}
	if err := log.AppendReplicated(farBatch(t, log.LogEnd(), 2, "y"), epoch0); err != nil {
		t.Error(err)
	}
	for _, epoch := range []int32{2, 3} { // Lead is allowed with the latest epoch too
		log.Follow()
		if err := log.Lead(epoch); err != nil {
			t.Fatal(err)
		}
		if _, err := log.Append(keyed(t, "z"), epoch0); err != nil {
			t.Error(err)
		}
	}
}

// TestBrokerEpochIsReadAfterCleanShutdownOnly checks that if the last broker process closed the
// store cleanly, the clean-shutdown marker contains its broker epoch. The epoch can be read once:
// after a crash of the next process, the marker is gone.
func TestBrokerEpochIsReadAfterCleanShutdownOnly(t *testing.T) {
	mem := vfs.NewMem()
	for _, c := range []struct{ note, found int64 }{{7, -1}, {8, 7}, {-1, 8}, {9, -1}} {
		store := openStore(t, mem)
		if store.CleanEpoch() != c.found {
			t.Errorf("broker epoch %d, want %d", store.CleanEpoch(), c.found)
		}
		createLog(t, store, settings(nil))
		if c.note >= 0 {
			store.SetBrokerEpoch(c.note)
		}
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
	}
	openStore(t, mem)
	if epoch := openStore(t, mem.CrashClone()).CleanEpoch(); epoch != -1 {
		t.Errorf("after a crash: broker epoch %d, want -1", epoch)
	}
}
