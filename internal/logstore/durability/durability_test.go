package durability

import (
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/fault"
	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/snapshots"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/vfs"
	"heartwood.dev/heartwood/test/kit/storetest"
)

const dir = "/data/tickets-0"

// fixture is a log that consists only of the parts that a Disk uses.
type fixture struct {
	t         *testing.T
	disk      Disk
	fsys      *vfs.Fault
	files     swap.Dir
	list      segmentlist.Current
	offsets   offsets.Offsets
	snapshots snapshots.Files
	producers producer.State
	fault     fault.State
	failures  int
	truncated atomic.Int64

	maintain, mu sync.Mutex
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	f := &fixture{t: t, fsys: vfs.NewFault(vfs.NewMem())}
	if err := f.fsys.MkdirAll(dir); err != nil {
		t.Fatal(err)
	}
	logger := slog.New(slog.DiscardHandler)
	f.files = swap.Dir{FS: f.fsys, Path: dir, Logger: logger,
		Config: segment.Config{Handles: vfs.NewHandles(f.fsys, 100)}}
	f.snapshots = snapshots.New(f.files)
	id := checkpoint.PartitionID{Topic: "tickets"}
	f.fault = fault.State{ID: id, Logger: logger, Mu: &f.mu,
		Failed: func(checkpoint.PartitionID, error) { f.failures++ }}
	f.disk.Log = Env{ID: id, Logger: logger, List: &f.list, Offsets: &f.offsets,
		Snapshots: &f.snapshots, Fault: &f.fault, Truncations: &f.truncated,
		Maintain: &f.maintain, Mu: &f.mu}
	f.offsets.Restore(0, 0, 0, &f.producers)
	active, err := f.files.Create(0, f.files.Config)
	if err != nil {
		t.Fatal(err)
	}
	f.list.Publish([]*segmentlist.Handle{active})
	f.disk.Start(f.list.Handles(), 0, 0)
	t.Cleanup(func() {
		if list := f.list.Publish(nil); list != nil {
			list.Release()
		}
	})
	return f
}

// appendRecords appends records, and roll begins a segment, as a log does.
func (f *fixture) appendRecords(n int) {
	f.t.Helper()
	for range n {
		batch := record.Batch(storetest.Keyed(f.t, fmt.Sprintf("k%d", f.offsets.LogEnd())))
		batch.SetBaseOffset(f.offsets.LogEnd())
		if err := f.list.Load().Active().Append(batch); err != nil {
			f.t.Fatal(err)
		}
		f.offsets.SetLogEnd(batch.NextOffset())
	}
}

func (f *fixture) roll() {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	end, old := f.offsets.LogEnd(), f.list.Load().Active()
	next, err := f.files.Create(end, f.files.Config)
	if err != nil {
		f.t.Fatal(err)
	}
	f.disk.RolledLocked(old, end, f.producers.Encode(end))
	f.list.Publish(append(f.list.Handles(), next)).Release()
}

// want checks the offsets of the Disk: sealed end, recovery point and synced end.
func (f *fixture) want(step string, sealed, recovery, synced int64) {
	f.t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.disk.SealedEnd() != sealed || f.disk.RecoveryPointLocked() != recovery ||
		f.disk.Synced() != synced {
		f.t.Errorf("%s: sealed end %d, recovery point %d, synced %d; want %d, %d, %d", step,
			f.disk.SealedEnd(), f.disk.RecoveryPointLocked(), f.disk.Synced(), sealed, recovery,
			synced)
	}
}

func (f *fixture) checkpointed() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.disk.CheckpointedToLocked(f.disk.SavedRecoveryPointLocked(1 << 60))
}

// TestFlushAndCheckpointMoveTheOffsets checks that a commit syncs, a flush also seals, and only a
// checkpoint permits cleaning.
func TestFlushAndCheckpointMoveTheOffsets(t *testing.T) {
	f := newFixture(t)
	f.appendRecords(5)
	f.roll()
	f.appendRecords(2)
	if err := f.disk.Commit(); err != nil {
		t.Fatal(err)
	}
	f.want("after a commit", 0, 0, 7)
	if err := f.disk.Flush(); err != nil {
		t.Fatal(err)
	}
	f.want("after a flush", 0, 7, 7)
	if _, err := f.fsys.Stat(filepath.Join(dir,
		segment.Name(5, swap.SnapshotSuffix, ""))); err != nil {
		t.Errorf("no producer snapshot at the end of the sealed segment: %v", err)
	}
	f.checkpointed()
	f.want("after a checkpoint", 7, 7, 7)
	if count, spent := f.disk.Syncs(); count != 2 || spent < 0 {
		t.Errorf("%d syncs in %v", count, spent)
	}
}

// TestTruncationLowersACheckpointInFlight truncates the log after the state for a checkpoint was
// read and before the checkpoint is written. The written checkpoint must not permit cleaning above
// the new log end.
func TestTruncationLowersACheckpointInFlight(t *testing.T) {
	f := newFixture(t)
	f.appendRecords(20)
	if err := f.disk.Flush(); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	before := f.disk.SavedRecoveryPointLocked(1 << 60)
	f.disk.TruncateLocked(12)
	f.disk.CheckpointedToLocked(before)
	f.mu.Unlock()
	f.want("after the truncation", 12, 12, 12)
	f.mu.Lock()
	if point := f.disk.SavedRecoveryPointLocked(3); point != 12 {
		t.Errorf("the recovery point falls to %d below the one on disk", point)
	}
	f.disk.RestartLocked(40)
	f.mu.Unlock()
	f.want("after a restart of the log", 12, 40, 40)
}

// TestFailedSyncStopsTheLog checks that a failed sync stops the log, because the kernel may have
// dropped the pages. A full disk does not stop the log: the next flush seals the segment.
func TestFailedSyncStopsTheLog(t *testing.T) {
	f := newFixture(t)
	f.appendRecords(5)
	f.roll()
	f.fsys.Inject(vfs.Rule{Op: vfs.OpCreate, Name: "*.timeindex", Err: syscall.ENOSPC})
	f.fsys.Inject(vfs.Rule{Op: vfs.OpWrite, Name: "*.timeindex", Err: syscall.ENOSPC})
	if err := f.disk.Flush(); err == nil {
		t.Error("a flush without room for an index succeeds")
	}
	f.want("on a full disk", 0, 0, 0)
	f.fsys.Clear()
	if err := f.disk.Flush(); err != nil || f.failures != 0 {
		t.Fatalf("%v, %d failures", err, f.failures)
	}
	f.want("after the disk has room", 0, 5, 5)
	f.appendRecords(1)
	f.fsys.Inject(vfs.Rule{Op: vfs.OpSync, Name: "*.log", Err: syscall.EIO})
	if err := f.disk.Commit(); err == nil || f.failures != 1 {
		t.Errorf("a failed sync: %v, %d failures", err, f.failures)
	}
	f.fsys.Clear()
	if err := f.disk.Commit(); err == nil || f.failures != 1 {
		t.Errorf("after a failed sync: %v, %d failures", err, f.failures)
	}
	f.want("after a failed sync", 0, 5, 5)
}

func TestSyncIsRequestedOncePerAmount(t *testing.T) {
	var d Disk
	for i, want := range []bool{false, false, true, false, false, true} {
		d.AddUnsynced(40)
		if got := d.NeedsSync(100); got != want {
			t.Errorf("after append %d: %t, want %t", i, got, want)
		}
	}
}
