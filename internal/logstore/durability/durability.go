// Package durability tracks which part of a log is on disk, and syncs the rest (Disk).
//
// # Locks
//
// Commit and Flush acquire locks of the log, Log.maintain before Log.mu. They hold Log.mu only
// while they read and change offsets, so appends continue while files are synced.
package durability

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/fault"
	"heartwood.dev/heartwood/internal/logstore/offsets"
	"heartwood.dev/heartwood/internal/logstore/parallel"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/snapshots"
)

// Disk tracks which part of a log is on disk, and syncs the rest. Its offsets are ordered:
//
//	sealedEnd <= checkpointed <= recoveryPoint <= synced <= log end
//
// Log.mu guards the offsets and unsealed. The caller of a method whose name ends with Locked holds
// Log.mu. synced and sealedEnd are also read without the lock; unsynced and syncs need no lock.
// Only a truncation lowers the offsets.
type Disk struct {
	Log Env
	// synced is the end offset of the synced records.
	synced atomic.Int64
	// recoveryPoint is the offset below which recovery does not have to scan: the records below it
	// are synced, and their segments are sealed.
	recoveryPoint int64
	// checkpointed is the recovery point in the checkpoint on disk (Store.save).
	checkpointed int64
	// unsealed contains the rolled segments that the next flush seals, oldest first.
	unsealed []unsealed
	// sealedEnd is the offset below which segments may be cleaned: min(checkpointed, base of
	// unsealed[0]). A roll updates it before it publishes the segment list with the rolled segment
	// (Compaction.limits).
	sealedEnd atomic.Int64
	// unsynced is the number of bytes that were appended since the last flush, or since the last
	// sync that was requested because this number was too large.
	unsynced atomic.Int64
	// syncs counts the syncs by commits and flushes, including the seals of rolled segments. Only
	// the metrics use it.
	syncs syncMeter
}

// Env contains the functions and values of a log that its Disk uses.
type Env struct {
	ID           checkpoint.PartitionID
	Logger       *slog.Logger
	List         *segmentlist.Current
	Offsets      *offsets.Offsets
	Snapshots    *snapshots.Files
	Fault        *fault.State
	Truncations  *atomic.Int64
	Maintain, Mu sync.Locker // Log.maintain and Log.mu
}

// syncMeter counts the syncs of a log and measures their duration. Neither value ever falls.
type syncMeter struct {
	count atomic.Int64
	spent atomic.Int64 // nanoseconds of wall-clock time
}

func (m *syncMeter) add(took time.Duration) {
	m.spent.Add(int64(took))
	m.count.Add(1)
}

// unsealed is a rolled segment that is not sealed yet.
type unsealed struct {
	segment *segmentlist.Handle
	end     int64 // end offset, which is the base offset of the next segment
	// state is the encoded producer state at end. It is nil for a segment that recovery found,
	// because recovery no longer has the producer state at end.
	state []byte
}

// Start sets the state of a recovered log with the end offset end and the recovery point
// checkpointed on disk. Records that a scan has read are durable, because segment.Recover syncs
// them. If a segment's rebuilt indexes did not fit onto a full disk, a later flush seals the
// segment. Until then the recovery point stays at the segment's base offset.
func (d *Disk) Start(handles []*segmentlist.Handle, end, checkpointed int64) {
	d.recoveryPoint = end
	for i, h := range handles[:len(handles)-1] {
		if h.NeedsSeal() {
			d.unsealed = append(d.unsealed, unsealed{segment: h, end: handles[i+1].Base()})
			d.recoveryPoint = d.unsealed[0].segment.Base()
		}
	}
	if active := handles[len(handles)-1]; active.Unsynced() {
		// The end of the active segment could not be rewritten. The next flush rewrites and syncs
		// it.
		d.recoveryPoint = min(d.recoveryPoint, active.Base())
	}
	d.synced.Store(d.recoveryPoint)
	d.checkpointed = min(max(checkpointed, 0), d.recoveryPoint)
	d.settle()
}

