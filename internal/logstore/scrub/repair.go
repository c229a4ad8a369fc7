package scrub

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
)

const (
	// repairedMax is the number of repairs that the state contains.
	repairedMax = 16
	// replaceDelay is the delay after records could not be replaced, usually because no other
	// replica is in sync. Each attempt reads the whole segment.
	replaceDelay = 5 * time.Minute
)

// repair replaces the damaged files of a segment, all of which are derived from the segment's data
// file, checks them again, and records the result. If a pass of the cleaner runs in the log, or if
// the segment has changed, the target is checked again later.
func (s *Scrubber) repair(ctx context.Context, log *logstore.Log, t Target,
	places []inspect.Damage) {
	if s.opts.Cleaning(log) {
		s.recheckLater(t, retryDelay)
		return
	}
	files := damagedFiles(places)
	for _, file := range files {
		sealed, exists := atRest(log, t.Base)
		if !exists {
			return
		}
		err := sealed.Repair(ctx, filepath.Ext(file), s.files.pace.pause)
		if errors.Is(err, segmentlist.ErrChanged) || stopped(err) {
			s.recheckLater(t, retryDelay)
			return
		}
		if err != nil {
			s.opts.Logger.Warn("failed to repair a file at rest", "file", file, "error", err)
			return
		}
	}
	if s.mended(t, files) && slices.ContainsFunc(files, func(file string) bool {
		return filepath.Ext(file) == segment.DeadExtension
	}) {
		s.opts.Clean(log)
	}
}

// replace replaces the damaged records of a segment by those of another replica. If that fails, the
// target is checked again later.
func (s *Scrubber) replace(ctx context.Context, log *logstore.Log, t Target,
	places []inspect.Damage) {
	sealed, exists := atRest(log, t.Base)
	if !exists {
		return
	}
	sealed.MarkDamaged()
	if s.opts.Cleaning(log) {
		s.recheckLater(t, retryDelay)
		return
	}
	err := s.opts.Replace(ctx, log, sealed, places, s.files.pace.pause)
	switch {
	case err == nil:
		s.mended(t, damagedFiles(places))
	case errors.Is(err, segmentlist.ErrChanged), stopped(err):
		s.recheckLater(t, retryDelay)
	default:
		s.opts.Logger.Warn("failed to replace damaged records", "partition", t.id(), "segment",
			t.Base, "error", err)
		s.recheckLater(t, replaceDelay)
	}
}

// mended checks a target whose damaged files were replaced, and records the repair of those that
// are healthy. It returns false if damage remains.
func (s *Scrubber) mended(t Target, files []string) bool {
	left, err := s.check(t)
	if err != nil {
		s.opts.Logger.Warn("failed to check files after a repair", "partition", t.id(), "segment",
			t.Base, "error", err)
		return false
	}
	damaged := damagedFiles(left)
	mended := slices.DeleteFunc(slices.Clone(files),
		func(file string) bool { return slices.Contains(damaged, file) })
	if len(mended) < len(files) {
		s.opts.Logger.Warn("damage remains after a repair", "partition", t.id(), "segment", t.Base,
			"places", left)
	}
	if len(mended) > 0 {
		s.repaired.Add(int64(len(mended)))
		s.update(func(state State) State { return state.Mended(t, mended, left, time.Now()) })
		s.opts.Logger.Warn("damage at rest repaired", "partition", t.id(), "segment", t.Base,
			"files", mended)
		s.save(time.Now(), true)
	}
	return len(left) == 0
}

// damagedFiles returns the files in places, each file once.
func damagedFiles(places []inspect.Damage) (files []string) {
	for _, place := range places {
		if !slices.Contains(files, place.File) {
			files = append(files, place.File)
		}
	}
	return files
}

// Mended returns the state after damaged files of a target were replaced by correct files. left is
// the damage that remains.
func (s State) Mended(t Target, files []string, left []inspect.Damage, now time.Time) State {
	index, found := s.damaged(t)
	if !found {
		return s
	}
	mended := s.Damaged[index]
	mended.Repaired = now
	mended.Places = slices.DeleteFunc(slices.Clone(mended.Places),
		func(p inspect.Damage) bool { return !slices.Contains(files, p.File) })
	s.Repaired = append(slices.Clone(s.Repaired), mended)
	s.Repaired = s.Repaired[max(0, len(s.Repaired)-repairedMax):]
	return s.Checked(t, left, now)
}
