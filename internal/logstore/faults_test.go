package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/seed"
	"heartwood.dev/heartwood/test/kit/storetest"
)

// Each test in this file reproduces one fault that the crash test found. ADR 0100 lists the
// faults.

// gapped appends a batch of one record at an offset above the log end, like a follower whose
// leader's log was cleaned below that offset.
func gapped(t testing.TB, log *Log, offset int64) {
	t.Helper()
	b := record.Batch(keyed(t, fmt.Sprintf("k%d", offset)))
	b.SetBaseOffset(offset)
	if err := log.AppendReplicated(b, epoch0); err != nil {
		t.Fatal(err)
	}
}

// appendNow appends a batch at the current time, because a start would expire the producer of an
// older batch.
func appendNow(t testing.TB, log *Log, s storetest.Batch) {
	t.Helper()
	if _, err := log.Append(s.Bytes(t), time.Now()); err != nil {
		t.Fatal(err)
	}
	log.AdvanceHighWatermark(log.LogEnd())
}

// TestTruncationIntoGapFillsIt checks that a truncation to an offset in a gap fills the gap with an
// empty batch. Otherwise the next segment would begin after a gap. Recovery would treat the gap as
// lost data and remove synced records, and the gap's offsets, which readers have already passed,
// would be assigned again.
func TestTruncationIntoGapFillsIt(t *testing.T) {
	for offset := int64(5); offset <= 20; offset++ {
		mem := vfs.NewMem()
		store := openStore(t, mem)
		log := createLog(t, store, settings(nil))
		fill(t, log, 5)
		gapped(t, log, 20)
		if err := log.TruncateTo(offset); err != nil || log.LogEnd() != offset {
			t.Fatalf("truncated to %d: ends at %d, %v", offset, log.LogEnd(), err)
		}
		if err := log.disk.Flush(); err != nil {
			t.Fatal(err)
		}
		if again := createLog(t, openStore(t, mem.CrashClone()),
			settings(nil)); again.LogEnd() != offset {
			t.Errorf("truncated to %d: ends at %d after a crash", offset, again.LogEnd())
		}
		gapped(t, log, offset)
		rollNow(t, log)
		gapped(t, log, 30)
		if err := log.disk.Flush(); err != nil {
			t.Fatal(err)
		}
		log = createLog(t, openStore(t, mem.CrashClone()), settings(nil))
		want := append(expectKeys(0, 5), expectKeys(offset, offset+1)...)
		if got := readKeys(t, log, 0); !slices.Equal(got, append(want, "30=k30")) {
			t.Errorf("truncated to %d: %v", offset, got)
		}
	}
}

// TestTruncationThatLeavesOnlyAGapStartsAgain checks that a truncation that leaves no record above
// the log start restarts the log empty at the new log end, even if it leaves an offset gap.
func TestTruncationThatLeavesOnlyAGapStartsAgain(t *testing.T) {
	_, _, log := newLogForTest(t)
	fill(t, log, 5)
	gapped(t, log, 20)
	log.AdvanceHighWatermark(log.LogEnd())
	if err := errors.Join(log.DeleteBefore(10), log.TruncateTo(15)); err != nil {
		t.Fatal(err)
	}
	if s := log.Stats(); s.LogStart != 15 || s.LogEnd != 15 || s.SizeBytes != 0 {
		t.Errorf("%+v", s)
	}
}

