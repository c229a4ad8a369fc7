package logstore

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/epochfile"
	"heartwood.dev/heartwood/internal/logstore/leaderepoch"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
)

// savedEpochs returns the content of the test partition's epoch file.
func savedEpochs(t *testing.T, fsys vfs.FS) leaderepoch.Cache {
	t.Helper()
	content, err := fsys.ReadFile(dataDir + "/tickets-0/" + checkpoint.EpochsFile)
	if err != nil {
		return nil
	}
	cache, err := checkpoint.DecodeEpochs(content)
	if err != nil {
		t.Fatal(err)
	}
	return cache
}

// ledAt is the time at which maintenance first finds the epochs of ledLog.
var ledAt = epoch0

// ledLog returns a log with the leader epochs 3, 4 and 6. Epochs 3 and 4 have 10 records each;
// epoch 6 has none. The epoch file contains only epoch 3.
func ledLog(t *testing.T) (*vfs.Mem, *Store, *Log) {
	t.Helper()
	mem, store, log := newLogForTest(t)
	for _, epoch := range []int32{3, 4, 6} {
		if err := log.Lead(epoch); err != nil {
			t.Fatal(err)
		}
		if epoch == 6 {
			break
		}
		fill(t, log, 10)
		if epoch == 3 {
			if err := log.epochs.SaveDue(); err != nil {
				t.Fatal(err)
			}
		}
		store.tick(ledAt, false)
	}
	if got := savedEpochs(t, mem); !slices.Equal(got, leaderepoch.Cache{{Epoch: 3, Start: 0}}) {
		t.Fatalf("the file contains %v", got)
	}
	return mem, store, log
}

// TestCrashKeepsEpochsOfBatches checks that a crash loses a leader epoch that is neither in the
// file nor in a batch. Epochs that are in batches are found again even if the batches were synced,
// because the recovery point does not pass an epoch that is not in the file.
func TestCrashKeepsEpochsOfBatches(t *testing.T) {
	mem, _, log := ledLog(t)
	if point := log.checkpointState().RecoveryPoint; point != 10 {
		t.Errorf("the recovery point is %d, above an epoch that is not in the file", point)
	}
	want := leaderepoch.Cache{{Epoch: 3, Start: 0}, {Epoch: 4, Start: 10}}
	crashed := mem.CrashClone()
	for range 2 { // the second start finds the same state, because the first one wrote no file
		recovered := openStore(t, crashed).Logs()[0]
		if got := recovered.epochs.Load(); !slices.Equal(got, want) || recovered.LogEnd() != 20 {
			t.Fatalf("after a crash: %v, log end %d", got, recovered.LogEnd())
		}
		crashed = crashed.CrashClone()
	}
	recovered := openStore(t, crashed).Logs()[0]
	if err := recovered.Lead(5); err != nil {
		t.Errorf("lead in an epoch below the lost one: %v", err)
	}
	if found, end := recovered.EndOffsetFor(3); found != 3 || end != 10 {
		t.Errorf("epoch 3 ends at %d (%d)", end, found)
	}
}

// TestCloseSavesEpochs checks that a clean shutdown writes all epochs to the file, including an
// epoch without batches.
func TestCloseSavesEpochs(t *testing.T) {
	mem, store, _ := ledLog(t)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
	want := leaderepoch.Cache{{Epoch: 3, Start: 0}, {Epoch: 4, Start: 10}, {Epoch: 6, Start: 20}}
	if got := savedEpochs(t, mem); !slices.Equal(got, want) {
		t.Errorf("the file contains %v", got)
	}
	if got := openStore(t, mem.CrashClone()).Logs()[0].epochs.Load(); !slices.Equal(got, want) {
		t.Errorf("opened with %v", got)
	}
}

// TestMaintenanceSavesEpochsLater checks that maintenance writes the epoch file epochfile.Delay
// after it has found an unsaved epoch. The recovery point then passes the start of the epoch.
func TestMaintenanceSavesEpochsLater(t *testing.T) {
	mem, store, log := ledLog(t)
	store.tick(ledAt.Add(epochfile.Delay-time.Second), false)
	if got := savedEpochs(t, mem); len(got) != 1 {
		t.Errorf("the file contains %v too early", got)
	}
	store.tick(ledAt.Add(epochfile.Delay), false)
	if got := savedEpochs(t, mem); len(got) != 3 {
		t.Errorf("the file contains %v", got)
	}
	if point := log.checkpointState().RecoveryPoint; point != 20 {
		t.Errorf("the recovery point is %d", point)
	}
}

// TestRollSavesEpochs checks that if a segment with unsaved epochs is rolled, the epoch file is due
// at once. Otherwise a start would have to scan the segment.
func TestRollSavesEpochs(t *testing.T) {
	mem, store, log := ledLog(t)
	log.mu.Lock()
	err := log.rollLocked()
	log.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	store.tick(ledAt, false)
	if got := savedEpochs(t, mem); len(got) != 3 {
		t.Errorf("the file contains %v", got)
	}
}

// TestUnsavedEpochsAreNotCleaned checks that the cleaner removes no batch whose leader epoch is not
// in the file, because after a crash no file would contain the epoch.
func TestUnsavedEpochsAreNotCleaned(t *testing.T) {
	_, store, log := ledLog(t)
	log.mu.Lock()
	err := log.rollLocked()
	log.mu.Unlock()
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(log.disk.Flush(), store.save()); err != nil {
		t.Fatal(err)
	}
	if end := log.disk.SealedEnd(); end > 10 {
		t.Errorf("segments below %d may be cleaned", end)
	}
	store.tick(ledAt, false)
	if end := log.disk.SealedEnd(); end != 20 {
		t.Errorf("after the file was written: segments below %d may be cleaned", end)
	}
}

