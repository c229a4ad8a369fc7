package logstore

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"slices"
	"sync"
	"time"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/record"
)

// errTruncating is wrapped by what an append fails with while the log is being cut. Who leads does
// not truncate, so nobody sees it but a caller that does both.
var errTruncating = errors.New("the log is being truncated")

// truncateWait is how long a truncation waits for those who read the segment it has to cut, before
// it copies what stays instead.
const truncateWait = time.Second

// pendingCut is a truncation that has begun: the checkpoints tell of the log as it will be, before
// any of it goes.
type pendingCut struct {
	offset int64 // where the log will end: at a batch's end, or at the base of an empty segment
	// leader epochs that begin here or above go; above offset if there is a gap between
	gone int64
	// the cleaner's offset is lowered at least to this, the base of the new active segment
	// (reference I35)
	firstDirty int64
	restart    bool // the log will begin there too
	running    bool // files are being cut: no append, no roll
	// nothing is cut any more, but the checkpoints have to be written before anything is appended
	due bool
}

// TruncateTo cuts off all records at or above an offset: what a follower does whose end the leader
// does not have (KIP-101). A batch that holds the offset goes as a whole, so the log may end below
// it. A gap below is filled with an empty batch: the offsets in it were somebody's, and readers
// have passed them. At or above the log end nothing goes but the leader epochs that begin there;
// the log begins anew (StartAt) if nothing of it is left.
//
// Log end, high watermark and last stable offset fall, leader epochs, producers and transactions
// are as they were at the new end. Readers that hold a Slice read on what they have. A pass of the
// cleaner that was under way replaces nothing any more.
//
// It fails with ErrStorage when the disk does; unless Fault tells that the log has stopped, nothing
// was cut. docs/format/truncate.md has the order of operations.
func (l *Log) TruncateTo(offset int64) error {
	l.truncating.Lock()
	defer l.truncating.Unlock()
	switch {
	case offset >= l.logEnd.Load():
		return l.truncateEpochs(offset)
	case offset <= l.logStart.Load():
		return l.restartAt(max(offset, 0))
	}
	// Where the last batch ends that stays, and not the offset, which may lie above: the recovery
	// point on disk must not. Nor does the log end within a gap (ADR 0100): a start could not tell
	// it from lost data.
	end, gone, base, err := l.endBelow(offset)
	switch {
	case err != nil:
		return err
	case end <= l.logStart.Load(): // nothing is left; the batch that goes may hold the log start
		return l.restartAt(gone)
	}
	highWatermark := l.highWatermark.Load()
	if err := l.cut(pendingCut{offset: end, gone: gone, firstDirty: base}, l.cutTo); err != nil ||
		end == gone {
		return err
	}
	if err := l.fillGap(gone); err != nil {
		return err
	}
	l.AdvanceHighWatermark(min(highWatermark, gone))
	return nil
}