// TestFileOfFailedRollIsRemoved checks a roll on a full disk that creates the data file of the new
// segment but not its index. A smaller batch still fits into the old segment. The power fails
// before the removal of the new data file is durable. The next start removes the file.
func TestFileOfFailedRollIsRemoved(t *testing.T) {
	for _, torn := range []bool{false, true} {
		mem := vfs.NewMem()
		store := openStore(t, mem)
		log := createLog(t, store, settings(nil))
		fill(t, log, 9)
		if err := store.Close(); err != nil { // now the recovery point is 9, with a snapshot at 9
			t.Fatal(err)
		}
		store = openStore(t, mem)
		log = createLog(t, store, settings(nil))
		if !torn {
			fill(t, log, 1)
		}
		if err := log.disk.Flush(); err != nil {
			t.Fatal(err)
		}
		crashed := mem.CrashClone()
		dir := filepath.Join(dataDir, partition.String())
		err := vfs.WriteFileAtomic(crashed,
			filepath.Join(dir, segment.Name(9, segment.LogExtension, "")), nil)
		if torn {
			damage(t, crashed, segment.Name(0, segment.LogExtension, ""),
				func(b []byte) []byte { return append(b, b[:40]...) })
		}
		store = openStore(t, crashed)
		if err = errors.Join(err, store.Offline()[partition]); err != nil {
			t.Fatalf("torn %t: %v", torn, err)
		}
		log = createLog(t, store, settings(nil))
		end := log.LogEnd()
		if got := readKeys(t, log, 0); end < 9 || !torn && end != 10 ||
			!slices.Equal(got, expectKeys(0, end)) || !slices.Equal(bases(log), []int64{0}) {
			t.Errorf("torn %t: segments %v, read %v", torn, bases(log), got)
		}
	}
}

// TestTruncationKeepsProducersOfCleanedBatches truncates a log below a producer's last batch, the
// only batch of the producer that a pass has kept. The log still knows the sequence number of the
// producer's previous batch, which the pass has removed, even if a start has removed the producer
// snapshots.
func TestTruncationKeepsProducersOfCleanedBatches(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	first := storetest.Batch{Producer: 7, Keys: []string{"k0"}}.Bytes(t)
	appendBatch(t, log, slices.Clone(first))
	fill(t, log, 33)
	store.tick(epoch0, false)
	crashed := mem.CrashClone()
	damageAll(t, crashed, swap.SnapshotSuffix, gone)
	store = openStore(t, crashed)
	log = createLog(t, store, settings(nil))
	appendBatch(t, log, storetest.Batch{Producer: 7, Sequence: 1, Keys: []string{"k0"}}.Bytes(t))
	store.tick(epoch0, false)
	end := bases(log)[1]
	sources := sourcesOf(log, 0, 1)
	kept := []int64{}
	for offset := int64(1); offset < end; offset++ {
		kept = append(kept, offset)
	}
	cleaned, err := cleanedOf(t, log, sources, kept)
	if err == nil {
		err = errors.Join(replaceNow(log, sources, cleaned), log.TruncateTo(end+3))
	}
	if err != nil {
		t.Fatal(err)
	}
	if again, err := log.Append(first, time.Now()); err != nil || !again.Duplicate ||
		again.BaseOffset != 0 {
		t.Errorf("%+v, %v", again, err)
	}
}

// TestTwoRoundsOfRetentionLeaveNoGap checks that each log start that retention stores is durable
// before the next log start is stored, also across rounds of retention. If a start found only the
// second log start on disk, it would find an offset gap, and treat it as a gap left by cleaning.
func TestTwoRoundsOfRetentionLeaveNoGap(t *testing.T) {
	for seed := range seed.Sequence(t, 40) {
		mem := vfs.NewMem()
		store, log := swapLog(t, mem)
		if err := log.DeleteBefore(12); err != nil {
			t.Fatal(err)
		}
		// Call deleteBefore and not DeleteBefore, which would write checkpoints with the new log
		// start.
		if _, err := log.deleteBefore(23); err != nil {
			t.Fatal(err)
		}
		crashed := mem.CrashClonePartly(seed)
		if err := store.Close(); err != nil {
			t.Fatal(err)
		}
		log = createLog(t, openStore(t, crashed), settings(nil))
		if got := readKeys(t, log, log.LogStart()); log.LogStart() > 23 ||
			!slices.Equal(got, expectKeys(log.LogStart(), 50)) {
			t.Errorf("seed %d: segments %v, read %v", seed, bases(log), got)
		}
	}
}

