package logstore

import (
	"fmt"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/keys"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/repair"
	"heartwood.dev/heartwood/internal/logstore/swap"
)

// ErrNotInMemory is returned for a damaged file whose content is not in this process's memory.
var ErrNotInMemory = datadir.ErrNotInMemory

// SmallFiles are the files of a log that belong to no segment.
type SmallFiles struct{ Log *Log }

// Rewrite replaces a damaged file by one with the correct content, and removes a file that is not
// needed. It fails with ErrNotInMemory if the log does not know the content.
func (f SmallFiles) Rewrite(name string) error {
	l := f.Log
	if file, ok := swap.ParseFile(name); ok && file.Kind == swap.SnapshotSuffix {
		return f.rewriteSnapshot(file.Base)
	}
	if name == datadir.RetainedFile {
		return l.env.saveCheckpoints() // afterwards the store removes the file of a reopened log
	}
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if err := f.stopped(); err != nil {
		return err
	}
	switch topic := l.TopicID(); {
	case name == checkpoint.EpochsFile:
		return l.epochs.Rewrite()
	case name == keys.SaltFile:
		return l.compaction.Sidecars.RewriteSalt()
	case name == datadir.PartitionFile && topic != TopicID{}:
		return datadir.WriteTopicID(l.env.fs, l.dir, topic)
	case name == datadir.PolicyFile:
		return datadir.WritePolicy(l.env.fs, l.dir, l.Retain())
	}
	return l.notes.Rewrite(name)
}

// SetTopicID replaces a topic id that is unknown or wrong because its file is damaged.
func (f SmallFiles) SetTopicID(topic TopicID) error {
	l := f.Log
	l.maintain.Lock()
	defer l.maintain.Unlock()
	if err := f.stopped(); err != nil {
		return err
	}
	if err := datadir.WriteTopicID(l.env.fs, l.dir, topic); err != nil {
		return fmt.Errorf("%w: %w", ErrStorage, err)
	}
	l.topic.Store(&topic)
	return nil
}

// rewriteSnapshot recomputes a damaged producer snapshot; see repair.Snapshot.
func (f SmallFiles) rewriteSnapshot(offset int64) error {
	l := f.Log
	truncations := l.truncations.Load()
	return repair.Snapshot{Offset: offset, LogEnd: l.LogEnd(), List: &l.list, Files: &l.snapshots,
		Truncating: &l.truncating, Maintain: &l.maintain,
		Idle: func(below int64) producer.State {
			l.mu.Lock()
			defer l.mu.Unlock()
			return l.mu.producers.Idle(below)
		},
		Unchanged: func() bool {
			return l.truncations.Load() == truncations && f.stopped() == nil
		}}.Replace()
}

// stopped returns the reason why the log is stopped or closed, or nil. The directory of a closed
// log may belong to another log.
func (f SmallFiles) stopped() error {
	f.Log.mu.Lock()
	defer f.Log.mu.Unlock()
	return f.Log.fault.StoppedLocked()
}

// Known returns the content that this process last read from a file or wrote to it. ok is false if
// the log does not know the whole content.
func (f SmallFiles) Known(name string) (content []byte, ok bool) {
	switch name {
	case checkpoint.EpochsFile:
		return f.Log.epochs.Known()
	case keys.SaltFile:
		return f.Log.compaction.Sidecars.KnownSalt()
	}
	return f.Log.notes.Known(name)
}

// DirectoryFiles are the small files that a store writes to its data directory.
type DirectoryFiles struct{ Store *Store }

// BootEpoch returns the broker epoch of the first process in this directory since the machine has
// booted. The directory contains all that this process and later ones have written, even if they
// were killed. It returns 0 if there was no such process, or if that is unknown.
func (f DirectoryFiles) BootEpoch() int64 { return f.Store.bootEpoch }

// Rewrite replaces a damaged file by one with the correct content. It fails with ErrNotInMemory if
// the store does not know the content.
func (f DirectoryFiles) Rewrite(name string) error {
	s := f.Store
	switch name {
	case datadir.MetaFile:
		return datadir.WriteMeta(s.opts.FS, s.opts.Dir, s.meta)
	case datadir.FormatLevelFile:
		s.changes.Lock()
		defer s.changes.Unlock()
		return datadir.WriteFormatLevel(s.opts.FS, s.opts.Dir, s.FormatLevel())
	case datadir.BootFile:
		s.changes.Lock()
		defer s.changes.Unlock()
		return datadir.WriteBoot(s.opts.FS, s.opts.Dir, s.boot)
	case checkpoint.SegmentsFile:
		return datadir.RemoveClosed(s.opts.FS, s.opts.Dir)
	}
	s.saving.Lock()
	known := s.saving.files.Forget(name)
	s.saving.Unlock()
	if !known {
		return fmt.Errorf("%s: %w", name, ErrNotInMemory)
	}
	return s.save()
}

// Known returns the content that this process last read from a file or wrote to it. ok is false if
// the store does not know the whole content.
func (f DirectoryFiles) Known(name string) (content []byte, ok bool) {
	if name == datadir.MetaFile {
		return f.Store.meta, true
	}
	f.Store.saving.Lock()
	defer f.Store.saving.Unlock()
	return f.Store.saving.files.Known(name)
}
