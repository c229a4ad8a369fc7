package scrub

import (
	"errors"
	"path/filepath"
	"strings"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/inspect"
	"heartwood.dev/heartwood/internal/logstore/segment"
)

// retainedTargets returns the targets in the directories of released partitions whose data is kept.
// All of their segments are at rest. If the log was not closed cleanly, the end of its last segment
// may be incomplete. A start that reuses the log repairs this segment, so it is omitted here.
func (s *Scrubber) retainedTargets() (targets []Target) {
	directories, err := s.opts.FS.ReadDir(s.opts.Dir)
	if err != nil {
		s.opts.Logger.Warn("failed to list retained logs", "error", err)
	}
	for _, directory := range directories {
		name := directory.Name()
		if !directory.IsDir() || !strings.HasSuffix(name, datadir.RetainedSuffix) {
			continue
		}
		dir := filepath.Join(s.opts.Dir, name)
		state, ok, err := datadir.ReadRetained(s.opts.FS, dir)
		if !ok || err != nil {
			state = datadir.Retained{} // the check of the first target reports a malformed file
		}
		target := Target{Topic: state.ID.Topic, Partition: state.ID.Index, Retained: name, Base: -1}
		targets = append(targets, target)
		entries, err := s.opts.FS.ReadDir(dir)
		if err != nil {
			continue // the directory was reused or removed
		}
		for _, entry := range entries { // in the order of names
			base, rest, isSegment := segment.ParseName(entry.Name())
			if isSegment && rest == segment.LogExtension {
				target.Base = base
				targets = append(targets, target)
			}
		}
		if !state.Clean && target.Base >= 0 {
			targets = targets[:len(targets)-1]
		}
	}
	return targets
}

// checkRetained checks a target in the directory of a retained log.
func (s *Scrubber) checkRetained(t Target) ([]inspect.Damage, error) {
	dir := filepath.Join(s.opts.Dir, t.Retained)
	return twice(func() ([]inspect.Damage, error) {
		if t.Base >= 0 {
			return s.checkSegment(dir, t.Base)
		}
		places, err := inspect.CheckPartition(s.files, dir)
		changed, compareErr := s.compareSmallFiles(dir, nothingKnown)
		return append(places, changed...), errors.Join(err, compareErr)
	}, func() bool {
		_, err := s.opts.FS.Stat(filepath.Join(dir, datadir.RetainedFile))
		return err == nil
	})
}
