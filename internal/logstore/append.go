package logstore

import (
	"fmt"
	"time"

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

// Append validates one produced batch (record.Validate), checks its producer's sequence, assigns offsets and appends it.
// It may write into batch. After a failure nothing was appended.
//
// It fails with an error of record.Validate, with ErrBatchTooLarge, ErrInvalidTxnState, ErrInvalidProducerEpoch or
// ErrOutOfOrderSequence, which are the client's doing; with ErrStorage when the disk fails: then Fault tells whether the log
// has stopped, or the same batch may succeed later; and with ErrClosed.
//
// The batch is in the page cache when Append returns, not on disk. SafeEnd tells when this replica may vouch for it: at once, or
// under durability Fsync after a sync, which Append has asked for and does not wait for.
func (l *Log) Append(batch []byte, now time.Time) (Appended, error) {
	// Once: all checks of one batch go by the same settings, also when Configure runs beside.
	config := l.config.Load()
	// Outside the lock: decompression and recompression are most of the work, and need nothing of the log.
	rules := config.rules
	rules.Compress = l.env.compress(siteProduce)
	valid, err := record.Validate(batch, rules, now)
	if err != nil {
		return Appended{}, err
	}
	defer valid.Release()
	b := valid.Parts()
	switch {
	case b.Transactional() || b.Control():
		return Appended{}, fmt.Errorf("%w: transactions are not supported yet", ErrInvalidTxnState)
	// Behind Validate, which may have recompressed the batch to another size.
	case int64(b.SizeBytes()) > config.settings.SegmentBytes:
		return Appended{}, fmt.Errorf("%w: %d bytes, segments have %d", ErrBatchTooLarge, b.SizeBytes(), config.settings.SegmentBytes)
	}

	duplicate, err := l.place(b, config, now)
	switch {
	case err != nil:
		return Appended{}, err
	case duplicate != nil:
		l.appended(config)
		return l.answer(duplicate.lastOffset-int64(duplicate.offsetDelta), duplicate.lastOffset, duplicate.timestamp, true), nil
	}
	l.unsynced.Add(int64(b.SizeBytes()))
	l.appended(config)
	return l.answer(b.BaseOffset(), b.LastOffset(), b.MaxTimestamp(), false), nil
}

// place appends a valid batch, or finds the duplicate of it that is in the log. It logs the beginning and the end of a time in
// which the disk takes no appends: the client sees each failure, and whoever has to make space shall see that there is one.
func (l *Log) place(b record.Parts, config *config, now time.Time) (duplicate *producerBatch, err error) {
	l.mu.Lock()
	if l.mu.stopped != nil {
		defer l.mu.Unlock()
		return nil, l.mu.stopped
	}
	if duplicate, err = l.mu.producers.check(b.Batch); err != nil || duplicate != nil {
		defer l.mu.Unlock()
		return duplicate, err // what a producerBatch says never changes, so it may be read behind the lock
	}
	err = l.writeLocked(b, config, now)
	begins, ends, failed := false, false, 0
	if err == nil {
		failed, ends = l.mu.appends.succeed()
	} else if l.mu.stopped == nil {
		begins = l.mu.appends.fail(now)
	}
	l.mu.Unlock()
	switch {
	case begins:
		l.env.logger.Warn("appends fail", "partition", l.id, "error", err)
	case ends:
		l.env.logger.Info("appends succeed again", "partition", l.id, "failed", failed)
	}
	return nil, err
}

// answer fills in what a response tells of a batch; timestamp counts only where the topic stamps its own.
func (l *Log) answer(base, last, timestamp int64, duplicate bool) Appended {
	appended := Appended{BaseOffset: base, LastOffset: last, LogAppendTime: -1, LogStart: l.LogStart(), Duplicate: duplicate}
	if l.Settings().TimestampType == record.LogAppendTime {
		appended.LogAppendTime = timestamp
	}
	return appended
}

// writeLocked gives the batch its place and writes it there. State follows the file: it changes only once the write succeeded.
// Log.mu is held; logEnd comes last, for readers without the lock go by it.
func (l *Log) writeLocked(b record.Parts, config *config, now time.Time) error {
	b.SetBaseOffset(l.logEnd.Load())
	b.SetLeaderEpoch(l.mu.leaderEpoch)
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
	l.mu.producers.update(b.Batch, now)
	if l.mu.firstAppend.IsZero() {
		l.mu.firstAppend = now
	}
	l.logEnd.Store(b.NextOffset())
	return nil
}

// appendFailedLocked tells a failure that left the segment in order (a full disk, mostly: the next append may succeed) from one
// after which nobody knows what the file holds. That one stops the log.
func (l *Log) appendFailedLocked(active *handle, cause error) error {
	if active.Broken() != nil {
		l.failLocked(cause)
		return l.mu.stopped
	}
	return fmt.Errorf("%w: %w", ErrStorage, cause)
}
