package logstore

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/record"
)

// ErrUnexpectedOffset is the error of AppendReplicated for a batch below the log end.
var ErrUnexpectedOffset = errors.New("unexpected append offset")

// AppendReplicated appends one or more complete batches from the leader, without changing their
// bytes. The offsets of the batches ascend from the log end on, with gaps where the leader's log
// was cleaned. AppendReplicated checks length and checksum. It does not check the rules for
// produced batches, because the leader has checked them with the settings of that time.
//
// The log uses the leader epochs in the batches, as those of Lead.
//
// AppendReplicated fails with record.ErrCorrupt or ErrUnexpectedOffset for a malformed batch. It
// fails with ErrFencedLeaderEpoch if the leader epoch of a batch is lower than the latest one of
// the log, because epochs never fall within a log. If the disk fails, it fails as Append does.
// Batches that were appended before the failure stay in the log, which ends at LogEnd.
func (l *Log) AppendReplicated(batches []byte, now time.Time) error {
	config := l.config.Load()
	// requests a sync of the batches that were appended, even after a failure
	defer l.appended(config)
	for len(batches) > 0 {
		b, rest, err := record.Next(batches)
		if err != nil {
			return fmt.Errorf("%w: %w", record.ErrCorrupt, err)
		}
		if err := checkReplicated(b); err != nil {
			return err
		}
		from := l.offsets.LogEnd()
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

// checkReplicated checks a single batch, without Log.mu. It also decodes a marker, because the log
// must not contain a malformed marker.
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

// followLocked appends a batch at the batch's own offsets. from is the previous log end. The caller
// holds Log.mu.
//
// A new leader epoch is assumed to start at the previous log end, although its first batch may be
// behind an offset gap. Cleaning removed the leader's records in the gap, and their epoch is
// unknown. If the gap belonged to the previous epoch, a replica with different, never acknowledged
// records in the gap would keep these records as valid. Because the gap belongs to the new epoch, a
// replica may remove valid records in the gap, but it then receives the records that superseded
// them.
//
// If the append rolls a segment, the new segment begins at the log end and not at the batch's base
// offset. Above the recovery point, segments must follow each other without gaps, because recovery
// treats a gap as lost data (ADR 0015).
func (l *Log) followLocked(b record.Batch, from int64, config *config, now time.Time) error {
	if err := l.env.checkReserve(); err != nil {
		return err
	}
	if end := l.offsets.LogEnd(); b.BaseOffset() < end {
		return fmt.Errorf("%w: a batch at %d, the log ends at %d", ErrUnexpectedOffset,
			b.BaseOffset(), end)
	}
	active := l.list.Load().Active()
	if tooFar(b, l.offsets.LogEnd()) || active.SizeBytes() == 0 &&
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
		l.epochs.assignLocked(epoch, from)
	}
	return l.writeAtLocked(record.Whole(b), config, now)
}

// EndOffsetFor returns the result of an OffsetForLeaderEpoch request (KIP-101, KIP-279); see
// leaderepoch.Cache.EndOf.
func (l *Log) EndOffsetFor(epoch int32) (found int32, end int64) {
	// The log end is loaded before the epochs. An epoch that starts between the two loads starts at
	// or above the loaded log end.
	logEnd := l.offsets.LogEnd()
	return l.epochs.load().EndOf(epoch, logEnd)
}
