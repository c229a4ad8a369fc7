package datadir

import (
	"errors"
	"log/slog"
	"math"

	"heartwood.dev/heartwood/internal/logstore/checkpoint"
	"heartwood.dev/heartwood/internal/vfs"
)

// unknownSource is the copy source of a log whose file copy.source is damaged. It is no leader's
// id, so the log is copied again unless the replica is in sync.
const unknownSource = math.MaxInt32

// damagedLoss is the cause of a loss whose file is damaged.
const damagedLoss = "the file " + LossFile + " was damaged, which states that records were lost"

// LoadIdentity reads the topic id and the reclaim policy of a log that is opened. If
// partition.metadata is malformed, the topic is unknown (zero), as if the file did not exist. A
// malformed reclaim.policy is replaced by one that keeps the data, because that can be undone.
func LoadIdentity(fsys vfs.FS, dir string, logger *slog.Logger) (topic TopicID, retain bool,
	err error) {
	topic, err = ReadTopicID(fsys, dir)
	if errors.Is(err, ErrMalformed) {
		logger.Warn("damaged topic id ignored; it is taken from the metadata", "error", err)
		topic, err = TopicID{}, nil
	}
	if err != nil {
		return topic, true, err
	}
	err = checkPolicy(fsys, dir)
	if errors.Is(err, ErrMalformed) {
		logger.Warn("damaged reclaim policy replaced by one that keeps the data", "error", err)
		return topic, true, WritePolicy(fsys, dir, true)
	}
	if err != nil {
		return topic, true, err
	}
	retain, err = ReadPolicy(fsys, dir)
	return topic, retain, err
}

// LoadRetained reads the file "retained" of a log that is opened, which repeats the values of the
// checkpoints. A malformed file has no values, and the log was not closed cleanly.
func LoadRetained(fsys vfs.FS, dir string, logger *slog.Logger) (r Retained, ok bool, err error) {
	r, ok, err = ReadRetained(fsys, dir)
	if errors.Is(err, ErrMalformed) {
		logger.Warn("damaged values of a kept log ignored; the log is scanned", "error", err)
		return Retained{Saved: checkpoint.State{RecoveryPoint: checkpoint.UnknownOffset}}, true, nil
	}
	return r, ok, err
}

// replaceDamaged replaces the notes that are malformed when a log is opened. The new content leads
// to a decision that is safe whatever the file contained: at most, the log is copied again.
func (n *Notes) replaceDamaged(logger *slog.Logger) error {
	read := func(file string) error {
		switch file {
		case AssignmentFile:
			_, err := n.ReplicaIncarnation()
			return err
		case CopySourceFile:
			_, err := n.CopySource()
			return err
		case CopyGapFile:
			_, err := n.CopyGap()
			return err
		}
		_, err := readLoss(n.fs, n.dir)
		return err
	}
	replace := map[string]func() error{
		// The log counts as one of another incarnation.
		AssignmentFile: func() error { return n.remove(AssignmentFile) },
		CopySourceFile: func() error { return n.SetCopySource(unknownSource) },
		// A loss in any leader epoch counts.
		CopyGapFile: func() error { return n.SetCopyGap(0) },
		LossFile:    func() error { return n.SetLoss(damagedLoss) },
	}
	for _, file := range noteFiles {
		err := read(file)
		if errors.Is(err, ErrMalformed) {
			logger.Warn("damaged note of the replica replaced", "file", file, "error", err)
			err = replace[file]()
		}
		if err != nil {
			return err
		}
	}
	return nil
}