// TestPendingSnapshotIsWrittenLater checks that if retention deletes a producer's batches on a full
// disk and cannot write a producer snapshot, the snapshot is written once there is space again.
func TestPendingSnapshotIsWrittenLater(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	store := openStore(t, fault)
	log := createLog(t, store, settings(nil))
	first := storetest.Batch{Producer: 7, Keys: []string{"k0"}}
	appendNow(t, log, first)
	fill(t, log, 33)
	fault.Inject(vfs.Rule{Op: vfs.OpCreate, Err: syscall.ENOSPC})
	if err := log.DeleteBefore(33); !errors.Is(err, syscall.ENOSPC) || len(bases(log)) > 1 {
		t.Fatalf("segments %v, %v", bases(log), err) // no space for the checkpoints
	}
	base := bases(log)[0]
	full := mem.CrashClone()
	fault.Clear()
	store.tick(epoch0, false)
	for _, room := range []bool{true, false} {
		crashed := full
		if room {
			crashed = mem.CrashClone()
		}
		log := createLog(t, openStore(t, crashed), settings(nil))
		again, err := log.Append(first.Bytes(t), time.Now())
		if err != nil || room && !again.Duplicate {
			t.Errorf("room %t, log [%d, %d), first segment %d: %+v, %v", room, log.LogStart(),
				log.LogEnd(), base, again, err)
		}
	}
}

// TestSnapshotBelowFirstSegmentIsIgnored checks that a start ignores a producer snapshot below the
// first segment. The batches after the snapshot are deleted, so with the snapshot's state the log
// would reject the producer's next batch.
func TestSnapshotBelowFirstSegmentIsIgnored(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	for i := range int32(30) {
		appendNow(t, log, storetest.Batch{Producer: 7, Sequence: i,
			Keys: []string{fmt.Sprintf("k%d", i)}, Value: "some thirty bytes for each one"})
	}
	all := bases(log)
	rollNow(t, log)
	fill(t, log, 30)
	store.tick(epoch0, false)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	crashed := mem.CrashClone()
	dir := filepath.Join(dataDir, partition.String())
	for _, base := range all { // further below, all snapshots but the first are removed too
		if err := segment.RemoveFiles(crashed, dir, base, ""); err != nil {
			t.Fatal(err)
		}
	}
	files, err := swap.List(crashed, dir)
	if err == nil {
		_, err = swap.RemoveFiles(crashed, dir, files,
			func(f swap.File) bool { return f.Kind == swap.SnapshotSuffix && f.Base > all[1] })
	}
	if err != nil {
		t.Fatal(err)
	}
	log = createLog(t, openStore(t, crashed), settings(nil))
	next := storetest.Batch{Producer: 7, Sequence: 30, Keys: []string{"next"}}.Bytes(t)
	if _, err := log.Append(next, time.Now()); err != nil {
		t.Errorf("snapshot at %d, log from %d: %v", all[1], log.LogStart(), err)
	}
}

