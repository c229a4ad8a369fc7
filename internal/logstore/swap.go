package logstore

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"

	"heartwood.dev/heartwood/internal/logstore/segment"
)

// errSegmentsChanged is returned by replaceSegments when the sources are not neighbours in the log
// any more.
var errSegmentsChanged = errors.New("segments changed meanwhile")

// replaceSegments puts cleaned segments (suffix .cleaned, sealed) in the place of sources, as one
// commit point that survives a crash (docs/format/swap.md). Sources must be neighbours of the
// current list; if they are not any more (retention took one), it fails with errSegmentsChanged and
// changes nothing. Readers of the old files go on. It owns cleaned, also when it fails.
func (l *Log) replaceSegments(sources, cleaned []*segment.Segment) error {
	return l.replaceIn(l.lineage.Load(), sources, cleaned)
}

// replaceIn is replaceSegments of what was computed in a lineage: if the log was truncated since,
// the records that superseded others may be gone, and it fails with errSegmentsChanged.
//
// There is a producer snapshot at the end of the sources before any of them goes. A pass keeps the
// last batch of each producer as of the log end, and a truncation to below that one makes its state
// from what is left, or from there.
func (l *Log) replaceIn(lineage int64, sources, cleaned []*segment.Segment) error {
	l.maintain.Lock()
	defer l.maintain.Unlock()
	err := l.checkSwap(sources, cleaned)
	if err == nil {
		err = l.keepStateBehind(sources)
	}
	if err == nil && l.lineage.Load() != lineage {
		err = errSegmentsChanged
	}
	if err != nil {
		return errors.Join(err, discard(cleaned))
	}
	// A rename opens the files. Behind the commit point it must not fail for want of one.
	unpin, err := pinAll(slices.Concat(sources, cleaned))
	if err != nil {
		return errors.Join(fmt.Errorf("%w: replace segments: %w", ErrStorage, err),
			discard(cleaned))
	}
	if err := l.commitSwap(sources, cleaned); err != nil {
		unpin()
		// Before the commit point: take everything back. If that fails too, files stay that a
		// restart removes.
		return errors.Join(fmt.Errorf("%w: replace segments: %w", ErrStorage, err),
			l.withdrawSwap(cleaned))
	}
	err = l.finishSwap(sources, cleaned)
	unpin() // before anything is closed
	if err != nil {
		// Behind the commit point the directory is ahead of the list, and only a restart brings
		// them together. Until then readers go on with the sources, whose files are open whatever
		// they are called now.
		err = fmt.Errorf("finish replacing segments: %w", err)
		l.fail(err)
		return errors.Join(fmt.Errorf("%w: %w", ErrStorage, err), closeSegments(cleaned))
	}
	l.publishSwap(sources, cleaned)
	return nil
}

// keepStateBehind sees to it that there is a producer snapshot at the base of the segment behind
// the sources.
func (l *Log) keepStateBehind(sources []*segment.Segment) error {
	l.mu.Lock()
	handles := l.currentLocked()
	l.mu.Unlock()
	at, _ := findSegments(handles, sources) // checkSwap has found them
	return l.keepStateAt(handles, handles[at+len(sources)].Base())
}

// pinAll opens all files of the segments, until unpin.
func pinAll(segments []*segment.Segment) (unpin func(), err error) {
	var unpins []func()
	unpin = func() {
		for _, f := range unpins {
			f()
		}
	}
	for _, s := range segments {
		one, err := s.Pin()
		if err != nil {
			unpin()
			return nil, err
		}
		unpins = append(unpins, one)
	}
	return unpin, nil
}

// checkSwap holds cleaned and sources against the invariants of a swap. Log.maintain is held, so
// what is true stays true: only a roll can change the list now, and that at its end.
func (l *Log) checkSwap(sources, cleaned []*segment.Segment) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.stopped != nil {
		return l.mu.stopped
	}
	handles := l.currentLocked()
	at, ok := findSegments(handles, sources)
	if !ok || at+len(sources) == len(handles) {
		return errSegmentsChanged
	}
	end := handles[at+len(sources)].Base()
	if durable := l.durable.Load(); end > durable {
		return fmt.Errorf(
			"replace segments: they end at %d, and only what lies below %d is sealed and checkpointed",
			end,
			durable,
		)
	}
	if len(cleaned) == 0 || cleaned[0].Base() != sources[0].Base() {
		return fmt.Errorf("replace segments: the first of %d new ones does not begin at %d",
			len(cleaned), sources[0].Base())
	}
	for i, s := range cleaned {
		next := end
		if i+1 < len(cleaned) {
			next = cleaned[i+1].Base()
		}
		if s.NextOffset() > next || s.Base() >= next {
			return fmt.Errorf("replace segments: [%d, %d) reaches beyond %d", s.Base(),
				s.NextOffset(), next)
		}
	}
	return nil
}

// findSegments returns where sources stand in handles, side by side.
func findSegments(handles []*handle, sources []*segment.Segment) (at int, ok bool) {
	if len(sources) == 0 {
		return 0, false
	}
	at = slices.IndexFunc(handles, func(h *handle) bool { return h.Segment == sources[0] })
	if at < 0 || at+len(sources) > len(handles) {
		return 0, false
	}
	for i, s := range sources {
		if handles[at+i].Segment != s {
			return 0, false
		}
	}
	return at, true
}