// TestEpochFilesAreWrittenInRounds checks that a round of maintenance writes a limited number of
// epoch files.
func TestEpochFilesAreWrittenInRounds(t *testing.T) {
	mem := vfs.NewMem()
	store := openStore(t, mem)
	const logs = epochFilesMin + 10
	for i := range int32(logs) {
		log, err := store.Create(PartitionID{Topic: "many", Index: i}, TopicID{1}, settings(nil),
			false)
		if err == nil {
			err = log.Lead(1)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	written := func() (n int) {
		for i := range logs {
			if _, err := mem.Stat(fmt.Sprintf("%s/many-%d/%s", dataDir, i,
				checkpoint.EpochsFile)); err == nil {
				n++
			}
		}
		return n
	}
	for round, want := range []int{0, epochFilesMin, logs} {
		store.tick(epoch0.Add(time.Duration(round)*epochfile.Delay), false)
		if n := written(); n != want {
			t.Errorf("round %d: %d files, want %d", round, n, want)
		}
	}
}

// TestTruncationReplacesUncertainFile checks that after a failed write, which may have replaced the
// epoch file, the next truncation that removes epochs writes the file again.
func TestTruncationReplacesUncertainFile(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	store := openStore(t, fault)
	log := createLog(t, store, settings(nil))
	fill(t, log, 5)
	if err := errors.Join(log.epochs.SaveDue(), log.Lead(7)); err != nil {
		t.Fatal(err)
	}
	fault.Inject(vfs.Rule{Op: vfs.OpSyncDir, Name: "tickets-0", Times: 1, Err: syscall.EIO})
	if err := log.epochs.SaveDue(); !errors.Is(err, ErrStorage) {
		t.Fatal(err)
	}
	if got := savedEpochs(t, mem); got.Latest() != 7 {
		t.Fatalf("the file contains %v", got)
	}
	if err := log.TruncateTo(5); err != nil {
		t.Fatal(err)
	}
	if got := savedEpochs(t, mem); got.Latest() == 7 || got.Latest() != log.LeaderEpoch() {
		t.Errorf("after the truncation the file contains %v, the log %d", got, log.LeaderEpoch())
	}
}

// TestRestartedLogForgetsSavedEpochs checks that after a log was emptied and restarted, a crash
// does not restore the epochs of its removed records: they would contradict the epochs of the
// records that are copied afterwards.
func TestRestartedLogForgetsSavedEpochs(t *testing.T) {
	mem, _, log := ledLog(t)
	if err := errors.Join(log.epochs.SaveDue(), log.StartAt(30)); err != nil {
		t.Fatal(err)
	}
	b := record.Batch(keyed(t, "a"))
	b.SetBaseOffset(30)
	b.SetLeaderEpoch(2) // below the removed epochs
	if err := errors.Join(log.AppendReplicated(b, epoch0), log.disk.Flush()); err != nil {
		t.Fatal(err)
	}
	for seed := range uint64(20) {
		got := openStore(t, mem.CrashClonePartly(seed)).Logs()[0]
		if got.LogEnd() > 30 && got.EpochAt(30) != 2 || got.LeaderEpoch() > 2 {
			t.Errorf("seed %d: epochs %v", seed, got.epochs.Load())
		}
	}
}

// TestAppendsContinueDuringWriteOfEpochs checks that while the epoch file is being written, appends
// and new leader epochs do not wait.
func TestAppendsContinueDuringWriteOfEpochs(t *testing.T) {
	disk := &stuckDisk{FS: vfs.NewMem()}
	_, log := swapLog(t, disk)
	if err := log.Lead(9); err != nil {
		t.Fatal(err)
	}
	hung := disk.hold(vfs.OpSync, checkpoint.EpochsFile+vfs.TemporarySuffix)
	written := make(chan error)
	go func() { written <- log.epochs.SaveDue() }()
	<-hung.reached
	fill(t, log, 3)
	if err := log.Lead(10); err != nil {
		t.Fatal(err)
	}
	close(hung.free)
	if err := <-written; err != nil {
		t.Fatal(err)
	}
	if got := savedEpochs(t, disk); got.Latest() != 9 || log.LeaderEpoch() != 10 {
		t.Errorf("the file contains %v, the log %d", got, log.LeaderEpoch())
	}
	log.mu.Lock()
	from := log.epochs.UnsavedFromLocked()
	log.mu.Unlock()
	if from != log.LogEnd() {
		t.Errorf("the first unsaved epoch starts at %d, want %d", from, log.LogEnd())
	}
}

// TestFailedWriteOfEpochsIsRepeated checks that a failure to write epoch files is logged and
// repeated, and the log stays available.
func TestFailedWriteOfEpochsIsRepeated(t *testing.T) {
	mem := vfs.NewMem()
	fault := vfs.NewFault(mem)
	var out strings.Builder
	store, err := Open(Options{FS: fault, Dir: dataDir,
		Logger: slog.New(slog.NewTextHandler(&out, nil)), FlushInterval: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	defer store.Close()
	log := createLog(t, store, settings(nil))
	if err := log.Lead(7); err != nil {
		t.Fatal(err)
	}
	fault.Inject(vfs.Rule{Op: vfs.OpCreate, Name: checkpoint.EpochsFile + "*", Err: syscall.ENOSPC})
	store.tick(epoch0, false)
	store.tick(epoch0.Add(epochfile.Delay), false)
	if !strings.Contains(out.String(), "failed to write checkpoints") {
		t.Errorf("logged: %s", out.String())
	}
	fill(t, log, 1)
	fault.Clear()
	store.tick(epoch0.Add(2*epochfile.Delay), false)
	if got := savedEpochs(t, mem); got.Latest() != log.LeaderEpoch() {
		t.Errorf("the file contains %v", got)
	}
}
