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
// cleaned. It checks length and checksum, but not the rules for batches of producers: the leader
// checked these with the settings of that time.
//
// Leader epochs are those of the batches, and are durable before the first batch of each (as by
// Lead). It fails with ErrCorrupt (of package record) and ErrUnexpectedOffset for malformed
// batches, with ErrFencedLeaderEpoch for a batch of an earlier epoch than the log knows (epochs
// never fall along a log), and as Append does when the disk fails. Batches that were appended
// before the failure stay in the log; they end at LogEnd.
func (l *Log) AppendReplicated(batches []byte, now time.Time) error {
	config := l.config.Load()
	defer l.appended(config) // requests a sync of the appended batches, also after a failure
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

// followLocked appends a batch at its own offsets; from is the previous log end. Log.mu is held. A
// new epoch is assumed to start at from, though its first batch here may be behind a gap: the
// leader's records in the gap were cleaned away, and their epoch is unknown. If the gap was
// attributed to the previous epoch, a replica that has other, never acknowledged records in the gap
// would keep them as if they belonged to this log. With the gap attributed to the new epoch, a
// replica may remove valid records in the gap, but it then gets the records that superseded them.
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
	// The log end is loaded first: an epoch that starts meanwhile starts at or above it.
	logEnd := l.logEnd.Load()
	return l.epochs.load().EndOf(epoch, logEnd)
}