// commitSwap makes the new segments durable under the suffix .swap. The sync of the directory at
// its end is the commit point.
func (l *Log) commitSwap(sources, cleaned []*segment.Segment) error {
	if err := l.removeStrays(cleaned); err != nil {
		return err
	}
	// Retention and lag go by the modification time where there is no timestamp, so it must not
	// become younger (I32).
	modified := sources[len(sources)-1].ModTime()
	for _, s := range cleaned {
		if err := s.SetModTime(modified); err != nil {
			return err
		}
		if err := s.Sync(); err != nil {
			return err
		}
	}
	if err := l.env.fs.SyncDir(l.dir); err != nil {
		return err
	}
	// As long as one .cleaned is left on disk a restart takes all of them back, whichever they are:
	// until the sync the disk may keep some of these renames and not others, in any order.
	// Descending is Kafka's order, for its own start-up would go by it.
	for _, s := range slices.Backward(cleaned) {
		if err := s.Rename(swapSuffix); err != nil {
			return err
		}
		if err := l.checkSwapFile(s); err != nil {
			return err
		}
	}
	return l.env.fs.SyncDir(l.dir)
}

// checkSwapFile holds the file that is about to be committed against what was written: behind the
// commit point the sources go.
func (l *Log) checkSwapFile(s *segment.Segment) error {
	name := segment.Name(s.Base(), segment.LogExtension, swapSuffix)
	info, err := l.env.fs.Stat(filepath.Join(l.dir, name))
	if err == nil && info.Size() != s.SizeBytes() {
		err = fmt.Errorf("it has %d bytes, %d were written", info.Size(), s.SizeBytes())
	}
	if err != nil {
		return fmt.Errorf("check %s: %w", name, err)
	}
	return nil
}

// removeStrays removes what an earlier swap or pass that failed has left. A stray .cleaned below
// this swap would make a restart take this one back after its sources were renamed.
func (l *Log) removeStrays(cleaned []*segment.Segment) error {
	files, err := listSegmentFiles(l.env.fs, l.dir)
	if err != nil {
		return err
	}
	ours := func(f segmentFile) bool {
		return f.suffix == cleanedSuffix &&
			slices.ContainsFunc(cleaned,
				func(s *segment.Segment) bool { return s.Base() == f.base })
	}
	swaps, err := removeFiles(l.env.fs, l.dir, files,
		func(f segmentFile) bool { return f.suffix == swapSuffix })
	if err != nil {
		return err
	}
	if swaps > 0 { // gone for good before the .cleaned that marks them as not committed
		if err := l.env.fs.SyncDir(l.dir); err != nil {
			return err
		}
	}
	_, err = removeFiles(l.env.fs, l.dir, files,
		func(f segmentFile) bool { return f.suffix == cleanedSuffix && !ours(f) })
	return err
}

// finishSwap gives the files their final names. It is behind the commit point: a crash in it leaves
// .swap files and no .cleaned, which the next start takes for committed and finishes (repair.go).
func (l *Log) finishSwap(sources, cleaned []*segment.Segment) error {
	for _, s := range sources {
		if err := s.Rename(deletedSuffix); err != nil {
			return err
		}
	}
	if err := l.env.fs.SyncDir(l.dir); err != nil {
		return err
	}
	for _, s := range cleaned {
		if err := s.Rename(""); err != nil {
			return err
		}
		// Each for good before the next: a start removes plain files above a .swap as sources, and
		// this one is none (swapRange).
		if err := l.env.fs.SyncDir(l.dir); err != nil {
			return err
		}
	}
	return nil
}

// publishSwap shows readers the new segments. The old ones' files go with their last reader.
func (l *Log) publishSwap(sources, cleaned []*segment.Segment) {
	fresh := make([]*handle, len(cleaned))
	for i, s := range cleaned {
		fresh[i] = l.handleOf(s)
	}
	l.mu.Lock()
	handles := l.currentLocked()
	at, _ := findSegments(handles, sources) // still there: Log.maintain is held since checkSwap
	for _, h := range handles[at : at+len(sources)] {
		h.doomed.Store(true)
	}
	old := l.publishLocked(slices.Concat(handles[:at], fresh, handles[at+len(sources):]))
	l.mu.Unlock()
	old.release()
}

// withdrawSwap removes the files of a swap that was not committed: those named .swap first, as in
// removeStrays.
func (l *Log) withdrawSwap(cleaned []*segment.Segment) error {
	return errors.Join(l.removeStrays(nil), discard(cleaned))
}

// discard removes segments that never became part of the log.
func discard(cleaned []*segment.Segment) error {
	var err error
	for _, s := range cleaned {
		err = errors.Join(err, s.Remove())
	}
	return errors.Join(err, closeSegments(cleaned))
}

// closeSegments closes all of them, also when one fails.
func closeSegments(segments []*segment.Segment) error {
	var err error
	for _, s := range segments {
		err = errors.Join(err, s.Close())
	}
	return err
}
