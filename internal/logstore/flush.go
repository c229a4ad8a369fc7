package logstore

import (
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// sealersMax is the maximum number of segments of a log that are sealed concurrently. If there are
// fewer, they are sealed one after the other.
const sealersMax = 16

// flush makes all records durable that were appended before the call, and moves the recovery point
// to their end. A failed sync stops the log: the kernel may have dropped the pages that it could
// not write, and would report success the next time.
func (l *Log) flush() error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	stopped := l.fault.StoppedLocked() != nil
	l.mu.Unlock()
	if stopped {
		return nil
	}
	return l.flushMaintained()
}

// flushMaintained does the same as flush, for callers that hold Log.maintain.
//
// Appends continue concurrently. The sync may also cover records that are appended during the
// flush, but the recovery point does not rise above end, the log end when the flush began. If an
// append rolls the active segment meanwhile, the last element of handles is still that segment, so
// its sync covers everything below end. The next flush seals that segment.
func (l *Log) flushMaintained() error {
	l.unsynced.Store(0)
	l.mu.Lock()
	handles := l.list.Handles()
	end, rolled := l.offsets.LogEnd(), slices.Clone(l.disk.unsealed)
	checkpointed := l.disk.checkpointed
	done := handles == nil || end == l.disk.recoveryPoint && len(rolled) == 0
	l.mu.Unlock()
	l.writePendingSnapshot(handles)
	if done {
		return nil
	}
	began := time.Now()
	// No segment can be removed meanwhile, because that requires Log.maintain.
	if err := l.sealAll(rolled); err != nil {
		return err
	}
	active := handles[len(handles)-1]
	if err := active.Sync(); err != nil {
		return l.fault.SyncFailed(active, err)
	}
	l.syncs.add(time.Since(began))
	if len(rolled) > 0 {
		if err := l.snapshots.Prune(handles,
			scannedFrom(handles, checkpointed)); err != nil {
			l.env.logger.Warn("failed to remove old producer snapshots", "partition", l.id, "error",
				err)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disk.sealed(len(rolled), end)
	return nil
}

// writePendingSnapshot writes the producer snapshot that could not be written earlier because the
// disk was full. The caller holds Log.maintain.
func (l *Log) writePendingSnapshot(handles []*segmentlist.Handle) {
	if len(handles) == 0 {
		return
	}
	if err := l.snapshots.WritePending(handles[0].Base()); err != nil {
		l.env.logger.Warn("failed to write a producer snapshot", "partition", l.id, "error", err)
	}
}

// sealAll seals rolled segments. If there are many, it seals several concurrently: each needs seven
// syncs, and a file system commits concurrent syncs together. One after the other, those of a log
// with 10,000 unsealed segments would delay a shutdown for more than ten seconds.
func (l *Log) sealAll(rolled []unsealed) error {
	if len(rolled) < sealersMax {
		for _, u := range rolled {
			if err := l.seal(u); err != nil {
				return err
			}
		}
		return nil
	}
	var failed atomic.Pointer[error]
	inParallel(rolled, sealersMax, func(u unsealed) {
		if failed.Load() != nil {
			return
		}
		if err := l.seal(u); err != nil {
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
func (l *Log) seal(u unsealed) error {
	if err := u.segment.Sync(); err != nil {
		return l.fault.SyncFailed(u.segment, err)
	}
	err := u.segment.Seal()
	if err != nil && !segmentlist.IsTemporary(err) {
		return l.fault.SealFailed(err)
	}
	if err == nil && u.state != nil {
		err = l.snapshots.Write(u.end, u.state)
	}
	if err != nil {
		return fmt.Errorf("%w: seal segment %d: %w", ErrStorage, u.segment.Base(), err)
	}
	return nil
}

// noteCheckpointed stores that the recovery point is on disk. The cleaner may clean a segment only
// after the recovery point on disk has passed it. Cleaning leaves gaps between segments, and
// recovery treats a gap above the recovery point on disk as lost data (ADR 0015).
func (l *Log) noteCheckpointed(recoveryPoint int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disk.checkpointedTo(recoveryPoint)
	if l.mu.truncation != nil && l.mu.truncation.checkpointsDue {
		// The checkpoints on disk were computed after the truncation, so they describe the log as
		// it is now.
		l.mu.truncation = nil
	}
}

// checkpointState returns the values that the checkpoint files store for this log.
func (l *Log) checkpointState() checkpoint.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	aborted, recoveryPoint := l.mu.aborted, l.savedRecoveryPointLocked()
	if handles := l.list.Handles(); handles != nil {
		aborted = countAborted(handles, recoveryPoint)
	}
	state := checkpoint.State{Aborted: aborted, LogStart: l.offsets.LogStart(),
		RecoveryPoint: recoveryPoint, HighWatermark: l.offsets.HighWatermark()}
	l.compaction.AddTo(&state)
	return l.mu.truncation.apply(state)
}

// savedRecoveryPointLocked returns the recovery point that the checkpoint stores. It does not
// exceed the start of an unsaved leader epoch, because a start finds that epoch only in the batches
// that it scans. The caller holds Log.mu.
func (l *Log) savedRecoveryPointLocked() int64 {
	return max(min(l.disk.recoveryPoint, l.epochs.UnsavedFromLocked()), l.disk.checkpointed)
}

// countAborted returns the number of aborted transactions in each transaction index, in ascending
// order of the segments' base offsets. It includes only segments that are wholly below an offset
// and have such an index.
func countAborted(handles []*segmentlist.Handle, below int64) (counts checkpoint.AbortedCounts) {
	for i, h := range handles {
		if i+1 < len(handles) && handles[i+1].Base() > below || i+1 == len(handles) &&
			h.NextOffset() > below {
			break
		}
		if n := h.AbortedCount(); n > 0 {
			counts = append(counts, checkpoint.AbortedCount{Base: h.Base(), Count: n})
		}
	}
	return counts
}

// close closes the log. It syncs all records, writes the indexes and the producer snapshot at the
// log end, and closes the files once the last Slice is released. If it fails, the next start has to
// scan the log.
//
// The active segment is sealed here and not by its last reader. A reader may release the segment
// after the clean-shutdown marker is written, or never, and the marker promises that the index
// files are complete.
func (l *Log) close() error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	failed := l.fault.StoppedLocked()
	l.fault.CloseLocked()
	// The producer state is encoded under the same lock that ends appends, so it is the final state
	// at logEnd.
	state := l.mu.producers.Encode(l.offsets.LogEnd())
	l.mu.Unlock()

	err := failed
	if err == nil {
		err = l.flushMaintained()
	}
	if list := l.list.Load(); err == nil && list != nil {
		// The active segment cannot change: Log.maintain is held, and appends have ended.
		err = list.Active().Seal()
	}
	if err == nil {
		err = l.snapshots.Write(l.offsets.LogEnd(), state)
	}
	if err == nil {
		err = l.epochs.Save()
	}
	l.unpublish(func(handles []*segmentlist.Handle) {
		if err == nil {
			l.closed = summarize(handles, l.epochs.Load())
		}
	})
	return err
}

// discard closes the log of a partition whose directory will be deleted. Unlike close it writes and
// syncs nothing: the disk may be busy for seconds, and none of the data is needed.
func (l *Log) discard() {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	l.fault.CloseLocked()
	l.mu.Unlock()
	l.unpublish(func(handles []*segmentlist.Handle) {
		for _, h := range handles {
			h.Abandon()
		}
	})
}

// unpublish removes the segment list of a log that is being closed, and releases its segments. It
// first calls last with them, if the log has a list. The caller holds Log.maintain.
func (l *Log) unpublish(last func(handles []*segmentlist.Handle)) {
	l.mu.Lock()
	l.mu.aborted = countAborted(l.list.Handles(), l.disk.recoveryPoint)
	old := l.list.Publish(nil)
	l.compaction.Sidecars.Spools.DiscardAllLocked()
	l.mu.Unlock()
	if old == nil {
		return
	}
	last(old.Handles)
	for _, h := range old.Handles {
		// Release may rename the directory next, and another log may then use its name
		h.Freeze()
	}
	old.Release()
}

// scannedFrom returns the offset at which recovery begins to scan after a crash: the base offset of
// the segment that contains the recovery point on disk.
func scannedFrom(handles []*segmentlist.Handle, checkpointed int64) int64 {
	from := handles[0].Base()
	for _, h := range handles {
		if h.Base() <= checkpointed {
			from = h.Base()
		}
	}
	return from
}

// durability tracks how much of a log is on disk. Its offsets are ordered:
//
//	sealedEnd <= checkpointed <= recoveryPoint <= synced <= log end
//
// Log.mu guards every field, and the caller of each method holds it. synced and sealedEnd are also
// read without the lock. The offsets fall only by a truncation.
type durability struct {
	// synced is the end of the synced records.
	synced atomic.Int64
	// recoveryPoint is the offset below which recovery need not scan: the records below it are
	// synced, and their segments are sealed.
	recoveryPoint int64
	// checkpointed is the recovery point in the checkpoint on disk (Store.save).
	checkpointed int64
	// unsealed are rolled segments that the next flush seals, oldest first.
	unsealed []unsealed
	// sealedEnd is the offset below which segments may be cleaned: min(checkpointed, base of
	// unsealed[0]). A roll updates it before it publishes the segment list with the rolled segment
	// (Compaction.limits).
	sealedEnd atomic.Int64
}

// unsealed is a rolled segment that is not sealed yet.
type unsealed struct {
	segment *segmentlist.Handle
	end     int64 // end offset, which is the base offset of the next segment
	// state is the encoded producer state as of end; nil for a segment that recovery found, because
	// recovery no longer has the producer state as of end.
	state []byte
}

// start sets the state that recovery found. rolled are the rolled segments that are not sealed.
func (d *durability) start(recoveryPoint, checkpointed int64, rolled []unsealed) {
	d.unsealed, d.recoveryPoint = rolled, recoveryPoint
	d.synced.Store(recoveryPoint)
	d.checkpointed = min(max(checkpointed, 0), recoveryPoint)
	d.settle()
}

// settle computes and stores sealedEnd after a change of checkpointed or unsealed.
func (d *durability) settle() {
	end := d.checkpointed
	if len(d.unsealed) > 0 {
		end = min(end, d.unsealed[0].segment.Base())
	}
	d.sealedEnd.Store(end)
}

// syncedTo notes that everything below end is synced. If all rolled segments are sealed, it also
// raises the recovery point to end. It must not do so while a segment is unsealed, because recovery
// opens a segment below the recovery point without a scan.
func (d *durability) syncedTo(end int64) {
	d.synced.Store(max(d.synced.Load(), end))
	if len(d.unsealed) == 0 && end > d.recoveryPoint {
		d.recoveryPoint = end
		d.settle()
	}
}

// sealed notes that a flush has sealed the first count segments of the list d.unsealed. The flush
// has also synced everything below the offset end.
func (d *durability) sealed(count int, end int64) {
	d.unsealed = slices.Clone(d.unsealed[count:])
	point := end
	if rest := d.unsealed; len(rest) > 0 && rest[0].end <= end {
		// The segment that was active when the flush began was rolled exactly at end, and is not
		// sealed. Recovery has to scan this segment, so the recovery point is at most its base
		// offset.
		point = rest[0].segment.Base()
	}
	// A concurrent commit may already have raised the recovery point above point.
	d.recoveryPoint = max(d.recoveryPoint, point)
	d.syncedTo(end)
	d.settle()
}

// checkpointedTo notes that a recovery point is on disk. A truncation may have lowered
// d.recoveryPoint after the given recovery point was read, so the lower of the two is stored.
func (d *durability) checkpointedTo(recoveryPoint int64) {
	d.checkpointed = min(recoveryPoint, d.recoveryPoint)
	d.settle()
}

// rolled adds a segment that the next flush seals.
func (d *durability) rolled(u unsealed) {
	d.unsealed = append(d.unsealed, u)
	d.settle()
}

// forget removes the unsealed segments that match, because their files were deleted.
func (d *durability) forget(match func(unsealed) bool) {
	d.unsealed = slices.DeleteFunc(slices.Clone(d.unsealed), match)
	d.settle()
}

// truncate lowers all offsets to at most the offset end. A truncation calls it before it lowers the
// log end. Records that are appended above this offset afterwards are then not treated as synced,
// even if a sync that began earlier reports success.
func (d *durability) truncate(end int64) {
	d.synced.Store(min(d.synced.Load(), end))
	d.recoveryPoint = min(d.recoveryPoint, end)
	d.checkpointed = min(d.checkpointed, end)
	d.settle()
}

// restart sets the state of a log that starts again, empty, at an offset. An empty log is synced.
func (d *durability) restart(offset int64) {
	d.truncate(offset)
	d.unsealed, d.recoveryPoint = nil, offset
	d.synced.Store(offset)
	d.settle()
}
