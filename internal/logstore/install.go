package logstore

import (
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore/datadir"
	"heartwood.dev/heartwood/internal/logstore/durability"
	"heartwood.dev/heartwood/internal/logstore/epochfile"
	"heartwood.dev/heartwood/internal/logstore/fault"
	"heartwood.dev/heartwood/internal/logstore/reader"
	"heartwood.dev/heartwood/internal/logstore/recovery"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/logstore/snapshots"
	"heartwood.dev/heartwood/internal/logstore/swap"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// newLog returns a log whose directory exists. The log has no segments and no state yet; install
// adds them.
func newLog(env environment, id PartitionID, topic TopicID, dir string, config *config) *Log {
	files := swap.Dir{FS: env.fs, Path: dir, Config: env.segments, Logger: env.logger}
	l := &Log{id: id, dir: dir, env: env, files: files, snapshots: snapshots.New(files),
		notes: datadir.NewNotes(env.fs, dir)}
	l.fault = fault.State{ID: id, Logger: env.logger, Mu: &l.mu.Mutex, Failed: env.failed}
	l.epochs = epochfile.File{FS: env.fs, Dir: dir, Maintain: &l.maintain, Mu: &l.mu.Mutex,
		Fault: &l.fault}
	l.disk.Log = durability.Env{ID: id, Logger: env.logger, List: &l.list, Offsets: &l.offsets,
		Snapshots: &l.snapshots, Fault: &l.fault, Truncations: &l.truncations,
		Maintain: &l.maintain, Mu: &l.mu.Mutex}
	l.reader = reader.Reader{List: &l.list, Offsets: &l.offsets, Dir: dir,
		Verification: env.verification,
		Damaged:      func(h *segmentlist.Handle) { env.damaged(id, h.Base()) }}
	view := compactionView{l}
	l.compaction.Init(view.environment(), view.sidecarSource(), &l.maintain, &l.mu.Mutex)
	l.offsets.Restore(0, 0, 0, &l.mu.producers)
	l.topic.Store(&topic)
	l.config.Store(config)
	l.compaction.Sidecars.Enable(config.settings.Compact)
	return l
}

// unconfigured returns the settings of a log until Store.Create configures it. With these settings
// nothing is deleted or cleaned.
func unconfigured() topicconfig.Settings {
	s := topicconfig.Default()
	s.Delete, s.Compact = false, false
	return s
}

// recover recovers the log from its directory, and installs the recovered state. If it fails, it
// leaves no file open.
func (l *Log) recover(in recovery.Input) (recovery.Found, error) {
	found, err := recovery.Run(in)
	if err != nil {
		return recovery.Found{}, err
	}
	if err := l.install(in, found); err != nil {
		for _, h := range found.Handles {
			err = errors.Join(err, h.Close())
		}
		return recovery.Found{}, err
	}
	return found, nil
}

// install stores the recovered state in the log. It writes the epoch file before it publishes the
// segments. No lock is needed, because no other goroutine uses the log yet.
func (l *Log) install(in recovery.Input, found recovery.Found) error {
	if err := l.epochs.Restore(found.Epochs, found.EpochsOnDisk, found.EpochsUnusable,
		in.Saved.RecoveryPoint); err != nil {
		return err
	}
	l.savedStart.Store(in.Saved.LogStart)
	l.mu.producers = found.Producers
	l.offsets.Restore(found.LogStart, found.HighWatermark, found.End, &l.mu.producers)
	l.offsets.RestoreEnded(found.Ended)
	l.compaction.Progress.Restore(in.Saved, found.LogStart, found.End)
	l.disk.Start(found.Handles, found.End, in.Saved.RecoveryPoint)
	if active := found.Handles[len(found.Handles)-1]; active.SizeBytes() > 0 {
		l.mu.firstAppend = in.Now
		if first, ok := active.FirstTimestamp(); ok && first > 0 && first < in.Now.UnixMilli() {
			l.mu.firstAppend = time.UnixMilli(first)
		}
	}
	// The active segment is read mostly for records that this process has appended.
	found.Handles[len(found.Handles)-1].SetVerified()
	l.list.Publish(found.Handles)
	return nil
}