// Synced returns the end of the synced records.
func (d *Disk) Synced() int64 { return d.synced.Load() }

// SealedEnd returns the offset below which segments may be cleaned.
func (d *Disk) SealedEnd() int64 { return d.sealedEnd.Load() }

// Syncs returns the number and the total duration of the syncs by commits and flushes, including
// the seals of rolled segments.
func (d *Disk) Syncs() (count int64, spent time.Duration) {
	return d.syncs.count.Load(), time.Duration(d.syncs.spent.Load())
}

// AddUnsynced adds the number of bytes of an append.
func (d *Disk) AddUnsynced(n int) { d.unsynced.Add(int64(n)) }

// NeedsSync reports whether more than bytesMax bytes are unsynced. If so, it reports true again
// only after bytesMax more bytes.
func (d *Disk) NeedsSync(bytesMax int64) bool {
	if d.unsynced.Load() <= bytesMax {
		return false
	}
	d.unsynced.Store(0)
	return true
}

// CheckpointedLocked returns the recovery point in the checkpoint on disk.
func (d *Disk) CheckpointedLocked() int64 { return d.checkpointed }

// RecoveryPointLocked returns the offset below which recovery does not have to scan.
func (d *Disk) RecoveryPointLocked() int64 { return d.recoveryPoint }

// SavedRecoveryPointLocked returns the recovery point for the checkpoint. It is at most
// unsavedFrom, the start of an unsaved leader epoch, because a start finds that epoch only in the
// batches that it scans.
func (d *Disk) SavedRecoveryPointLocked(unsavedFrom int64) int64 {
	return max(min(d.recoveryPoint, unsavedFrom), d.checkpointed)
}

// CheckpointedToLocked stores that a recovery point is on disk. The cleaner may clean a segment
// only once the recovery point on disk is at or above the segment's end. Cleaning leaves gaps
// between segments, and recovery treats a gap above the recovery point on disk as lost data (ADR
// 0015). A truncation may have lowered d.recoveryPoint after the given recovery point was read, so
// the lower of the two values is stored.
func (d *Disk) CheckpointedToLocked(recoveryPoint int64) {
	d.checkpointed = min(recoveryPoint, d.recoveryPoint)
	d.settle()
}

// RolledLocked adds a segment that the next flush seals, with the segment's end offset and the
// encoded producer state at this offset.
func (d *Disk) RolledLocked(segment *segmentlist.Handle, end int64, state []byte) {
	d.unsealed = append(d.unsealed, unsealed{segment: segment, end: end, state: state})
	d.settle()
}

// ForgetLocked removes the matching segments from the unsealed segments, because their files were
// deleted.
func (d *Disk) ForgetLocked(match func(*segmentlist.Handle) bool) {
	d.unsealed = slices.DeleteFunc(slices.Clone(d.unsealed),
		func(u unsealed) bool { return match(u.segment) })
	d.settle()
}

// TruncateLocked lowers all offsets to at most end. A truncation calls it before it lowers the log
// end. Records that are appended above end afterwards are then not treated as synced, even if a
// sync that began earlier reports success.
func (d *Disk) TruncateLocked(end int64) {
	d.synced.Store(min(d.synced.Load(), end))
	d.recoveryPoint = min(d.recoveryPoint, end)
	d.checkpointed = min(d.checkpointed, end)
	d.settle()
}

// RestartLocked sets the state of a log that was emptied and starts at the given offset. An empty
// log is synced.
func (d *Disk) RestartLocked(offset int64) {
	d.TruncateLocked(offset)
	d.unsealed, d.recoveryPoint = nil, offset
	d.synced.Store(offset)
	d.settle()
}

// settle computes and stores sealedEnd after a change of checkpointed or unsealed.
func (d *Disk) settle() {
	end := d.checkpointed
	if len(d.unsealed) > 0 {
		end = min(end, d.unsealed[0].segment.Base())
	}
	d.sealedEnd.Store(end)
}

