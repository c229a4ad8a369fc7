package logstore

import (
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

// noteCheckpointed stores that the given recovery point is on disk. The cleaner may clean a segment
// only once the recovery point on disk is at or above the segment's end. Cleaning leaves gaps
// between segments, and recovery treats a gap above the recovery point on disk as lost data (ADR
// 0015).
func (l *Log) noteCheckpointed(recoveryPoint int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disk.CheckpointedToLocked(recoveryPoint)
	if l.mu.truncation != nil && l.mu.truncation.checkpointsDue {
		// The checkpoints on disk were computed after the truncation, so they describe the current
		// log.
		l.mu.truncation = nil
	}
}

// checkpointState returns the values that the checkpoint files store for this log.
func (l *Log) checkpointState() checkpoint.State {
	l.mu.Lock()
	defer l.mu.Unlock()
	aborted, recoveryPoint := l.mu.aborted, l.disk.SavedRecoveryPointLocked(
		l.epochs.UnsavedFromLocked())
	if handles := l.list.Handles(); handles != nil {
		aborted = countAborted(handles, recoveryPoint)
	}
	state := checkpoint.State{Aborted: aborted, LogStart: l.offsets.LogStart(),
		RecoveryPoint: recoveryPoint, HighWatermark: l.offsets.HighWatermark()}
	l.compaction.Progress.AddTo(&state)
	return l.mu.truncation.apply(state)
}

// countAborted returns the number of aborted transactions in each transaction index, ordered by the
// segments' base offsets. It includes only segments that are wholly below an offset and have a
// transaction index.
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
// log end, and closes the files once the last Slice has been released. If it fails, the next start
// has to scan the log.
//
// close seals the active segment itself and does not leave this to the segment's last reader. A
// reader may release the segment after the clean-shutdown marker was written, or never, but the
// marker promises that the index files are complete.
func (l *Log) close() error {
	l.compaction.Repairs.End()
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	failed := l.fault.StoppedLocked()
	l.fault.CloseLocked()
	// The producer state is encoded under the lock that ended the appends, so it is the final state
	// at logEnd.
	state := l.mu.producers.Encode(l.offsets.LogEnd())
	l.mu.Unlock()

	err := failed
	if err == nil {
		err = l.disk.FlushMaintained()
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
// syncs nothing: the disk may be busy for seconds, and the data is not needed.
func (l *Log) discard() {
	l.compaction.Repairs.End()
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

// unpublish removes the segment list of a log that is being closed, and releases its segments. If
// the log has a list, it first calls last with the segments. The caller holds Log.maintain.
func (l *Log) unpublish(last func(handles []*segmentlist.Handle)) {
	l.mu.Lock()
	l.mu.aborted = countAborted(l.list.Handles(), l.disk.RecoveryPointLocked())
	old := l.list.Publish(nil)
	l.compaction.Sidecars.Spools.DiscardAllLocked()
	l.mu.Unlock()
	if old == nil {
		return
	}
	last(old.Handles)
	for _, h := range old.Handles {
		// Release may rename the directory next, and another log may then use the directory's name.
		h.Freeze()
	}
	old.Release()
}
