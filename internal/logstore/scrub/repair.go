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

// repairedMax is the maximum number of repairs that the state contains.
const repairedMax = 16

// repair replaces the damaged files of a segment, all of which are derived from the segment's data
// file, checks them again, and records the result. If a pass of the cleaner runs in the log, or if
// the segment has changed, the target is checked again later.
func (s *Scrubber) repair(ctx context.Context, log *logstore.Log, t Target,
	places []inspect.Damage) {
	if s.opts.Cleaning(log) {
		s.recheckLater(t)
		return
	}
	files := damagedFiles(places)
	for _, file := range files {
		sealed, exists := atRest(log, t.Base)
		if !exists {
			return
		}
		err := sealed.Repair(ctx, filepath.Ext(file))
		if errors.Is(err, segmentlist.ErrChanged) {
			s.recheckLater(t)
			return
		}
		if err != nil {
			s.opts.Logger.Warn("failed to repair a file at rest", "file", file, "error", err)
			return
		}
	}
	left, err := s.check(t)
	if err != nil || len(left) > 0 {
		s.opts.Logger.Warn("damage remains after a repair", "partition", t.id(), "segment", t.Base,
			"places", left, "error", err)
		return
	}
	s.repaired.Add(int64(len(files)))
	s.update(func(state State) State { return state.Mended(t, time.Now()) })
	s.opts.Logger.Warn("damage at rest repaired", "partition", t.id(), "segment", t.Base, "files",
		files)
	s.save(time.Now(), true)
	if slices.ContainsFunc(files, func(file string) bool {
		return filepath.Ext(file) == segment.DeadExtension
	}) {
		s.opts.Clean(log)
	}
}

// recheckLater makes Run check a target again after retryDelay.
func (s *Scrubber) recheckLater(t Target) {
	if !slices.Contains(s.recheck, t) {
		s.recheck = append(s.recheck, t)
	}
	s.recheckAt = time.Now().Add(retryDelay)
}

// visitAgain checks the next target in recheck, and returns how long to wait afterwards. If the
// repair of a target waits for a pass, which may take hours, the target is not read before the pass
// has ended.
func (s *Scrubber) visitAgain(ctx context.Context) (wait time.Duration) {
	next := s.recheck[0]
	s.recheck = s.recheck[1:]
	if s.waitsForPass(next) {
		s.recheckLater(next)
		return 0
	}
	if wait = s.visit(ctx, next); wait > 0 {
		s.recheck = append(s.recheck, next)
	}
	return wait
}

// waitsForPass reports whether a target has derived files to repair while a pass runs in the
// target's log.
func (s *Scrubber) waitsForPass(t Target) bool {
	state := s.State()
	index, known := state.damaged(t)
	if !known || t.Base < 0 || t.Retained != "" || ofRecords(state.Damaged[index].Places) {
		return false
	}
	log := s.store.Log(t.id())
	return log != nil && s.opts.Cleaning(log)
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

// Mended returns the state after a target's damaged files were replaced by correct files.
func (s State) Mended(t Target, now time.Time) State {
	index, found := s.damaged(t)
	if !found {
		return s
	}
	mended := s.Damaged[index]
	mended.Repaired = now
	s.Repaired = append(slices.Clone(s.Repaired), mended)
	s.Repaired = s.Repaired[max(0, len(s.Repaired)-repairedMax):]
	return s.Checked(t, nil, now)
}
