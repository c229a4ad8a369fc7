package logstore

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/record"
)

// errTruncating is wrapped by the error of an append while the log is being truncated, or while the
// checkpoints of a truncation are not written yet.
var errTruncating = errors.New("the log is being truncated")

// truncateWait is the time for which a truncation waits for the readers of the segment that it has
// to truncate. After this time it replaces the segment by a copy of the segment's remaining part.
const truncateWait = time.Second

// TruncateTo removes all records at or above an offset. A follower calls it when the leader's log
// does not contain the end of the follower's log (KIP-101). TruncateTo removes the batch that
// contains the offset as a whole, so the log may end below the offset. If there is an offset gap
// below the first removed batch, an empty batch fills the gap: other records had the gap's offsets,
// and readers may have passed them. If the offset is at or above the log end, only the leader
// epochs that start at or above the offset are removed. If no batch remains, the log is empty at
// its new start, as after StartAt.
//
// The log end, the high watermark and the last stable offset fall. The leader epochs, producers and
// transactions are restored as of the new log end. A Slice that a reader holds can still be read. A
// concurrent pass of the cleaner fails with segmentlist.ErrChanged. TruncateTo fails with
// ErrStorage if the disk fails. The caller may then try again, unless the log has stopped (Fault).
// docs/internals/format/truncate.md describes the order of operations.
func (l *Log) TruncateTo(offset int64) error {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	switch {
	case offset >= l.offsets.LogEnd():
		return l.epochs.TruncateEnd(offset)
	case offset <= l.offsets.LogStart():
		return (&truncation{log: l}).restart(max(offset, 0))
	}
	// The new log end is the end of the last remaining batch and not the given offset. The offset
	// may be higher, and the recovery point on disk must not exceed the log end. The log must not
	// end within an offset gap either, because a start could not distinguish such a gap from lost
	// data (ADR 0100).
	list := l.list.Acquire()
	if list == nil {
		return ErrClosed
	}
	end, epochsFrom, base, err := endBelow(list, offset)
	list.Release()
	switch {
	case err != nil:
		return fmt.Errorf("%w: truncate to %d: %w", ErrStorage, offset, err)
	case end <= l.offsets.LogStart(): // no batch remains; the removed batch may contain the log start
		return (&truncation{log: l}).restart(epochsFrom)
	}
	highWatermark := l.offsets.HighWatermark()
	t := &truncation{log: l, target: pendingTruncation{end: end, epochsFrom: epochsFrom,
		firstDirty: base}}
	if err := t.run(t.truncateFiles); err != nil || end == epochsFrom {
		return err
	}
	if err := t.fillGap(epochsFrom); err != nil {
		return err
	}
	l.AdvanceHighWatermark(min(highWatermark, epochsFrom))
	return nil
}

// StartAt removes all records. Afterwards the log is empty and starts at the given offset, which
// may be above or below the old log end. A follower calls StartAt when its leader's log begins
// above the follower's log end (KIP-107). The log then has no leader epochs and no producers.
// StartAt fails with the same errors as TruncateTo.
func (l *Log) StartAt(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("%w: start at %d", ErrOffsetOutOfRange, offset)
	}
	l.truncating.Lock()
	defer l.truncating.Unlock()
	return (&truncation{log: l}).restart(offset)
}

// endBelow returns the log end after the removal of all batches that end at or above the given
// offset. base is the base offset of the segment that contains this end. epochsFrom is the offset
// from which leader epochs must be removed: the lower of the given offset and the first removed
// batch's base offset.
func endBelow(list *segmentlist.List, offset int64) (end, epochsFrom, base int64, err error) {
	h := list.Handles[list.Floor(offset)]
	if end, err = h.EndBelow(offset); err != nil {
		return 0, 0, 0, err
	}
	header, found, err := h.HeaderFrom(offset)
	if err != nil {
		return 0, 0, 0, err
	}
	epochsFrom = offset
	if found { // otherwise no batch of this segment is removed
		epochsFrom = min(offset, header.BaseOffset())
	}
	return end, epochsFrom, h.Base(), nil
}