// fillGap appends a batch without records up to an offset, as cleaning leaves them: what is
// appended next gets no offset below, also after a restart.
func (l *Log) fillGap(to int64) error {
	config, now := l.config.Load(), time.Now()
	err := l.appending(now, func() error {
		end := l.logEnd.Load()
		if to-end > math.MaxInt32 {
			return nil // no batch is so long; the leader of today begins above
		}
		timestamp, _ := l.list.Load().active().MaxTimestamp()
		if timestamp < 0 { // it is the first of the segment, whose age is counted from it
			timestamp = now.UnixMilli()
		}
		builder := record.NewBuilder(compress.None, compress.LevelDefault)
		builder.Reset(record.Identity{
			BaseOffset: end, LastOffsetDelta: int32(to - end - 1), LeaderEpoch: l.mu.leaderEpoch,
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

// cut announces the cut to the checkpoints and makes it. Log.truncating is held, and no other lock:
// the checkpoints are of all logs.
//
// The checkpoints first. Were the recovery point on disk above the cut when new records are
// appended behind it, a crash could take some of them, and a start would not look.
func (l *Log) cut(pending pendingCut, files func(pendingCut, []*handle) error) error {
	startBefore := l.logStart.Load()
	if err := l.announce(&pending); err != nil {
		return err
	}
	err := l.env.saveFirstDirty()
	if err != nil {
		err = fmt.Errorf("%w: save checkpoints before a truncation: %w", ErrStorage, err)
	} else {
		err = l.cutAnnounced(pending, files)
	}
	if err != nil && pending.restart && l.Fault() == nil {
		// Nothing was cut, but a start would: the checkpoints on disk may say so already. Nothing
		// is appended until they tell otherwise.
		l.endCut(&pendingCut{offset: math.MaxInt64, firstDirty: math.MaxInt64, running: true,
			due: true})
		return errors.Join(err, l.env.saveFirstDirty())
	}
	if err != nil || pending.offset >= startBefore {
		l.endCut(nil)
		return err
	}
	// The checkpoint on disk has the log start of before, and a start would empty a log that ends
	// below it: nothing is appended until it is written, now or by a later round
	// (noteCheckpointed).
	err = l.env.saveFirstDirty()
	switch {
	case err == nil:
		l.endCut(nil)
		return nil
	case passes(err):
		l.endCut(&pendingCut{offset: pending.offset, firstDirty: pending.firstDirty, running: true,
			due: true})
		return fmt.Errorf("%w: save checkpoints behind a truncation: %w", ErrStorage, err)
	}
	l.endCut(nil)
	return l.stopCut(err)
}

// endCut ends the announcement of a cut, or puts what is left of it in its place.
func (l *Log) endCut(left *pendingCut) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.cut = left
}

// announce makes saved tell of the log as it will be.
func (l *Log) announce(pending *pendingCut) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stopped != nil {
		return l.mu.stopped
	}
	l.mu.cut = pending
	return nil
}

// isRunning tells whether files are being cut.
func (c *pendingCut) isRunning() bool { return c != nil && c.running }

// apply returns what the checkpoints are to hold while the cut is under way.
func (c *pendingCut) apply(s saved) saved {
	if c == nil {
		return s
	}
	s.recoveryPoint = min(s.recoveryPoint, c.offset)
	s.highWatermark = min(s.highWatermark, c.offset)
	s.firstDirty = min(s.firstDirty, c.firstDirty)
	s.lonelyTo, s.agreed = min(s.lonelyTo, c.firstDirty), s.agreed.Truncate(c.offset)
	if c.restart {
		// what was deleted must not come back should nothing be cut
		s.logStart = max(s.logStart, c.offset)
		s.agreed = nil
	}
	return s
}

// cutAnnounced makes the cut. Log.maintain keeps flush, retention and swaps away; appends are
// refused.
func (l *Log) cutAnnounced(pending pendingCut, files func(pendingCut, []*handle) error) error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	l.mu.Lock()
	if l.mu.stopped != nil {
		defer l.mu.Unlock()
		return l.mu.stopped
	}
	running := pending
	running.running = true
	l.mu.cut = &running
	handles := l.currentLocked()
	l.mu.Unlock()
	return files(pending, handles)
}

// stopCut ends a log whose files may be ahead of what memory knows: only a start brings them
// together.
func (l *Log) stopCut(cause error) error {
	cause = fmt.Errorf("truncate: %w", cause)
	l.fail(cause)
	return fmt.Errorf("%w: %w", ErrStorage, cause)
}

// cutTo cuts within the log. The active segment is then the one that holds the offset.
func (l *Log) cutTo(pending pendingCut, handles []*handle) error {
	end := pending.offset
	at := (&segmentList{handles: handles}).floor(end)
	if end <= l.logStart.Load() {
		return fmt.Errorf("%w: truncate to %d: the log begins at %d by now", ErrOffsetOutOfRange,
			end, l.logStart.Load())
	}
	// From what stays only, so it can be made before anything goes.
	state, _, err := stateAt(l, handles[:at+1], end, end)
	if err != nil {
		return fmt.Errorf("%w: truncate to %d: %w", ErrStorage, end, err)
	}
	afforded, err := l.affordCut(handles[at:at+1], handles[at+1:])
	if err != nil {
		return fmt.Errorf("%w: truncate to %d: %w", ErrStorage, end, err)
	}
	defer afforded.release()
	// Its key sidecar, and what a pass noted, tell of more than will be there. It would be found
	// out, but need not be.
	for _, extension := range []string{segment.KeysExtension, segment.DeadExtension} {
		name := l.compaction.sidecars.path(handles[at].Base(), extension, "")
		if err := l.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: truncate to %d: %w", ErrStorage, end, err)
		}
	}
	if err := l.markCut(handles[at+1:], afforded.files, end); err != nil {
		return l.stopCut(err)
	}
	afforded.releaseGone() // before any of them is closed
	fresh := handles[at].succeed()
	l.showCut(end, state, handles, append(slices.Clone(handles[:at]), fresh))
	if err := l.cutSegment(fresh, end, afforded.release); err != nil {
		return l.stopCut(err)
	}
	// All but this is done: should there be no room for the file, the caller tries again, as any
	// cut at the log end does.
	if err := l.truncateEpochs(pending.gone); err != nil && !passes(err) {
		return l.stopCut(err)
	} else if err != nil {
		return err
	}
	return nil
}

// affordedCut is what a cut needs of the files that a process may have open. It has them before it
// does anything: one that finds none left half-way stops its log.
type affordedCut struct {
	files       []segmentFile // of the directory
	releaseGone func()        // gives up the files of the segments that go
	release     func()        // gives up all
}

// affordCut is for a cut of some segments, one at most, behind which others go. The directory is
// opened once, as it will be to be synced.
func (l *Log) affordCut(stay, gone []*handle) (a affordedCut, err error) {
	releaseStay, err := pinAll(segmentsOf(stay))
	if err != nil {
		return affordedCut{}, err
	}
	releaseGone, err := pinAll(segmentsOf(gone))
	if err != nil {
		releaseStay()
		return affordedCut{}, err
	}
	a.releaseGone = sync.OnceFunc(releaseGone)
	a.release = sync.OnceFunc(func() { a.releaseGone(); releaseStay() })
	err = l.afford(func() error {
		a.files, err = listSegmentFiles(l.env.fs, l.dir)
		return err
	})
	if err != nil {
		a.release()
	}
	return a, err
}

func segmentsOf(handles []*handle) []*segment.Segment {
	all := make([]*segment.Segment, len(handles))
	for i, h := range handles {
		all[i] = h.Segment
	}
	return all
}

// afford does what opens a directory, and has files closed for it if the process has none left.
func (l *Log) afford(do func() error) error { return l.env.segments.Handles.WithDescriptor(do) }

// endBelow is where the log ends when everything from the first batch on that ends at or above
// offset is cut off, at most where that batch begins (gone), and the base of the segment it ends
// in.
func (l *Log) endBelow(offset int64) (end, gone, base int64, err error) {
	list := l.acquire()
	if list == nil {
		return 0, 0, 0, ErrClosed
	}
	defer list.release()
	h := list.handles[list.floor(offset)]
	gone = offset
	position, err := h.Position(offset)
	if err == nil {
		end, err = h.EndBelow(offset)
	}
	if err == nil {
		var header segment.Header
		switch header, err = h.HeaderAt(position); {
		case errors.Is(err, io.EOF): // all of the segment stays
			err = nil
		case err == nil:
			gone = min(offset, header.BaseOffset())
		}
	}
	if err != nil {
		return 0, 0, 0, fmt.Errorf("%w: truncate to %d: %w", ErrStorage, offset, err)
	}
	return end, gone, h.Base(), nil
}

// markCut marks segments as deleted, from the back, and removes producer snapshots above end, for
// good. A start that finds only a part of it ends the log at the first segment that is missing: the
// recovery point on disk lies below. files are those of the directory.
func (l *Log) markCut(handles []*handle, files []segmentFile, end int64) error {
	for _, h := range slices.Backward(handles) {
		if err := h.Rename(deletedSuffix); err != nil {
			return err
		}
	}
	return l.dropSnapshots(files, end)
}

// dropSnapshots removes the producer snapshots above an offset, for good.
func (l *Log) dropSnapshots(files []segmentFile, end int64) error {
	_, err := removeFiles(l.env.fs, l.dir, files,
		func(f segmentFile) bool { return f.kind == snapshotSuffix && f.base > end })
	if err != nil {
		return err
	}
	return l.afford(func() error { return l.env.fs.SyncDir(l.dir) })
}

// showCut makes memory the log that ends at end, with the producer state of there and the segments
// that stay. Offsets fall before the list is shown: a reader that finds the new list reads below
// the new end (readFrom).
func (l *Log) showCut(end int64, state producer.State, before, after []*handle) {
	l.mu.Lock()
	l.cutLocked(end)
	l.lineage.Add(1)
	active := after[len(after)-1]
	l.mu.unsealed = slices.DeleteFunc(slices.Clone(l.mu.unsealed),
		func(u unsealed) bool { return u.segment.Base() >= active.Base() })
	l.mu.producers = state
	l.compaction.truncated(active.Base(), end)
	if end <= active.Base() {
		l.mu.firstAppend = time.Time{}
	}
	l.lowerOffsets(min(l.logStart.Load(), end), end)
	l.settleDurableLocked()
	for _, h := range before {
		if !slices.Contains(after, h) && h.Segment != active.Segment {
			h.doomed.Store(true)
		}
	}
	old := l.publishLocked(after)
	l.mu.Unlock()
	old.release()
}

// lowerOffsets moves all offsets so that the log is [start, end), and at no moment one passes
// another. Log.mu is held.
func (l *Log) lowerOffsets(start, end int64) {
	l.stable.Lock()
	defer l.stable.Unlock()
	if start < l.logStart.Load() {
		l.logStart.Store(start)
	}
	if end > l.logEnd.Load() { // only when it begins anew
		l.logEnd.Store(end)
	}
	l.highWatermark.Store(max(start, min(l.highWatermark.Load(), end)))
	l.logEnd.Store(end)
	l.logStart.Store(start)
	l.stable.cut(&l.mu.producers, end)
}

// cut forgets what was decided above end: those transactions are open again, or gone. stability is
// locked.
func (s *stability) cut(state *producer.State, end int64) {
	s.decided = slices.DeleteFunc(s.decided, func(d decidedTxn) bool { return d.last >= end })
	s.undecided = state.Undecided()
}

// cutSegment cuts the new active segment, and makes it durable: else records that are appended now
// could be followed by old ones after a crash, whose offsets and checksums fit.
//
// The file is cut in place once nobody is left who reads it as it was. Who still does after
// truncateWait keeps the file, and the log goes on with a copy of what stays: a slow consumer shall
// neither hold up the replica nor be sent other bytes than it was promised.
//
// release gives up the file, which is pinned: one that is replaced may be closed at once.
func (l *Log) cutSegment(fresh *handle, offset int64, release func()) error {
	position, err := fresh.Position(offset)
	if err != nil {
		return err
	}
	if position < fresh.SizeBytes() && !fresh.alone(truncateWait) {
		release()
		return l.replaceByHead(fresh, offset)
	}
	if err := fresh.Truncate(offset); err != nil {
		return err
	}
	return fresh.Sync()
}

// replaceByHead puts a copy of what lies below offset in the place of the active segment, as a swap
// (docs/format/swap.md).
func (l *Log) replaceByHead(fresh *handle, offset int64) error {
	head, err := segment.Create(l.env.fs, l.dir, fresh.Base(), cleanedSuffix, l.env.segments)
	if err != nil {
		return err
	}
	copied := []*segment.Segment{head}
	if err := copyHead(fresh.Segment, head, offset); err != nil {
		return errors.Join(err, discard(copied))
	}
	if err := l.commitSwap([]*segment.Segment{fresh.Segment}, copied); err != nil {
		return errors.Join(err, l.withdrawSwap(copied))
	}
	if err := l.finishSwap([]*segment.Segment{fresh.Segment}, copied); err != nil {
		return errors.Join(err, closeSegments(copied))
	}
	if err := head.Truncate(offset); err != nil { // it cuts nothing, and makes the segment writable
		return err
	}
	l.mu.Lock()
	handles := l.currentLocked()
	fresh.doomed.Store(true)
	old := l.publishLocked(append(slices.Clone(handles[:len(handles)-1]), l.handleOf(head)))
	l.mu.Unlock()
	old.release()
	return nil
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

// truncateEpochs drops the leader epochs that begin at or above end: the next leader may say
// otherwise of what comes there.
func (l *Log) truncateEpochs(end int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stopped != nil {
		return l.mu.stopped
	}
	epochs := *l.epochs.Load()
	kept := epochs.Below(end)
	if len(kept) == len(epochs) {
		return nil
	}
	if err := l.saveEpochs(kept); err != nil {
		return err
	}
	l.mu.leaderEpoch = kept.Latest()
	return nil
}