// syncedTo stores that everything below end is synced. If all rolled segments are sealed, it also
// raises the recovery point to end. It must not do so while a segment is unsealed, because recovery
// opens a segment below the recovery point without a scan.
func (d *Disk) syncedTo(end int64) {
	d.synced.Store(max(d.synced.Load(), end))
	if len(d.unsealed) == 0 && end > d.recoveryPoint {
		d.recoveryPoint = end
		d.settle()
	}
}

// sealed stores that a flush has sealed the first count segments in d.unsealed, and has synced
// everything below end.
func (d *Disk) sealed(count int, end int64) {
	d.unsealed = slices.Clone(d.unsealed[count:])
	point := end
	if rest := d.unsealed; len(rest) > 0 && rest[0].end <= end {
		// The segment that was active when the flush began was rolled exactly at end, and is not
		// sealed. Recovery has to scan this segment, so the recovery point is at most the segment's
		// base offset.
		point = rest[0].segment.Base()
	}
	// A concurrent commit may already have raised the recovery point above point.
	d.recoveryPoint = max(d.recoveryPoint, point)
	d.syncedTo(end)
	d.settle()
}

// sealersMax is the maximum number of segments of a log that are sealed concurrently. Fewer
// segments than this are sealed one after the other.
const sealersMax = 16

// Commit makes all records that were appended before the call durable. One sync covers all appends
// since the previous sync, and appends continue during the sync. Unlike Flush, Commit seals no
// segment and does not acquire Log.maintain. A producer therefore waits only for a sync of its log,
// and never for a swap by the cleaner.
//
// Segment.Sync runs one sync of a segment at a time. If two syncs ran concurrently and the first
// one failed, the second one might still return success for data that the kernel has dropped.
func (d *Disk) Commit() error {
	d.Log.Mu.Lock()
	end, truncations := d.Log.Offsets.LogEnd(), d.Log.Truncations.Load()
	stopped := d.Log.Fault.StoppedLocked()
	list := d.Log.List.Acquire() // a roll needs Log.mu, so this list contains everything below end
	d.Log.Mu.Unlock()
	if list == nil {
		return segmentlist.ErrClosed
	}
	defer list.Release()
	if stopped != nil || end <= d.synced.Load() {
		return stopped
	}
	began := time.Now()
	for _, h := range list.Handles[list.Floor(d.synced.Load()):] {
		if err := h.Sync(); err != nil {
			return d.Log.Fault.SyncFailed(h, err)
		}
	}
	d.syncs.add(time.Since(began))
	d.Log.Mu.Lock()
	defer d.Log.Mu.Unlock()
	if d.Log.Truncations.Load() != truncations {
		return nil // unsynced records may have been appended below end since the truncation
	}
	d.syncedTo(end)
	return nil
}

// Flush makes all records that were appended before the call durable, and moves the recovery point
// to their end. A failed sync stops the log: the kernel may have dropped the pages that it could
// not write, and would report success the next time.
func (d *Disk) Flush() error {
	d.Log.Maintain.Lock()
	defer d.Log.Maintain.Unlock()
	d.Log.Mu.Lock()
	stopped := d.Log.Fault.StoppedLocked() != nil
	d.Log.Mu.Unlock()
	if stopped {
		return nil
	}
	return d.FlushMaintained()
}

