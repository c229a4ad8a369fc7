package logstore

import (
	"errors"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
)

// bytesOf returns the bytes of all batches of a log.
func bytesOf(t testing.TB, log *Log) []byte {
	t.Helper()
	var all []byte
	for offset := log.LogStart(); offset < log.LogEnd(); {
		slice, err := log.Read(offset, log.LogEnd(), 1<<20, true)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range batchesOf(t, slice) {
			all = append(all, b...)
			offset = b.NextOffset()
		}
		slice.Release()
		if slice.Length == 0 {
			break // the log ends with an offset gap
		}
	}
	return all
}

// TestFollowerHasTheLeadersLog checks that a follower that has appended all batches of its leader
// has the same bytes, leader epochs, producers and transactions as the leader.
func TestFollowerHasTheLeadersLog(t *testing.T) {
	leaderDisk := vfs.NewMem()
	_, leader, want := txnLog(t, leaderDisk)
	if err := leader.Lead(3); err != nil {
		t.Fatal(err)
	}
	fill(t, leader, 4)
	if err := leader.Lead(6); err != nil {
		t.Fatal(err)
	}
	fill(t, leader, 30)
	sentBytes := bytesOf(t, leader)

	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	if err := log.AppendReplicated(slices.Clone(sentBytes), epoch0); err != nil {
		t.Fatal(err)
	}
	check := func(stage string) {
		t.Helper()
		log.AdvanceHighWatermark(log.LogEnd())
		if !slices.Equal(bytesOf(t, log), sentBytes) {
			t.Fatalf("%s: the bytes differ", stage)
		}
		if log.LastStable() != leader.LastStable() || log.LeaderEpoch() != 6 ||
			!log.Producers().HasOpenTransaction(9, 0) {
			t.Fatalf("%s: last stable offset %d, epoch %d", stage, log.LastStable(),
				log.LeaderEpoch())
		}
		for epoch := int32(-1); epoch < 9; epoch++ {
			found, end := log.EndOffsetFor(epoch)
			wantFound, wantEnd := leader.EndOffsetFor(epoch)
			if found != wantFound || end != wantEnd {
				t.Errorf("%s: epoch %d is %d until %d, want %d until %d", stage, epoch, found, end,
					wantFound, wantEnd)
			}
		}
		expectCommitted(t, stage, log, want)
	}
	check("appended")
	store.tick(epoch0, false)
	log = createLog(t, openStore(t, mem.CrashClone()), settings(nil))
	check("after a crash")
}

// TestReplicatedGapsSurviveCrash checks that a follower's segments are contiguous even if cleaning
// has left offset gaps in the leader's log, because recovery treats a gap between segments as lost
// data.
func TestReplicatedGapsSurviveCrash(t *testing.T) {
	for seed := range seed.Sequence(t, 40) {
		mem := vfs.NewMem()
		store := openStore(t, mem)
		log := createLog(t, store, settings(nil))
		offset := int64(0)
		var want []int64
		for i := range int64(60) {
			offset += 1 + i%4*50
			b := record.Batch(keyed(t, "k"))
			b.SetBaseOffset(offset)
			b.SetLeaderEpoch(2)
			if err := log.AppendReplicated(b, epoch0); err != nil {
				t.Fatal(err)
			}
			want = append(want, offset)
			offset++
		}
		if len(bases(log)) < 4 {
			t.Fatalf("segments %v", bases(log))
		}
		store.tick(epoch0, false)
		log = createLog(t, openStore(t, mem.CrashClonePartly(seed)), settings(nil))
		var got []int64
		for rest := bytesOf(t, log); len(rest) > 0; {
			var b record.Batch
			b, rest, _ = record.Next(rest)
			got = append(got, b.BaseOffset())
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %v, want %v", seed, got, want)
		}
	}
}

func TestAppendReplicatedRejects(t *testing.T) {
	_, _, log := newLogForTest(t)
	fill(t, log, 5)
	changed := func(offset int64, change func([]byte)) []byte {
		b := record.Batch(keyed(t, "a", "b"))
		b.SetBaseOffset(offset)
		if change != nil {
			change(b)
		}
		return b
	}
	for name, test := range map[string]struct {
		batches []byte
		want    error
	}{
		"below the end":    {changed(4, nil), ErrUnexpectedOffset},
		"a wrong checksum": {changed(5, func(b []byte) { b[len(b)-1] ^= 1 }), record.ErrCorrupt},
		"half a batch":     {changed(5, nil)[:40], record.ErrCorrupt},
		"no batch":         {make([]byte, 80), record.ErrCorrupt},
		"an earlier epoch": {changed(7,
			func(b []byte) { record.Batch(b).SetLeaderEpoch(log.LeaderEpoch() - 1) }),
			ErrFencedLeaderEpoch},
		"the second is wrong": {slices.Concat(changed(5, nil), changed(6, nil)), ErrUnexpectedOffset},
	} {
		if err := log.AppendReplicated(test.batches, epoch0); !errors.Is(err, test.want) {
			t.Errorf("%s: %v, want %v", name, err, test.want)
		}
		if log.Fault() != nil {
			t.Fatalf("%s: the log stopped: %v", name, log.Fault())
		}
	}
}

// TestEpochEndsBeforeOffsetGap copies a leader's log that was cleaned and has an offset gap between
// the records of two leader epochs. The gap belongs to neither epoch. A copy of this log must
// report that the earlier epoch ends with that epoch's last record. Otherwise another replica that
// has records in the gap would keep them, although this log does not contain them.
func TestEpochEndsBeforeOffsetGap(t *testing.T) {
	mem, store, log := newLogForTest(t)
	batch := func(offset int64, epoch int32) []byte {
		b := record.Batch(keyed(t, "a"))
		b.SetBaseOffset(offset)
		b.SetLeaderEpoch(epoch)
		return b
	}
	first := log.LeaderEpoch() + 1
	if err := log.AppendReplicated(slices.Concat(batch(0, first), batch(20, first+1)),
		epoch0); err != nil {
		t.Fatal(err)
	}
	check := func(stage string, log *Log) {
		t.Helper()
		if found, end := log.EndOffsetFor(first); found != first || end != 1 {
			t.Errorf("%s: epoch %d ends at %d, want %d and 1", stage, found, end, first)
		}
	}
	check("appended", log)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	if err := mem.Remove(dataDir + "/tickets-0/" + checkpoint.EpochsFile); err != nil {
		t.Fatal(err)
	}
	check("rebuilt from the batches", openStore(t, mem).Logs()[0])
}
