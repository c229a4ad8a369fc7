package logstore

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
)

// flush makes all records durable that were appended before the call, and moves the recovery point
// to their end. A failed sync stops the log: the kernel may have dropped the pages that it could
// not write, and would report success the next time.
func (l *Log) flush() error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	stopped := l.mu.stopped != nil
	l.mu.Unlock()
	if stopped {
		return nil
	}
	return l.flushMaintained()
}

// flushMaintained does the same as flush, for callers that hold Log.maintain.
//
// Appends continue concurrently. Records that they add above end may be synced too, but do not move
// the recovery point. If an append rolls, the last of handles is still the segment that was active
// when end was read, so its sync covers everything below end. The newly rolled segment is queued
// behind the unsealed segments that were read here, so it stays queued for the next flush.
func (l *Log) flushMaintained() error {
	l.unsynced.Store(0)
	l.mu.Lock()
	handles := l.currentLocked()
	end, rolled := l.logEnd.Load(), slices.Clone(l.disk.unsealed)
	checkpointed := l.disk.checkpointed
	done := handles == nil || end == l.disk.recoveryPoint && len(rolled) == 0
	l.mu.Unlock()
	l.writePendingSnapshot(handles)
	if done {
		return nil
	}
	began := time.Now()
	// None of these segments can be removed: removing a segment from the list requires
	// Log.maintain.
	for _, u := range rolled {
		if err := l.seal(u); err != nil {
			return err
		}
	}
	active := handles[len(handles)-1]
	if err := active.Sync(); err != nil {
		return l.syncFailed(active, err)
	}
	l.syncs.add(time.Since(began))
	if len(rolled) > 0 {
		if err := l.snapshots.prune(handles,
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
// disk was full. Log.maintain is held.
func (l *Log) writePendingSnapshot(handles []*handle) {
	if len(handles) == 0 {
		return
	}
	if err := l.snapshots.writePending(handles[0].Base()); err != nil {
		l.env.logger.Warn("failed to write a producer snapshot", "partition", l.id, "error", err)
	}
}

// seal seals a rolled segment and writes the producer snapshot at its end. If this fails for lack
// of space or of file descriptors, the next flush retries; until then the recovery point does not
// advance.
func (l *Log) seal(u unsealed) error {
	if err := u.segment.Sync(); err != nil {
		return l.syncFailed(u.segment, err)
	}
	err := u.segment.Seal()
	if err != nil && !isTemporary(err) {
		return l.sealFailed(err)
	}
	if err == nil && u.state != nil {
		err = l.snapshots.write(u.end, u.state)
	}
	if err != nil {
		return fmt.Errorf("%w: seal segment %d: %w", ErrStorage, u.segment.Base(), err)
	}
	return nil
}

// isTemporary reports whether an error disappears when there is room, or when other files are
// closed.
func isTemporary(err error) bool {
	return errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EMFILE) ||
		errors.Is(err, syscall.ENFILE)
}

// sealFailed stops the log: if an index cannot be written although there is room, the disk fails.
func (l *Log) sealFailed(cause error) error {
	err := fmt.Errorf("seal: %w", cause)
	l.fail(err)
	return fmt.Errorf("%w: %w", ErrStorage, err)
}

// noteCheckpointed stores that a recovery point is on disk. Only then may the cleaner clean
// segments below it: above the recovery point on disk recovery treats a gap between segments as
// lost data (ADR 0015), and cleaning leaves such gaps.
func (l *Log) noteCheckpointed(recoveryPoint int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.disk.checkpointedTo(recoveryPoint)
	if l.mu.truncation != nil && l.mu.truncation.checkpointsDue {
		// The written state was read after the truncation, so it describes the log as it is now.
		l.mu.truncation = nil
	}
}

// checkpointState returns the values of this log for the checkpoint files.
func (l *Log) checkpointState() checkpointState {
	l.mu.Lock()
	defer l.mu.Unlock()
	aborted := l.mu.aborted
	if handles := l.currentLocked(); handles != nil {
		aborted = countAborted(handles, l.disk.recoveryPoint)
	}
	return l.mu.truncation.apply(checkpointState{
		aborted:        aborted,
		logStart:       l.logStart.Load(),
		recoveryPoint:  l.disk.recoveryPoint,
		highWatermark:  l.highWatermark.Load(),
		firstDirty:     l.compaction.firstDirty.Load(),
		horizon:        l.compaction.tombstonesDue(),
		tombstoneClean: l.compaction.tombstoneClean.Load(),
		progress:       l.compaction.progress.saved(l.compaction.TombstoneClean()),
	})
}

// countAborted lists the segments that are wholly below an offset and have a transaction index,
// ascending by base.
func countAborted(handles []*handle, below int64) (counts checkpoint.AbortedCounts) {
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

// close closes the log: it syncs all records, writes the indexes and the producer snapshot at the
// log end, and closes the files once the last Slice is released. An error means that the next start
// has to scan the log.
//
// The active segment is sealed here and not by its last reader: a reader may release the segment
// after the clean-shutdown marker is written, or never, and the marker promises that the index
// files are complete.
func (l *Log) close() error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	failed := l.mu.stopped
	l.mu.stopped = ErrClosed
	// The state is encoded in the critical section that ends appends, so it is the final state at
	// logEnd.
	state := l.mu.producers.Encode(l.logEnd.Load())
	l.mu.Unlock()

	err := failed
	if err == nil {
		err = l.flushMaintained()
	}
	if list := l.list.Load(); err == nil && list != nil {
		// the active segment cannot change: Log.maintain is held, and appends have ended
		err = list.active().Seal()
	}
	if err == nil {
		err = l.snapshots.write(l.logEnd.Load(), state)
	}
	l.mu.Lock()
	l.mu.aborted = countAborted(l.currentLocked(), l.disk.recoveryPoint)
	old := l.publishLocked(nil)
	l.compaction.sidecars.spools.discardAllLocked()
	l.mu.Unlock()
	if old != nil {
		if err == nil {
			l.closed = checkpoint.ClosedLog{Segments: summarize(old.handles),
				Epochs: checkpoint.SummarizeEpochs(l.epochs.load())}
		}
		for _, h := range old.handles {
			h.Freeze() // a Release renames the directory next, and another log may get its name
		}
		old.release()
	}
	return err
}

// scannedFrom returns where the scan after a crash begins: the base of the segment that holds the
// recovery point on disk.
func scannedFrom(handles []*handle, checkpointed int64) int64 {
	from := handles[0].Base()
	for _, h := range handles {
		if h.Base() <= checkpointed {
			from = h.Base()
		}
	}
	return from
}