// fillGap appends an empty batch, like one that cleaning has emptied, that ends at the offset to.
// So no later record gets an offset below that one, even after a restart.
func (t *truncation) fillGap(to int64) error {
	l := t.log
	config, now := l.config.Load(), time.Now()
	err := l.appending(now, func() error {
		end := l.offsets.LogEnd()
		if to-end > math.MaxInt32 {
			// A single batch cannot span the gap. The gap stays, because the leader's log begins
			// above it.
			return nil
		}
		timestamp, _ := l.list.Load().Active().MaxTimestamp()
		if timestamp < 0 { // the segment is empty: the timestamp of this batch determines its age
			timestamp = now.UnixMilli()
		}
		builder := record.NewBuilder(compress.None, compress.LevelDefault)
		builder.Reset(record.Identity{
			BaseOffset: end, LastOffsetDelta: int32(to - end - 1), LeaderEpoch: l.epochs.Latest(),
			ProducerID: -1, ProducerEpoch: -1, BaseSequence: -1,
			MaxTimestamp: timestamp,
		})
		batch, err := builder.Build(nil)
		if err != nil {
			return err
		}
		return l.writeAtLocked(record.Whole(batch), config, now)
	})
	l.appended(config)
	return err
}

// pendingTruncation is an announced truncation: before any record is removed, the checkpoints
// already describe the truncated log.
type pendingTruncation struct {
	end int64 // new log end: the end of a batch, or an empty segment's base offset
	// epochsFrom is the offset from which leader epochs are removed. It is above end if there is an
	// offset gap at end.
	epochsFrom int64
	// firstDirty is the base offset of the new active segment. The first dirty offset falls at
	// least to this offset.
	firstDirty int64
	restart    bool // true if the log restarts empty at end
	running    bool // true while files are being truncated; appends and rolls are rejected
	// checkpointsDue is true if the files are truncated, but the checkpoints are not written yet.
	// Appends are rejected until then.
	checkpointsDue bool
}

// isRunning reports whether appends and rolls must be rejected.
func (p *pendingTruncation) isRunning() bool { return p != nil && p.running }

// apply returns the checkpoint state s, changed to describe the log after the truncation.
func (p *pendingTruncation) apply(s checkpoint.State) checkpoint.State {
	if p == nil {
		return s
	}
	s.RecoveryPoint = min(s.RecoveryPoint, p.end)
	s.HighWatermark = min(s.HighWatermark, p.end)
	s.FirstDirty = min(s.FirstDirty, p.firstDirty)
	s.TombstoneClean, s.Progress = min(s.TombstoneClean, p.firstDirty), s.Progress.Truncate(p.end)
	if p.restart {
		// The log start is not lowered yet. Otherwise the deleted records below the log start would
		// reappear if the truncation fails before it removes any file.
		s.LogStart = max(s.LogStart, p.end)
		s.Progress = nil
	}
	return s
}

// truncation is one call of TruncateTo or StartAt. The caller holds Log.truncating. The truncation
// acquires Log.maintain, and Log.mu for the changes in memory.
type truncation struct {
	log    *Log
	target pendingTruncation
}

// restart removes all records, and restarts the log empty at the given offset.
func (t *truncation) restart(offset int64) error {
	t.target = pendingTruncation{end: offset, firstDirty: offset, restart: true}
	return t.run(t.replaceFiles)
}

// run writes checkpoints that describe the log after the truncation, and then calls changeFiles.
// Its caller holds only Log.truncating, because run writes the checkpoints of all logs.
//
// The checkpoints are written before any file changes. Otherwise the recovery point on disk could
// still be above the new log end when new records are appended. A crash could then lose some of
// these records, and recovery would not detect the loss, because it does not scan below the
// recovery point.
func (t *truncation) run(changeFiles func([]*segmentlist.Handle) error) error {
	l := t.log
	startBefore := l.offsets.LogStart()
	if err := t.announce(); err != nil {
		return err
	}
	err := l.env.saveCheckpoints()
	if err != nil {
		err = fmt.Errorf("%w: save checkpoints before a truncation: %w", ErrStorage, err)
	} else {
		err = t.runAnnounced(changeFiles)
	}
	if err != nil && t.target.restart && l.Fault() == nil {
		// No record was removed, but the checkpoints on disk may already describe the truncated
		// log. A broker start would then truncate the log. So appends are rejected until the
		// checkpoints are written again.
		t.end(&pendingTruncation{end: math.MaxInt64, firstDirty: math.MaxInt64, running: true,
			checkpointsDue: true})
		return errors.Join(err, l.env.saveCheckpoints())
	}
	if err != nil || t.target.end >= startBefore {
		t.end(nil)
		return err
	}
	// The checkpoint on disk still contains the old log start. A broker start would empty a log
	// that ends below it. So appends are rejected until the new log start is written, either here
	// or by a later round of the store's goroutine (noteCheckpointed).
	err = l.env.saveCheckpoints()
	switch {
	case err == nil:
		t.end(nil)
		return nil
	case segmentlist.IsTemporary(err):
		t.end(&pendingTruncation{end: t.target.end, firstDirty: t.target.firstDirty, running: true,
			checkpointsDue: true})
		return fmt.Errorf("%w: save checkpoints after a truncation: %w", ErrStorage, err)
	}
	t.end(nil)
	return t.stop(err)
}