// FlushMaintained is like Flush, but for callers that hold Log.maintain.
//
// Appends continue concurrently. The sync may also cover records that are appended during the
// flush, but the recovery point does not rise above end, the log end when the flush began. If an
// append rolls the active segment meanwhile, the last element of handles is still that segment, so
// its sync covers everything below end. The next flush seals that segment.
func (d *Disk) FlushMaintained() error {
	d.unsynced.Store(0)
	d.Log.Mu.Lock()
	handles := d.Log.List.Handles()
	end, rolled := d.Log.Offsets.LogEnd(), slices.Clone(d.unsealed)
	checkpointed := d.checkpointed
	done := handles == nil || end == d.recoveryPoint && len(rolled) == 0
	d.Log.Mu.Unlock()
	d.WritePendingSnapshot(handles)
	if done {
		return nil
	}
	began := time.Now()
	// No segment can be removed meanwhile, because that requires Log.maintain.
	if err := d.sealAll(rolled); err != nil {
		return err
	}
	active := handles[len(handles)-1]
	if err := active.Sync(); err != nil {
		return d.Log.Fault.SyncFailed(active, err)
	}
	d.syncs.add(time.Since(began))
	if len(rolled) > 0 {
		if err := d.Log.Snapshots.Prune(handles,
			scannedFrom(handles, checkpointed)); err != nil {
			d.Log.Logger.Warn("failed to remove old producer snapshots", "partition", d.Log.ID, "error",
				err)
		}
	}
	d.Log.Mu.Lock()
	defer d.Log.Mu.Unlock()
	d.sealed(len(rolled), end)
	return nil
}

// WritePendingSnapshot writes a producer snapshot that could not be written earlier because the
// disk was full. The caller holds Log.maintain.
func (d *Disk) WritePendingSnapshot(handles []*segmentlist.Handle) {
	if len(handles) == 0 {
		return
	}
	if err := d.Log.Snapshots.WritePending(handles[0].Base()); err != nil {
		d.Log.Logger.Warn("failed to write a producer snapshot", "partition", d.Log.ID, "error", err)
	}
}

// sealAll seals rolled segments. If there are many, it seals several concurrently: each segment
// needs seven syncs, and a file system commits concurrent syncs together. Sealing the 10,000
// unsealed segments of a log one after the other would delay a shutdown for more than ten seconds.
func (d *Disk) sealAll(rolled []unsealed) error {
	if len(rolled) < sealersMax {
		for _, u := range rolled {
			if err := d.seal(u); err != nil {
				return err
			}
		}
		return nil
	}
	var failed atomic.Pointer[error]
	parallel.Each(rolled, sealersMax, func(u unsealed) {
		if failed.Load() != nil {
			return
		}
		if err := d.seal(u); err != nil {
			failed.CompareAndSwap(nil, &err)
		}
	})
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
}

// seal seals a rolled segment and writes the producer snapshot at its end. If the disk is full or
// no file descriptor is available, the next flush retries. The recovery point does not advance
// until the segment is sealed.
func (d *Disk) seal(u unsealed) error {
	if err := u.segment.Sync(); err != nil {
		return d.Log.Fault.SyncFailed(u.segment, err)
	}
	err := u.segment.Seal()
	if err != nil && !segmentlist.IsTemporary(err) {
		return d.Log.Fault.SealFailed(err)
	}
	if err == nil && u.state != nil {
		err = d.Log.Snapshots.Write(u.end, u.state)
	}
	if err != nil {
		return fmt.Errorf("%w: seal segment %d: %w", segmentlist.ErrStorage, u.segment.Base(), err)
	}
	return nil
}

// scannedFrom returns the offset from which recovery scans after a crash: the base offset of the
// segment that contains the recovery point on disk.
func scannedFrom(handles []*segmentlist.Handle, checkpointed int64) int64 {
	from := handles[0].Base()
	for _, h := range handles {
		if h.Base() <= checkpointed {
			from = h.Base()
		}
	}
	return from
}

// SyncIdleIndexes syncs the active segment's indexes if nothing was added to them since the
// previous call. Only synced files can be closed. A rolled segment needs no such sync, because the
// next flush seals it.
func (d *Disk) SyncIdleIndexes() error {
	d.Log.Maintain.Lock()
	defer d.Log.Maintain.Unlock()
	list := d.Log.List.Acquire()
	if list == nil {
		return nil
	}
	defer list.Release()
	if err := list.Active().SyncIdleIndexes(); err != nil {
		return d.Log.Fault.SyncFailed(list.Active(), err)
	}
	return nil
}
