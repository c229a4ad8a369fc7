package logstore

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
)

// truncateFiles truncates the log to the new end, which is above the log start. The segment that
// contains the new end becomes active.
func (t *truncation) truncateFiles(handles []*segmentlist.Handle) error {
	l, end := t.log, t.target.end
	index := segmentlist.Floor(handles, end)
	if end <= l.offsets.LogStart() {
		return fmt.Errorf("%w: truncate to %d: the log begins at %d by now", ErrOffsetOutOfRange,
			end, l.offsets.LogStart())
	}
	// The producer state depends only on the remaining batches, so it can be computed before any
	// file is removed.
	state, _, err := l.snapshots.StateAt(handles[:index+1], end, end)
	if err != nil {
		return fmt.Errorf("%w: truncate to %d: %w", ErrStorage, end, err)
	}
	state.SetLogStart(l.offsets.LogStart())
	held, err := t.holdFiles(handles[index:index+1], handles[index+1:])
	if err != nil {
		return fmt.Errorf("%w: truncate to %d: %w", ErrStorage, end, err)
	}
	defer held.release()
	// The segment's .keys and .dead files also describe records that will be removed. They are
	// removed now, because a later check would reject them.
	for _, extension := range []string{segment.KeysExtension, segment.DeadExtension} {
		name := l.compaction.Sidecars.Path(handles[index].Base(), extension, "")
		if err := l.env.fs.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("%w: truncate to %d: %w", ErrStorage, end, err)
		}
	}
	if err := t.markRemoved(handles[index+1:], held.listed); err != nil {
		return t.stop(err)
	}
	held.releaseRemoved() // the removed segments must be unpinned before publish closes them
	fresh := handles[index].Successor()
	t.publish(state, handles, append(slices.Clone(handles[:index]), fresh))
	if err := t.truncateSegment(fresh, held.release); err != nil {
		return t.stop(err)
	}
	// At this point everything is truncated except the epoch file. If the disk has no space for
	// this file, the caller calls TruncateTo again, which then only truncates the epochs.
	if err := l.epochs.TruncateEnd(t.target.epochsFrom); err != nil && !segmentlist.IsTemporary(err) {
		return t.stop(err)
	} else if err != nil {
		return err
	}
	return nil
}

// markRemoved durably marks segments as deleted, starting with the last segment, and removes the
// producer snapshots above the new end. If a crash keeps only some of the marks, recovery ends the
// log at the first missing segment, because the recovery point on disk is below that segment.
func (t *truncation) markRemoved(handles []*segmentlist.Handle, files []swap.File) error {
	for _, h := range slices.Backward(handles) {
		if err := h.Rename(swap.DeletedSuffix); err != nil {
			return err
		}
	}
	return t.log.snapshots.RemoveAbove(files, t.target.end)
}

// publish changes the state in memory to the truncated log: the producer state at the new end, and
// the segments in after. It lowers the offsets before it publishes the new segment list. So a
// reader that loads the new list reads only below the new end (readFrom).
func (t *truncation) publish(state producer.State, before, after []*segmentlist.Handle) {
	l, end := t.log, t.target.end
	l.mu.Lock()
	active := after[len(after)-1]
	l.compaction.Sidecars.InvalidateLocked(l.list.Handles())
	l.disk.TruncateLocked(end)
	l.disk.ForgetLocked(func(h *segmentlist.Handle) bool { return h.Base() >= active.Base() })
	l.truncations.Add(1)
	l.mu.producers = state
	l.compaction.Progress.Truncated(active.Base(), end)
	if end <= active.Base() {
		l.mu.firstAppend = time.Time{}
	}
	l.offsets.Lower(min(l.offsets.LogStart(), end), end, &l.mu.producers)
	for _, h := range before {
		if !slices.Contains(after, h) && h.Segment != active.Segment {
			h.Doomed.Store(true)
		}
	}
	old := l.list.Publish(after)
	l.mu.Unlock()
	old.Release()
}

// truncateSegment durably truncates the new active segment. Without the sync, a crash could leave
// old records behind records that are appended later, with matching offsets and checksums.
//
// The file is truncated in place once its readers have released it. If readers still hold it after
// truncateWait, they keep the file, and the log continues with a copy of the remaining part: a slow
// consumer must not delay the replica, and must receive as many bytes as its response has
// announced.
//
// The file is pinned. truncateSegment calls release to unpin the file before the file is replaced,
// because a replaced file may be closed at once.
func (t *truncation) truncateSegment(fresh *segmentlist.Handle, release func()) error {
	end := t.target.end
	position, err := fresh.Position(end)
	if err != nil {
		return err
	}
	if position < fresh.SizeBytes() && !fresh.AwaitReaders(truncateWait) {
		release()
		return t.replaceByHead(fresh)
	}
	if err := fresh.Truncate(end); err != nil {
		return err
	}
	return fresh.Sync()
}

