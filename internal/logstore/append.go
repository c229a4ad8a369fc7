package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/logstore/segmentlist"
	"heartwood.dev/heartwood/internal/record"
)

// Appended describes where a batch was appended.
type Appended struct {
	BaseOffset    int64
	LastOffset    int64
	LogAppendTime int64 // ms; -1 if the topic uses CreateTime
	LogStart      int64
	Duplicate     bool // the batch was already in the log, at the returned offsets
}

// Append appends one batch like AppendVerified, but without a transaction that was verified with
// the transaction coordinator.
func (l *Log) Append(batch []byte, now time.Time) (Appended, error) {
	return l.AppendVerified(batch, Verified{}, now)
}

// AppendVerified validates one produced batch (record.Validate), checks its producer's sequence
// numbers and transaction, assigns offsets, and appends it. It may modify the bytes of batch. If it
// fails, nothing was appended.
//
// If the client caused the failure, the error is one of record.Validate, or ErrBatchTooLarge,
// ErrInvalidTxnState, ErrInvalidProducerEpoch or ErrOutOfOrderSequence. The error is
// ErrVerificationOutdated if the transaction must be verified again. The error is ErrStorage if
// the disk failed, and ErrClosed if the log is closed. After ErrStorage, Fault reports whether the
// log has stopped. If the log has not stopped, a later append of the same batch may succeed.
//
// When AppendVerified returns, the batch is in the page cache and need not be on disk. DurableEnd
// includes the batch at once, except under durability Fsync. Under Fsync, AppendVerified requests a
// sync without waiting for it, and DurableEnd includes the batch after that sync.
func (l *Log) AppendVerified(batch []byte, verified Verified, now time.Time) (Appended, error) {
	return l.appendBatch(batch, verified, now, (*environment).checkReserve)
}

// AppendProduced appends a batch of a client like AppendVerified. While produce requests are
// refused (Store.SetRefusal), it fails with that error, unless the batch is a duplicate or has an
// outdated producer epoch. The refusal has precedence over a wrong sequence number: the earlier
// batches of the producer, which the sequence continues, may have been refused as well.
func (l *Log) AppendProduced(batch []byte, verified Verified, now time.Time) (Appended, error) {
	return l.appendBatch(batch, verified, now, (*environment).checkProduce)
}