// TestAbortedStaysAbortedAfterCrashesDuringRecovery cuts the power when the recovery point is the
// end of a segment that was rolled but not yet sealed. Recovery rebuilds the segment's transaction
// index, and then the power fails again at any moment of the recovery. The next recovery must
// rebuild the index again, and must not treat the segment as a sealed segment without aborted
// transactions.
func TestAbortedStaysAbortedAfterCrashesDuringRecovery(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	log := createLog(t, store, settings(nil))
	fill(t, log, 5)
	inTxn(t, log, 9, 0, "aborted")
	endTxn(t, log, 9, false)
	appendBatch(t, log, storetest.Batch{Producer: 7, Keys: []string{"k7"}}.Bytes(t))
	store.tick(epoch0, false) // sets the recovery point to 8
	rollNow(t, log)
	fill(t, log, 2)
	if err := log.disk.Commit(); err != nil {
		t.Fatal(err)
	}
	want := committedKeys(t, log, 0)
	crashed := mem.CrashClone()
	var clones []*vfs.Mem
	disk := newCrashDisk(crashed, nil)
	disk.Step = func(string, string) {
		clones = append(clones, crashed.CrashClone(), crashed.CrashClonePartly(uint64(len(clones))))
	}
	if err := openStore(t, disk).Close(); err != nil {
		t.Fatal(err)
	}
	for i, clone := range clones {
		log := createLog(t, openStore(t, clone), settings(nil))
		log.AdvanceHighWatermark(log.LogEnd())
		if got := committedKeys(t, log, 0); !slices.Equal(got, want) {
			t.Errorf("crash %d of %d: %v, want %v", i, len(clones), got, want)
		}
	}
}

// TestStartAtOnFullDiskDoesNotStopTheLog checks that StartAt on a full disk either restarts the log
// at the new offset or leaves the log unchanged. The log does not stop, and StartAt succeeds once
// there is space.
func TestStartAtOnFullDiskDoesNotStopTheLog(t *testing.T) {
	for _, offset := range []int64{0, 15, 20, 50, 70} {
		for skip := range 14 {
			mem := vfs.NewMem()
			fault := vfs.NewFault(mem)
			store := openStore(t, fault)
			log := createLog(t, store, settings(nil))
			fill(t, log, 50)
			store.tick(epoch0, false)
			if err := log.DeleteBefore(5); err != nil {
				t.Fatal(err)
			}
			for _, op := range []vfs.Op{vfs.OpCreate, vfs.OpWrite} {
				fault.Inject(vfs.Rule{Op: op, Skip: skip, Err: syscall.ENOSPC})
			}
			err := log.StartAt(offset)
			if log.Fault() != nil || err != nil && !errors.Is(err, syscall.ENOSPC) {
				t.Fatalf("start at %d, skip %d: %v, %v", offset, skip, err, log.Fault())
			}
			restarted := log.LogEnd() == offset && log.LogStart() == offset
			if !restarted && !slices.Equal(readKeys(t, log, 5), expectKeys(5, 50)) {
				t.Fatalf("start at %d, skip %d: [%d, %d)", offset, skip, log.LogStart(),
					log.LogEnd())
			}
			fault.Clear()
			store.tick(epoch0, false)
			end := log.LogEnd()
			fill(t, log, 1)
			if err := log.disk.Flush(); err != nil {
				t.Fatal(err)
			}
			again := createLog(t, openStore(t, mem.CrashClone()), settings(nil))
			if got := readKeys(t, again, end); !slices.Equal(got, expectKeys(end, end+1)) {
				t.Errorf("start at %d, skip %d, after a crash: %v", offset, skip, got)
			}
			if err := log.StartAt(offset); err != nil || log.LogEnd() != offset ||
				log.LogStart() != offset {
				t.Errorf("start at %d again: [%d, %d), %v", offset, log.LogStart(), log.LogEnd(),
					err)
			}
		}
	}
}

// TestDeletedSegmentDoesNotReturnWithoutItsTransactionIndex deletes a segment with an aborted
// transaction. The power fails before the log start checkpoint is written. The start must not
// restore the data file without the segment's transaction index, because the checkpoint of aborted
// transactions no longer includes this segment. TestCrashes found this with seed 13000584.
func TestDeletedSegmentDoesNotReturnWithoutItsTransactionIndex(t *testing.T) {
	mem := vfs.NewMem()
	deleting, clones := false, []*vfs.Mem(nil)
	store := openStore(t, newCrashDisk(mem, func(what, name string) {
		if deleting && what == "write" && strings.Contains(name, checkpoint.LogStartFile) {
			for seed := range uint64(100) {
				clones = append(clones, mem.CrashClonePartly(seed))
			}
		}
	}))
	log := createLog(t, store, settings(nil))
	fill(t, log, 15)
	inTxn(t, log, 9, 0, "aborted")
	endTxn(t, log, 9, false)
	fill(t, log, 20)
	store.tick(epoch0, false)
	deleting = true
	if err := log.DeleteBefore(bases(log)[2]); err != nil || len(clones) == 0 {
		t.Fatalf("%v; %d crashes", err, len(clones))
	}
	for i, crashed := range clones {
		again := createLog(t, openStore(t, crashed), settings(nil))
		for _, key := range committedKeys(t, again, again.LogStart()) {
			if strings.HasSuffix(key, "aborted") {
				t.Errorf("crash %d, log start %d: %s is committed", i, again.LogStart(), key)
			}
		}
	}
}