// replaceByHead replaces the active segment by a copy of the batches below the new end, in the same
// way as a swap (docs/internals/format/swap.md).
func (t *truncation) replaceByHead(fresh *segmentlist.Handle) error {
	l, end := t.log, t.target.end
	head, err := segment.Create(l.env.fs, l.dir, fresh.Base(), swap.CleanedSuffix, l.env.segments)
	if err != nil {
		return err
	}
	sources, copied := []*segment.Segment{fresh.Segment}, []*segment.Segment{head}
	if err := copyHead(fresh.Segment, head, end); err != nil {
		return errors.Join(err, swap.Discard(copied))
	}
	if err := l.files.Commit(sources, copied); err != nil {
		return errors.Join(err, l.files.Withdraw(copied))
	}
	if err := l.files.Finish(sources, copied); err != nil {
		return errors.Join(err, swap.CloseSegments(copied))
	}
	// Truncate removes no batch here, but makes the sealed segment writable again.
	if err := head.Truncate(end); err != nil {
		return err
	}
	l.mu.Lock()
	handles := l.list.Handles()
	fresh.Doomed.Store(true)
	old := l.list.Publish(append(slices.Clone(handles[:len(handles)-1]), l.files.HandleOf(head)))
	l.mu.Unlock()
	old.Release()
	return nil
}

// replaceFiles removes every segment and creates an empty segment. It first marks the old segments
// as deleted, because the new segment may have the same name as an old segment. If the disk has no
// space for the new segment, it reverts the marks, and nothing is removed.
func (t *truncation) replaceFiles(handles []*segmentlist.Handle) error {
	l, offset := t.log, t.target.end
	held, err := t.holdFiles(nil, handles)
	if err != nil {
		return fmt.Errorf("%w: start again at %d: %w", ErrStorage, offset, err)
	}
	defer held.release()
	active, err := t.markAllRemoved(handles)
	if err != nil && segmentlist.IsTemporary(err) {
		return errors.Join(fmt.Errorf("%w: start again at %d: %w", ErrStorage, offset, err),
			t.revertMarks(handles))
	}
	if err != nil {
		return t.stop(err)
	}
	// Neither the producer snapshots nor the leader epochs apply to the new log. If the epoch file
	// does not exist, a start rebuilds the epochs from the batches.
	err = l.snapshots.RemoveAbove(held.listed, -1)
	if err == nil {
		err = l.epochs.Remove()
	}
	if err != nil {
		return t.stop(errors.Join(err, active.Close()))
	}
	held.release() // the segments must be unpinned before publishEmpty closes them
	t.publishEmpty(handles, active)
	return nil
}

// markAllRemoved durably marks all segments as deleted, and durably creates the new, empty segment.
func (t *truncation) markAllRemoved(handles []*segmentlist.Handle) (*segmentlist.Handle, error) {
	l, offset := t.log, t.target.end
	for _, h := range slices.Backward(handles) {
		if err := h.Rename(swap.DeletedSuffix); err != nil {
			return nil, err
		}
	}
	if err := l.files.Sync(); err != nil {
		return nil, err
	}
	active, err := l.files.Create(offset, l.config.Load().indexes(l.env.segments))
	if err != nil {
		return nil, err
	}
	if err := active.Sync(); err != nil {
		return nil, errors.Join(fmt.Errorf("%w: start again at %d: %w", ErrStorage, offset, err),
			active.Remove(), active.Close())
	}
	return active, nil
}

// revertMarks removes the marks that markAllRemoved has set. If it fails, the log stops, because
// recovery would find an empty log.
func (t *truncation) revertMarks(handles []*segmentlist.Handle) error {
	for _, h := range handles {
		if err := h.Rename(""); err != nil {
			return t.stop(err)
		}
	}
	if err := t.log.files.Sync(); err != nil {
		return t.stop(err)
	}
	return nil
}

// publishEmpty changes the state in memory to an empty log, whose only segment is active.
func (t *truncation) publishEmpty(before []*segmentlist.Handle, active *segmentlist.Handle) {
	l, offset := t.log, t.target.end
	l.mu.Lock()
	l.compaction.Sidecars.InvalidateLocked(l.list.Handles())
	l.disk.RestartLocked(offset)
	l.truncations.Add(1)
	l.mu.producers, l.mu.firstAppend = producer.State{}, time.Time{}
	l.snapshots.ForgetPending()
	l.compaction.Progress.Emptied(offset)
	l.offsets.Lower(offset, offset, &l.mu.producers)
	for _, h := range before {
		h.Doomed.Store(true)
	}
	old := l.list.Publish([]*segmentlist.Handle{active})
	l.mu.Unlock()
	old.Release()
}