// appendBatch appends a batch if checkSpace accepts it.
func (l *Log) appendBatch(batch []byte, verified Verified, now time.Time,
	checkSpace func(*environment) error) (Appended, error) {
	// The configuration is loaded once, so that all checks of one batch use the same settings even
	// if Configure runs concurrently.
	config := l.config.Load()
	// The batch is validated without Log.mu: decompression and recompression are most of the work,
	// and do not use the state of the log.
	rules := config.rules
	rules.Compress = l.env.compress(siteProduce)
	collected := l.compaction.Sidecars.Collector(config.settings.Compact)
	if collected != nil {
		rules.Keys = collected.AddKey
		defer collected.Release()
	}
	valid, err := record.Validate(batch, rules, now)
	if err != nil {
		return Appended{}, err
	}
	defer valid.Release()
	b := valid.Parts()
	// The size is checked after Validate, which may have recompressed the batch to another size.
	if int64(b.SizeBytes()) > config.settings.SegmentBytes {
		return Appended{}, fmt.Errorf("%w: %d bytes, segments have %d at most", ErrBatchTooLarge,
			b.SizeBytes(), config.settings.SegmentBytes)
	}

	var duplicate *producer.Batch
	err = l.appending(now, func() error {
		var err error
		duplicate, err = l.mu.producers.Check(b.Batch, verified)
		if duplicate != nil {
			return nil // duplicate is read later without Log.mu: a producer.Batch never changes
		}
		// Whether the batch fits the state is unknown if its verification is outdated. Only an
		// outdated epoch is certain.
		if !errors.Is(err, ErrInvalidProducerEpoch) {
			err = cmp.Or(checkSpace(&l.env),
				l.mu.producers.CheckGuard(b.Batch, verified, l.epochs.latest()), err)
		}
		if err != nil {
			return err
		}
		if err := l.writeLocked(b, config, now); err != nil {
			return err
		}
		if collected != nil {
			l.compaction.Sidecars.Spools.AppendLocked(l.list.Load().Active(),
				*l.compaction.Sidecars.Salt.Load(), b, collected.Records)
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

// appending calls write under Log.mu if the log accepts appends. It logs the first append that the
// disk rejects, and the first append that succeeds afterwards. Each client only receives its own
// error, and an administrator may have to free space.
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
	end := l.offsets.LogEnd()
	err = write()
	begins, ends, failed := false, false, 0
	switch {
	case err == nil && l.offsets.LogEnd() > end: // a duplicate does not write to the disk
		failed, ends = l.mu.appends.Succeed()
	case errors.Is(err, ErrStorage) && l.mu.stopped == nil:
		begins = l.mu.appends.Fail(now)
	}
	l.mu.Unlock()
	switch {
	case begins:
		l.env.logger.Warn("failed to append", "partition", l.id, "error", err)
	case ends:
		l.env.logger.Info("appends succeed again", "partition", l.id, "failedAttempts", failed)
	}
	return err
}

// answer returns the Appended of a batch. It uses timestamp only if the topic uses LogAppendTime.
func (l *Log) answer(base, last, timestamp int64, duplicate bool) Appended {
	appended := Appended{BaseOffset: base, LastOffset: last, LogAppendTime: -1,
		LogStart: l.LogStart(), Duplicate: duplicate}
	if l.Settings().TimestampType == record.LogAppendTime {
		appended.LogAppendTime = timestamp
	}
	return appended
}

// writeLocked assigns the log end offset and the latest leader epoch to the batch, and writes it.
// It fails with ErrFollows if this replica is a follower. The caller holds Log.mu.
func (l *Log) writeLocked(b record.Parts, config *config, now time.Time) error {
	if l.mu.follows {
		return ErrFollows
	}
	b.SetBaseOffset(l.offsets.LogEnd())
	b.SetLeaderEpoch(l.epochs.latest())
	return l.writeAtLocked(b, config, now)
}

// writeAtLocked writes a batch whose offsets are already assigned. The caller holds Log.mu. The
// state in memory changes only after the write has succeeded, and this change cannot fail.
// writeAtLocked stores logEnd last, because readers that do not hold the lock expect to find every
// batch below logEnd.
func (l *Log) writeAtLocked(b record.Parts, config *config, now time.Time) error {
	active := l.list.Load().Active()
	if rollBefore(active.Segment, b, config) {
		if err := l.rollLocked(); err != nil {
			return err
		}
		active = l.list.Load().Active()
	}
	if err := active.AppendParts(b); err != nil {
		return l.appendFailedLocked(active, err)
	}
	active.Appended.AddLocked(active.SizeBytes(), b)
	ended, err := l.mu.producers.Update(b.Batch, now)
	if err == nil && ended != nil && ended.Aborted {
		err = active.AddAborted(ended.AbortedTxn)
	}
	if err != nil {
		// Neither Update nor AddAborted can fail here: the marker was checked before, and the index
		// entries ascend with the offsets. If one of them fails anyway, the log stops, because the
		// batch is already in the file.
		l.failLocked(err)
		return l.mu.stopped
	}
	l.offsets.Settle(&l.mu.producers, ended)
	if l.mu.firstAppend.IsZero() {
		l.mu.firstAppend = now
	}
	l.offsets.SetLogEnd(b.NextOffset())
	return nil
}

// appendFailedLocked returns the error of a failed write. If the write left the segment intact
// (usually because the disk is full), the next append may succeed. Otherwise the content of the
// file is unknown, and the log stops.
func (l *Log) appendFailedLocked(active *segmentlist.Handle, cause error) error {
	if active.Broken() != nil {
		l.failLocked(cause)
		return l.mu.stopped
	}
	return fmt.Errorf("%w: %w", ErrStorage, cause)
}