// TestInterruptedRetentionKeepsTransactions checks a crash that restores the second of two segments
// that retention has deleted. The newest producer snapshot is at the end of both segments. A
// transaction began in the first segment, and its abort marker is above the high watermark that the
// crash restored. If the second segment contains no batch of the transaction, the last stable
// offset may ignore the transaction. Otherwise the last stable offset is at most the offset of that
// batch, and the transaction's records stay aborted.
func TestInterruptedRetentionKeepsTransactions(t *testing.T) {
	for _, more := range []bool{false, true} {
		mem := vfs.NewMem()
		var marking string // the second segment's data file; set when its deletion begins
		var clones []*vfs.Mem
		store := openStore(t, newCrashDisk(mem, func(what, name string) {
			if what == "rename" && marking != "" && strings.HasSuffix(name, marking) {
				for seed := range uint64(20) {
					clones = append(clones, mem.CrashClonePartly(seed))
				}
			}
		}))
		log := createLog(t, store, settings(nil))
		inTxn(t, log, 9, 0, "aborted")
		for len(bases(log)) < 2 {
			fill(t, log, 1)
		}
		second, left := bases(log)[1], int64(math.MaxInt64)
		fill(t, log, 2)
		if more {
			left = log.LogEnd()
			inTxn(t, log, 9, 1, "aborted")
		}
		fill(t, log, 2)
		saved := log.HighWatermark() // the crash restores this value
		for len(bases(log)) < 3 {
			if _, err := log.Append(keyed(t, "above"), epoch0); err != nil {
				t.Fatal(err)
			}
		}
		store.tick(epoch0, false)
		fill(t, log, 3)
		endTxn(t, log, 9, false)
		if err := log.disk.Flush(); err != nil {
			t.Fatal(err)
		}
		marking = segment.Name(second, segment.LogExtension, "")
		log.maintain.Lock()
		err := deleteFront(log, 2)
		log.maintain.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		seen := 0
		for _, crashed := range clones {
			// Remove the snapshot at the start of the second segment, if an earlier start has not
			// removed it.
			err := crashed.Remove(filepath.Join(log.dir, segment.Name(second, swap.SnapshotSuffix, "")))
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				t.Fatal(err)
			}
			again := createLog(t, openStore(t, crashed), settings(nil))
			start, stable := again.LogStart(), again.LastStable()
			if start != second {
				continue
			}
			seen++
			if want := min(saved, left); stable != want || again.HighWatermark() != saved {
				t.Errorf("another batch %t: [%d, %d) is stable up to %d, want %d", more, start,
					again.LogEnd(), stable, want)
			}
			again.AdvanceHighWatermark(again.LogEnd())
			for _, key := range committedKeys(t, again, start) {
				if strings.HasSuffix(key, "aborted") {
					t.Errorf("another batch %t: %s is committed", more, key)
				}
			}
			if again.LastStable() != again.LogEnd() {
				t.Errorf("another batch %t: stable up to %d of %d", more, again.LastStable(),
					again.LogEnd())
			}
		}
		if seen == 0 {
			t.Error("no crash left the second segment")
		}
	}
}
