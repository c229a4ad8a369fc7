package logstore

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/record"
)

// ErrUnexpectedOffset is the error of AppendReplicated for a batch below the log end.
var ErrUnexpectedOffset = errors.New("unexpected append offset")

// AppendReplicated appends batches as the leader has them: one or more complete ones, whose bytes
// do not change. Their offsets ascend from the log end on, with gaps where the leader's log was
// cleaned. Length and checksum are checked, and not what a topic demands of its producers: the
// leader did that, by the settings of that time.
//
// Leader epochs are those of the batches, and are durable before the first batch of each (as by
// Lead). It fails with ErrCorrupt (of package record) and ErrUnexpectedOffset for malformed
// batches, with ErrFencedLeaderEpoch for a batch of an earlier epoch than the log knows (epochs
// never fall along a log), and as Append does when the disk fails. Batches appended before the
// failure stays, up to LogEnd.
func (l *Log) AppendReplicated(batches []byte, now time.Time) error {
	config := l.config.Load()
	defer l.appended(config) // requests the sync of what was appended, also after a failure
	for len(batches) > 0 {
		b, rest, err := record.Next(batches)
		if err != nil {
			return fmt.Errorf("%w: %w", record.ErrCorrupt, err)
		}
		if err := checkReplicated(b); err != nil {
			return err
		}
		from := l.logEnd.Load()
		if tooFar(b, from) && b.BaseOffset() > from {
			if err := l.skipTo(b.BaseOffset()); err != nil {
				return err
			}
		}
		if err := l.appending(now,
			func() error { return l.followLocked(b, from, config, now) }); err != nil {
			return err
		}
		l.unsynced.Add(int64(len(b)))
		batches = rest
	}
	return nil
}

// checkReplicated checks a batch by itself, without the lock. It reads a marker, because a
// malformed one must not get into the log.
func checkReplicated(b record.Batch) error {
	if err := b.CheckCRC(); err != nil {
		return err
	}
	if b.BaseOffset() < 0 || b.LastOffset() < b.BaseOffset() {
		return fmt.Errorf("%w: offsets %d to %d", record.ErrCorrupt, b.BaseOffset(), b.LastOffset())
	}
	_, _, err := b.Marker()
	return err
}

// followLocked appends a batch at its own offsets; from is the previous log end. Log.mu is held.
//
// A new epoch is taken to start at from, though its first batch here may be behind a gap: what the
// leader's log had in between was cleaned away, and its epoch is unknown. If it was attributed to
// the epoch before, a replica with other records there, which were never acknowledged, would
// keep them as this log's. Attributed to the new one, a replica may remove records there that
// were this log's, and gets what superseded them.
//
// A segment that is rolled begins at the log end and not at the batch, though there may be a gap in
// between: above the recovery point segments join without one, and recovery treats a gap as lost
// data (ADR 0015).
func (l *Log) followLocked(b record.Batch, from int64, config *config, now time.Time) error {
	if end := l.logEnd.Load(); b.BaseOffset() < end {
		return fmt.Errorf("%w: a batch at %d, the log ends at %d", ErrUnexpectedOffset,
			b.BaseOffset(), end)
	}
	active := l.list.Load().active()
	if tooFar(b, l.logEnd.Load()) || active.SizeBytes() == 0 &&
		!active.Fits(record.Whole(b)) {
		return fmt.Errorf("%w: a batch at %d is too far from %d for one segment",
			ErrUnexpectedOffset, b.BaseOffset(), active.Base())
	}
	epoch := b.LeaderEpoch()
	if epoch < l.epochs.latest() {
		return fmt.Errorf("%w: a batch of epoch %d at %d, the log knows %d", ErrFencedLeaderEpoch,
			epoch, b.BaseOffset(), l.epochs.latest())
	}
	if epoch > l.epochs.latest() {
		if err := l.epochs.save(l.epochs.load().Assign(epoch, from)); err != nil {
			return err
		}
	}
	return l.writeAtLocked(record.Whole(b), config, now)
}

// EndOffsetFor answers OffsetForLeaderEpoch (KIP-101, KIP-279): see leaderepoch.Cache.EndOf.
func (l *Log) EndOffsetFor(epoch int32) (found int32, end int64) {
	// The end first: an epoch that starts meanwhile starts at or above it.
	logEnd := l.logEnd.Load()
	return l.epochs.load().EndOf(epoch, logEnd)
}
