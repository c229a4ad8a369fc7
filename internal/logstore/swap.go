package logstore

import (
	"errors"
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/swap"
)

// segmentSwap is one replacement of adjacent segments by cleaned segments. Log.maintain is held
// while it runs.
type segmentSwap struct {
	log *Log
	// sources are adjacent segments in the log's list, below the active segment.
	sources []*segment.Segment
	// cleaned are sealed segments whose files have the suffix .cleaned.
	cleaned []*segment.Segment
}

// replaceIn replaces the segments in sources by the segments in cleaned. The replacement has one
// commit point and survives a crash (docs/internals/format/swap.md). Readers of the old files can
// continue reading. The caller must not use the cleaned segments afterwards, even if replaceIn
// fails.
//
// truncations is the number of truncations of the log (Compaction.Truncations) when the cleaned
// segments were computed. replaceIn fails with segmentlist.ErrChanged, and changes nothing, if the
// log was truncated since then: the truncation may have removed a record that superseded records
// which the cleaned segments lack. It fails in the same way if the source segments are no longer
// adjacent in the log's segment list.
//
// Before any source is removed, replaceIn ensures that a producer snapshot exists at the end of the
// sources. A pass keeps only the last batch of each producer. If a truncation later removes this
// batch, the producer state cannot be rebuilt from the remaining batches without the snapshot.
func (l *Log) replaceIn(truncations int64, sources, cleaned []*segment.Segment) error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	s := segmentSwap{log: l, sources: sources, cleaned: cleaned}
	behind, err := s.check()
	if err == nil {
		err = l.snapshots.EnsureAt(behind, behind[len(behind)-1].Base())
	}
	if err == nil && l.truncations.Load() != truncations {
		err = segmentlist.ErrChanged
	}
	if err != nil {
		return errors.Join(err, swap.Discard(cleaned))
	}
	return s.run()
}

// run renames the files and publishes the new list.
func (s segmentSwap) run() error {
	// Renaming a segment opens its files. They are opened in advance, because after the commit
	// point a rename must not fail for lack of a file descriptor.
	unpin, err := swap.PinAll(slices.Concat(s.sources, s.cleaned))
	if err != nil {
		return errors.Join(fmt.Errorf("%w: replace segments: %w", ErrStorage, err),
			swap.Discard(s.cleaned))
	}
	files := s.log.files
	if err := files.Commit(s.sources, s.cleaned); err != nil {
		unpin()
		// The commit point was not reached, so everything is reverted. If the revert fails too, a
		// restart removes the files.
		return errors.Join(fmt.Errorf("%w: replace segments: %w", ErrStorage, err),
			files.Withdraw(s.cleaned))
	}
	err = files.Finish(s.sources, s.cleaned)
	unpin() // unpin the files before any segment is closed
	if err != nil {
		// After the commit point the directory is newer than the segment list, and only a restart
		// reconciles the two. Until the restart, readers continue with the sources. The sources' files
		// stay open, regardless of their current names.
		err = fmt.Errorf("finish replacing segments: %w", err)
		s.log.fault.Fail(err)
		return errors.Join(fmt.Errorf("%w: %w", ErrStorage, err), swap.CloseSegments(s.cleaned))
	}
	s.publish()
	return nil
}

// check verifies the preconditions of a swap. It returns the log's segments up to and including the
// first segment after the sources. The caller holds Log.maintain, so the result stays valid: only a
// roll can still change the list, at the list's end.
func (s segmentSwap) check() (behind []*segmentlist.Handle, err error) {
	l := s.log
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.fault.StoppedLocked() != nil {
		return nil, l.fault.StoppedLocked()
	}
	handles := l.list.Handles()
	first, ok := segmentlist.Find(handles, s.sources)
	if !ok || first+len(s.sources) == len(handles) {
		return nil, segmentlist.ErrChanged
	}
	end := handles[first+len(s.sources)].Base()
	if sealed := l.disk.SealedEnd(); end > sealed {
		return nil, fmt.Errorf("replace segments: they end at %d, and the log is sealed and "+
			"checkpointed up to %d only", end, sealed)
	}
	if len(s.cleaned) == 0 || s.cleaned[0].Base() != s.sources[0].Base() {
		return nil, fmt.Errorf("replace segments: the first of %d new ones does not begin at %d",
			len(s.cleaned), s.sources[0].Base())
	}
	for i, c := range s.cleaned {
		next := end
		if i+1 < len(s.cleaned) {
			next = s.cleaned[i+1].Base()
		}
		if c.NextOffset() > next || c.Base() >= next {
			return nil, fmt.Errorf("replace segments: [%d, %d) reaches beyond %d", c.Base(),
				c.NextOffset(), next)
		}
	}
	return handles[:first+len(s.sources)+1], nil
}

// publish makes the cleaned segments visible to readers. The files of each source are deleted when
// its last reader releases it.
func (s segmentSwap) publish() {
	l := s.log
	fresh := make([]*segmentlist.Handle, len(s.cleaned))
	for i, c := range s.cleaned {
		fresh[i] = l.files.HandleOf(c)
	}
	l.mu.Lock()
	handles := l.list.Handles()
	// Find succeeds, because Log.maintain has been held since check.
	first, _ := segmentlist.Find(handles, s.sources)
	for _, h := range handles[first : first+len(s.sources)] {
		h.Doomed.Store(true)
	}
	old := l.list.Publish(slices.Concat(handles[:first], fresh,
		handles[first+len(s.sources):]))
	l.mu.Unlock()
	old.Release()
}
