package logstore

import (
	"slices"

	"heartwood.dev/heartwood/internal/compress"
	"heartwood.dev/heartwood/internal/logstore/clean"
	"heartwood.dev/heartwood/internal/logstore/compaction"
	"heartwood.dev/heartwood/internal/logstore/compressmeter"
	"heartwood.dev/heartwood/internal/logstore/segment"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/sidecars"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Compaction is the cleaner's view of a log; see package compaction.
type Compaction = compaction.Compaction

// Compaction returns the cleaner's view of the log.
func (l *Log) Compaction() *Compaction { return &l.compaction }

// compactionView is the view of a log for its Compaction and its key sidecars.
type compactionView struct{ *Log }

// environment returns the functions through which the Compaction uses the log.
func (v compactionView) environment() compaction.Env {
	l := v.Log
	return compaction.Env{ID: l.id, FS: l.env.fs, Dir: l.dir, Logger: l.env.logger,
		Segments: l.env.segments,
		List:     &l.list, Offsets: &l.offsets, TopicID: l.TopicID,
		Settings: func() *topicconfig.Settings { return &l.config.Load().settings },
		Fault:    l.Fault, Truncations: l.truncations.Load, SealedEnd: l.disk.SealedEnd,
		SavedStart: l.savedStart.Load, EpochAt: l.EpochAt, Producers: v.producers,
		Flush: l.disk.Flush, Save: l.env.saveCheckpoints, Roll: l.rollNow, Replace: l.replaceIn,
		Record: v.record, Keep: v.keep,
		Compress: func() compress.Func { return l.env.compress(compressmeter.SiteClean) }}
}

// producers returns each active producer's last batch, which a pass keeps (cleaner invariant I25).
func (v compactionView) producers() map[int64]clean.Producer {
	v.mu.Lock()
	defer v.mu.Unlock()
	last := v.mu.producers.LastBatches()
	all := make(map[int64]clean.Producer, len(last))
	for id, batch := range last {
		all[id] = clean.Producer(batch)
	}
	return all
}

// record calls store under Log.mu, with the base offset of the first segment. A truncation changes
// Log.truncations and the first dirty offset under this lock. record fails with
// segmentlist.ErrChanged unless the log's number of truncations is still truncations.
func (v compactionView) record(truncations int64, store func(first int64)) error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.truncations.Load() != truncations {
		return segmentlist.ErrChanged
	}
	store(v.list.Handles()[0].Base())
	return nil
}

// keep calls do under Log.maintain with the segment's handle, unless the segment is no longer in
// the log.
func (v compactionView) keep(s *segment.Segment, do func(h *segmentlist.Handle) error) error {
	v.maintain.Lock()
	defer v.maintain.Unlock()
	v.mu.Lock()
	stopped, handles := v.fault.StoppedLocked(), v.list.Handles()
	v.mu.Unlock()
	if stopped != nil {
		return stopped
	}
	index, found := segmentlist.Find(handles, []*segment.Segment{s})
	if !found {
		return nil // retention has deleted the segment
	}
	return do(handles[index])
}

// sidecarSource returns the functions and values through which the key sidecars use the log.
func (v compactionView) sidecarSource() sidecars.Source {
	l := v.Log
	return sidecars.Source{Settings: l.Settings, Acquire: l.list.Acquire,
		CleanableEnd: l.disk.SealedEnd, Truncations: l.truncations.Load,
		OwnsSealed: v.ownsSealed}
}

// ownsSealed reports whether segment h is sealed and in the log's segment list, and the log's
// number of truncations is still truncations. The caller holds Log.maintain, so the result stays
// valid until it releases the lock.
func (v compactionView) ownsSealed(h *segmentlist.Handle, truncations int64) bool {
	v.mu.Lock()
	defer v.mu.Unlock()
	list := v.list.Load()
	return list != nil && !h.Doomed.Load() && slices.Contains(list.Handles, h) &&
		list.Active() != h && v.truncations.Load() == truncations
}
