package logstore

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/record"
)

// Appended tells where a batch went.
type Appended struct {
	BaseOffset    int64
	LastOffset    int64
	LogAppendTime int64 // ms; -1 unless the topic stamps LogAppendTime
	LogStart      int64
	Duplicate     bool // the batch was there already, at these offsets; nothing was appended
}

// Append is AppendVerified of a batch that nobody vouches for.
func (l *Log) Append(batch []byte, now time.Time) (Appended, error) {
	return l.AppendVerified(batch, Verified{}, now)
}

// AppendVerified validates one produced batch (record.Validate), checks its producer's sequence and
// transaction, assigns offsets and appends it. It may write into batch. After a failure nothing was
// appended.
//
// It fails with an error of record.Validate, with ErrBatchTooLarge, ErrInvalidTxnState,
// ErrInvalidProducerEpoch or ErrOutOfOrderSequence, which are the client's doing; with ErrStorage
// when the disk fails: then Fault tells whether the log has stopped, or the same batch may succeed
// later; and with ErrClosed.
//
// The batch is in the page cache when it returns, not on disk. DurableEnd tells when this replica may
// vouch for it: at once, or under durability Fsync after a sync, which was asked for and is not
// waited for.
func (l *Log) AppendVerified(batch []byte, verified Verified, now time.Time) (Appended, error) {
	// Once: all checks of one batch go by the same settings, also when Configure runs beside.
	config := l.config.Load()
	// Outside the lock: decompression and recompression are most of the work, and need nothing of
	// the log.
	rules := config.rules
	rules.Compress = l.env.compress(siteProduce)
	collected := l.compaction.sidecars.collector(config.settings.Compact)
	if collected != nil {
		rules.Keys = collected.add
		defer collected.release()
	}
	valid, err := record.Validate(batch, rules, now)
	if err != nil {
		return Appended{}, err
	}
	defer valid.Release()
	b := valid.Parts()
	// behind Validate, which may have recompressed the batch to another size
	if int64(b.SizeBytes()) > config.settings.SegmentBytes {
		return Appended{}, fmt.Errorf("%w: %d bytes, segments have %d", ErrBatchTooLarge,
			b.SizeBytes(), config.settings.SegmentBytes)
	}

	var duplicate *producer.Batch
	err = l.appending(now, func() error {
		var err error
		if duplicate, err = l.mu.producers.Check(b.Batch, verified); err != nil ||
			duplicate != nil {
			return err // a producer.Batch never changes, so it may be read without the lock
		}
		if err := l.writeLocked(b, config, now); err != nil {
			return err
		}
		if collected != nil {
			l.compaction.sidecars.spools.appendLocked(l.list.Load().active(),
				*l.compaction.sidecars.salt.Load(), b, collected.Records)
		}
		return nil
	})
	switch {
	case err != nil:
		return Appended{}, err
	case duplicate != nil:
		l.appended(config)
		return l.answer(duplicate.BaseOffset(), duplicate.LastOffset,
			duplicate.Timestamp, true), nil
	}
	l.unsynced.Add(int64(b.SizeBytes()))
	l.appended(config)
	return l.answer(b.BaseOffset(), b.LastOffset(), b.MaxTimestamp(), false), nil
}

// appending does an append under Log.mu, on a log that takes any. It logs the beginning and the end
// of a time in which the disk takes none: the client sees each failure, and whoever has to make
// space shall see that there is one.
func (l *Log) appending(now time.Time, write func() error) (err error) {
	l.mu.Lock()
	if l.mu.stopped != nil {
		defer l.mu.Unlock()
		return l.mu.stopped
	}
	if l.mu.truncation.isRunning() {
		defer l.mu.Unlock()
		return fmt.Errorf("%w: %w", ErrStorage, errTruncating)
	}
	end := l.logEnd.Load()
	err = write()
	begins, ends, failed := false, false, 0
	switch {
	case err == nil && l.logEnd.Load() > end: // a duplicate says nothing of the disk
		failed, ends = l.mu.appends.Succeed()
	case errors.Is(err, ErrStorage) && l.mu.stopped == nil:
		begins = l.mu.appends.Fail(now)
	}
	l.mu.Unlock()
	switch {
	case begins:
		l.env.logger.Warn("appends fail", "partition", l.id, "error", err)
	case ends:
		l.env.logger.Info("appends succeed again", "partition", l.id, "failed", failed)
	}
	return err
}

// answer fills in what a response tells of a batch; timestamp counts only where the topic stamps
// its own.
func (l *Log) answer(base, last, timestamp int64, duplicate bool) Appended {
	appended := Appended{BaseOffset: base, LastOffset: last, LogAppendTime: -1,
		LogStart: l.LogStart(), Duplicate: duplicate}
	if l.Settings().TimestampType == record.LogAppendTime {
		appended.LogAppendTime = timestamp
	}
	return appended
}

// writeLocked gives the batch its place, as the leader does, and writes it there. Log.mu is held.
func (l *Log) writeLocked(b record.Parts, config *config, now time.Time) error {
	if l.mu.follows {
		return ErrFollows
	}
	b.SetBaseOffset(l.logEnd.Load())
	b.SetLeaderEpoch(l.epochs.latest())
	return l.writeAtLocked(b, config, now)
}

// writeAtLocked writes a batch that has its place. State follows the file: it changes only once the
// write succeeded, and what changes then cannot fail. Log.mu is held; logEnd comes last, for
// readers without the lock go by it.
func (l *Log) writeAtLocked(b record.Parts, config *config, now time.Time) error {
	active := l.list.Load().active()
	if rollBefore(active.Segment, b, config) {
		if err := l.rollLocked(); err != nil {
			return err
		}
		active = l.list.Load().active()
	}
	if err := active.AppendParts(b); err != nil {
		return l.appendFailedLocked(active, err)
	}
	ended, err := l.mu.producers.Update(b.Batch, now)
	if err == nil && ended != nil && ended.Aborted {
		err = active.AddAborted(ended.AbortedTxn)
	}
	if err != nil {
		// Neither can be: the marker was checked before, and entries ascend as offsets do. But the
		// batch is in the file by now.
		l.failLocked(err)
		return l.mu.stopped
	}
	l.stable.settle(&l.mu.producers, ended, l.highWatermark.Load())
	if l.mu.firstAppend.IsZero() {
		l.mu.firstAppend = now
	}
	l.logEnd.Store(b.NextOffset())
	return nil
}

// appendFailedLocked tells a failure that left the segment in order (a full disk, mostly: the next
// append may succeed) from one after which nobody knows what the file holds. That one stops the
// log.
func (l *Log) appendFailedLocked(active *handle, cause error) error {
	if active.Broken() != nil {
		l.failLocked(cause)
		return l.mu.stopped
	}
	return fmt.Errorf("%w: %w", ErrStorage, cause)
}
