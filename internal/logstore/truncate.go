package logstore

import (
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// errTruncating is wrapped by the error of an append while the log is being truncated. A leader
// does not truncate, so only a caller that does both sees it.
var errTruncating = errors.New("the log is being truncated")

// truncateWait is how long a truncation waits for readers of the segment that it has to truncate,
// before it copies the part that stays instead.
const truncateWait = time.Second

// TruncateTo removes all records at or above an offset: a follower calls it when the leader's log
// does not contain the end of the follower's log (KIP-101). A batch that holds the offset is
// removed as a whole, so the log may end below it. A gap below the offset is filled with an empty
// batch: other records had those offsets, and readers have passed them. At or above the log end it
// removes only the leader epochs that start there. If nothing of the log is left, it starts again
// as by StartAt.
//
// Log end, high watermark and last stable offset fall; leader epochs, producers and transactions
// are restored as of the new end. Readers that hold a Slice can still read it. A pass of the
// cleaner that is under way fails with errSegmentsChanged. TruncateTo fails with ErrStorage if the
// disk fails; unless Fault reports that the log has stopped, nothing was truncated.
// docs/format/truncate.md has the order of operations.
func (l *Log) TruncateTo(offset int64) error {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	switch {
	case offset >= l.logEnd.Load():
		return (&truncation{log: l}).truncateEpochs(offset)
	case offset <= l.logStart.Load():
		return l.restartAt(max(offset, 0))
	}
	// The new log end is the end of the last batch that stays, and not the offset, which may be
	// higher: the recovery point on disk must not exceed the log end. The log does not end within a
	// gap either (ADR 0100): a start could not distinguish that from lost data.
	list := l.acquire()
	if list == nil {
		return ErrClosed
	}
	end, epochsFrom, base, err := list.endBelow(offset)
	list.release()
	switch {
	case err != nil:
		return fmt.Errorf("%w: truncate to %d: %w", ErrStorage, offset, err)
	case end <= l.logStart.Load(): // nothing is left; the removed batch may hold the log start
		return l.restartAt(epochsFrom)
	}
	highWatermark := l.highWatermark.Load()
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

// StartAt removes all records; the log starts again, empty, at an offset that may be above or below
// the old end: a follower calls it when its leader's log begins above its end (KIP-107). Leader
// epochs and producers are unknown then. It fails as TruncateTo does.
func (l *Log) StartAt(offset int64) error {
	if offset < 0 {
		return fmt.Errorf("%w: start at %d", ErrOffsetOutOfRange, offset)
	}
	l.truncating.Lock()
	defer l.truncating.Unlock()
	return l.restartAt(offset)
}

// restartAt is StartAt for callers that hold Log.truncating.
func (l *Log) restartAt(offset int64) error {
	t := &truncation{log: l, target: pendingTruncation{end: offset, firstDirty: offset,
		restart: true}}
	return t.run(t.replaceFiles)
}

// endBelow returns where a log ends without the batches that end at or above offset, and the base
// of the segment that holds the end. epochsFrom is at most where the first removed batch begins.
func (s *segmentList) endBelow(offset int64) (end, epochsFrom, base int64, err error) {
	h := s.handles[s.floor(offset)]
	if end, err = h.EndBelow(offset); err != nil {
		return 0, 0, 0, err
	}
	header, found, err := h.headerFrom(offset)
	if err != nil {
		return 0, 0, 0, err
	}
	epochsFrom = offset
	if found { // otherwise the whole segment stays
		epochsFrom = min(offset, header.BaseOffset())
	}
	return end, epochsFrom, h.Base(), nil
}

// fillGap appends an empty batch up to an offset, like one that cleaning leaves: the next append
// gets no offset below it, also after a restart.
func (t *truncation) fillGap(to int64) error {
	l := t.log
	config, now := l.config.Load(), time.Now()
	err := l.appending(now, func() error {
		end := l.logEnd.Load()
		if to-end > math.MaxInt32 {
			// a single batch cannot span the gap; the current leader's log begins above it
			return nil
		}
		timestamp, _ := l.list.Load().active().MaxTimestamp()
		if timestamp < 0 { // the first batch of the segment, whose age is counted from it
			timestamp = now.UnixMilli()
		}
		builder := record.NewBuilder(compress.None, compress.LevelDefault)
		builder.Reset(record.Identity{
			BaseOffset: end, LastOffsetDelta: int32(to - end - 1), LeaderEpoch: l.epochs.latest(),
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
// describe the log as it will be afterwards.
type pendingTruncation struct {
	end int64 // the new log end: the end of a batch, or the base of an empty segment
	// leader epochs that start here or above are removed; above end if there is a gap between
	epochsFrom int64
	// the first dirty offset falls at least to this, the base of the new active segment
	firstDirty int64
	restart    bool // the log starts again at end
	running    bool // files are being truncated: no append, no roll
	// the files are truncated, but appends wait until the checkpoints are written
	checkpointsDue bool
}

// isRunning reports whether appends and rolls have to be refused.
func (p *pendingTruncation) isRunning() bool { return p != nil && p.running }

// apply returns the checkpoint state for the time of the truncation.
func (p *pendingTruncation) apply(s checkpointState) checkpointState {
	if p == nil {
		return s
	}
	s.recoveryPoint = min(s.recoveryPoint, p.end)
	s.highWatermark = min(s.highWatermark, p.end)
	s.firstDirty = min(s.firstDirty, p.firstDirty)
	s.tombstoneClean, s.progress = min(s.tombstoneClean, p.firstDirty), s.progress.Truncate(p.end)
	if p.restart {
		// deleted records must not reappear if the truncation fails before it removes anything
		s.logStart = max(s.logStart, p.end)
		s.progress = nil
	}
	return s
}

// truncation is one TruncateTo or StartAt. Log.truncating is held while it runs; it takes
// Log.maintain, and Log.mu for the changes in memory.
type truncation struct {
	log    *Log
	target pendingTruncation
}

// run announces the truncation to the checkpoints, and then calls changeFiles. Its caller holds no
// lock but Log.truncating, because run writes the checkpoints of all logs.
//
// The checkpoints come first. If the recovery point on disk was above the new end when records are
// appended behind it, a crash could lose some of them, and recovery would not scan.
func (t *truncation) run(changeFiles func([]*handle) error) error {
	l := t.log
	startBefore := l.logStart.Load()
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
		// Nothing was removed, but the checkpoints on disk may already describe the truncated log,
		// and a start would then truncate it. Appends are rejected until the checkpoints are
		// written again.
		t.end(&pendingTruncation{end: math.MaxInt64, firstDirty: math.MaxInt64, running: true,
			checkpointsDue: true})
		return errors.Join(err, l.env.saveCheckpoints())
	}
	if err != nil || t.target.end >= startBefore {
		t.end(nil)
		return err
	}
	// The checkpoint on disk has the old log start, and a start would empty a log that ends below
	// it. Appends are rejected until the new log start is written, now or by a later round
	// (noteCheckpointed).
	err = l.env.saveCheckpoints()
	switch {
	case err == nil:
		t.end(nil)
		return nil
	case isTemporary(err):
		t.end(&pendingTruncation{end: t.target.end, firstDirty: t.target.firstDirty, running: true,
			checkpointsDue: true})
		return fmt.Errorf("%w: save checkpoints after a truncation: %w", ErrStorage, err)
	}
	t.end(nil)
	return t.stop(err)
}

// announce makes Log.saved describe the log as it will be.
func (t *truncation) announce() error {
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stopped != nil {
		return l.mu.stopped
	}
	announced := t.target
	l.mu.truncation = &announced
	return nil
}

// end removes the announcement, or replaces it by left, which describes the steps that are still to
// be done.
func (t *truncation) end(left *pendingTruncation) {
	t.log.mu.Lock()
	defer t.log.mu.Unlock()
	t.log.mu.truncation = left
}

// runAnnounced changes the files. Log.maintain excludes flush, retention and swaps; appends are
// refused.
func (t *truncation) runAnnounced(changeFiles func([]*handle) error) error {
	l := t.log
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	if l.mu.stopped != nil {
		defer l.mu.Unlock()
		return l.mu.stopped
	}
	running := t.target
	running.running = true
	l.mu.truncation = &running
	handles := l.currentLocked()
	l.mu.Unlock()
	return changeFiles(handles)
}

// stop stops a log whose files may be ahead of memory: only a restart reconciles them.
func (t *truncation) stop(cause error) error {
	cause = fmt.Errorf("truncate: %w", cause)
	t.log.fail(cause)
	return fmt.Errorf("%w: %w", ErrStorage, cause)
}

// truncateEpochs removes the leader epochs that start at or above end.
func (t *truncation) truncateEpochs(end int64) error {
	l := t.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stopped != nil {
		return l.mu.stopped
	}
	return l.epochs.truncateEnd(end)
}

// heldFiles are the files that a truncation needs open. It opens them before it changes anything: a
// truncation that runs out of file descriptors half-way would have to stop the log.
type heldFiles struct {
	listed         []segmentFile // of the directory
	releaseRemoved func()        // releases the files of the removed segments
	release        func()        // releases all files
}

// holdFiles opens the files of the segments that stay and change, one at most, and of those behind
// it that are removed. It opens the directory once, as a later sync will.
func (t *truncation) holdFiles(stay, removed []*handle) (held heldFiles, err error) {
	releaseStay, err := pinAll(segmentsOf(stay))
	if err != nil {
		return heldFiles{}, err
	}
	releaseRemoved, err := pinAll(segmentsOf(removed))
	if err != nil {
		releaseStay()
		return heldFiles{}, err
	}
	held.releaseRemoved = sync.OnceFunc(releaseRemoved)
	held.release = sync.OnceFunc(func() { held.releaseRemoved(); releaseStay() })
	if held.listed, err = t.log.files.list(); err != nil {
		held.release()
	}
	return held, err
}

// lowerOffsets moves all offsets so that the log is [start, end), and at no moment one exceeds
// another. Log.mu is held.
func (t *truncation) lowerOffsets(start, end int64) {
	l := t.log
	l.stable.Lock()
	defer l.stable.Unlock()
	if start < l.logStart.Load() {
		l.logStart.Store(start)
	}
	if end > l.logEnd.Load() { // only when the log starts again
		l.logEnd.Store(end)
	}
	l.highWatermark.Store(max(start, min(l.highWatermark.Load(), end)))
	l.logEnd.Store(end)
	l.logStart.Store(start)
	l.stable.truncate(&l.mu.producers, end)
}

var errHeadEnds = errors.New("the head ends here")

// copyHead copies the batches that end below offset, with their aborted transactions, and seals the
// copy.
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