// announce makes Log.checkpointState describe the truncated log.
func (t *truncation) announce() error {
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault.StoppedLocked() != nil {
		return l.fault.StoppedLocked()
	}
	announced := t.target
	l.mu.truncation = &announced
	return nil
}

// end removes the announcement, or replaces it by left, an announcement of the remaining steps.
func (t *truncation) end(left *pendingTruncation) {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	t.log.mu.truncation = left
}

// runAnnounced calls changeFiles while it holds Log.maintain, which excludes flushes, retention and
// swaps. Meanwhile the log rejects appends.
func (t *truncation) runAnnounced(changeFiles func([]*segmentlist.Handle) error) error {
	l := t.log
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	if l.fault.StoppedLocked() != nil {
		defer l.mu.Unlock()
		return l.fault.StoppedLocked()
	}
	running := t.target
	running.running = true
	l.mu.truncation = &running
	handles := l.list.Handles()
	l.mu.Unlock()
	return changeFiles(handles)
}

// stop stops the log, because its files may be newer than the state in memory. Only a restart
// reconciles the two.
func (t *truncation) stop(cause error) error {
	cause = fmt.Errorf("truncate: %w", cause)
	t.log.fault.Fail(cause)
	return fmt.Errorf("%w: %w", ErrStorage, cause)
}

// heldFiles contains the files that a truncation needs open. The truncation opens them before it
// changes anything: if it ran out of file descriptors later, the log would have to stop.
type heldFiles struct {
	listed         []swap.File // all segment files in the directory
	releaseRemoved func()      // releases the files of the removed segments
	release        func()      // releases all files
}

// holdFiles opens the files of the segments in stay and removed. stay contains at most one segment,
// which the truncation changes but does not remove. holdFiles also lists the directory once,
// because a later sync of the directory needs a file descriptor too.
func (t *truncation) holdFiles(stay, removed []*segmentlist.Handle) (held heldFiles, err error) {
	releaseStay, err := swap.PinAll(segmentlist.Segments(stay))
	if err != nil {
		return heldFiles{}, err
	}
	releaseRemoved, err := swap.PinAll(segmentlist.Segments(removed))
	if err != nil {
		releaseStay()
		return heldFiles{}, err
	}
	held.releaseRemoved = sync.OnceFunc(releaseRemoved)
	held.release = sync.OnceFunc(func() { held.releaseRemoved(); releaseStay() })
	if held.listed, err = t.log.files.List(); err != nil {
		held.release()
	}
	return held, err
}

var errHeadEnds = errors.New("the head ends here")

// copyHead copies a segment's batches below an offset to another segment, adds the index entries of
// the aborted transactions among them, and seals the other segment.
func copyHead(from, to *segment.Segment, offset int64) error {
	err := from.Scan(0, func(_ int64, b record.Batch) error {
		if b.LastOffset() >= offset {
			return errHeadEnds
		}
		return to.Append(b)
	})
	if err != nil && !errors.Is(err, errHeadEnds) {
		return err
	}
	var failed error
	_, err = from.Aborted(0, offset, func(a segment.AbortedTxn) {
		if a.LastOffset < offset {
			failed = errors.Join(failed, to.AddAborted(a))
		}
	})
	if err = errors.Join(err, failed); err != nil {
		return err
	}
	return to.Seal()
}
