package logstore

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore/compressmeter"
	"heartwood.dev/heartwood/internal/logstore/producer"
	"heartwood.dev/heartwood/internal/record"
	"heartwood.dev/heartwood/internal/topicconfig"
)

// Appended is the result of appending a batch.
type Appended struct {
	BaseOffset    int64
	LastOffset    int64
	LogAppendTime int64 // ms; -1 if the topic uses CreateTime
	LogStart      int64
	Duplicate     bool // the batch was already in the log, at the returned offsets
}

// Append appends one batch like AppendVerified, but the transaction coordinator has not verified
// the batch's transaction.
func (l *Log) Append(batch []byte, now time.Time) (Appended, error) {
	return l.AppendVerified(batch, Verified{}, now)
}

// AppendVerified validates one produced batch (record.Validate), checks its producer's sequence
// numbers and transaction, assigns offsets, and appends it. It may modify the bytes of batch. If it
// fails, nothing was appended.
//
// If the client caused the failure, the error is one of record.Validate's errors, ErrBatchTooLarge,
// ErrInvalidTxnState, ErrInvalidProducerEpoch or ErrOutOfOrderSequence. The error is
// ErrVerificationOutdated if the transaction must be verified again. The error is ErrStorage if the
// disk failed, and ErrClosed if the log is closed. After ErrStorage, Fault reports whether the log
// has stopped. If the log has not stopped, a later append of the same batch may succeed.
//
// When AppendVerified returns, the batch is in the page cache, but possibly not yet on disk.
// DurableEnd includes the batch at once, except under durability Fsync. Under Fsync, AppendVerified
// requests a sync without waiting for it, and DurableEnd includes the batch after that sync.
func (l *Log) AppendVerified(batch []byte, verified Verified, now time.Time) (Appended, error) {
	return l.appendBatch(batch, verified, now, (*environment).checkReserve)
}

// AppendProduced appends a client's batch like AppendVerified. While produce requests are refused
// (Store.SetRefusal), it returns the refusal error, except for a duplicate and for a batch with an
// outdated producer epoch. The refusal has precedence over a wrong sequence number, because the
// producer's earlier batches may have been refused as well.
func (l *Log) AppendProduced(batch []byte, verified Verified, now time.Time) (Appended, error) {
	return l.appendBatch(batch, verified, now, (*environment).checkProduce)
}

// appendBatch appends a batch unless checkSpace returns an error.
func (l *Log) appendBatch(batch []byte, verified Verified, now time.Time,
	checkSpace func(*environment) error) (Appended, error) {
	// The configuration is loaded once, because all checks of one batch must use the same settings
	// even if Configure runs concurrently.
	config := l.config.Load()
	// The batch is validated without Log.mu: decompression and recompression are most of the work,
	// and do not use the log's state.
	rules := config.rules
	rules.Compress = l.env.compress(compressmeter.SiteProduce)
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
		// While the verification is outdated, only one error is certain: an outdated producer epoch. So
		// only this error takes precedence over the refusal.
		if !errors.Is(err, ErrInvalidProducerEpoch) {
			err = cmp.Or(checkSpace(&l.env),
				l.mu.producers.CheckGuard(b.Batch, verified, l.epochs.Latest()), err)
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
		return Appended{BaseOffset: duplicate.BaseOffset(), LastOffset: duplicate.LastOffset,
			LogAppendTime: appendTime(&config.settings, duplicate.Timestamp), LogStart: l.LogStart(),
			Duplicate: true}, nil
	}
	l.disk.AddUnsynced(b.SizeBytes())
	l.appended(config)
	return Appended{BaseOffset: b.BaseOffset(), LastOffset: b.LastOffset(),
		LogAppendTime: appendTime(&config.settings, b.MaxTimestamp()), LogStart: l.LogStart()}, nil
}

// appendTime returns the timestamp of a batch if the topic uses LogAppendTime, otherwise -1.
func appendTime(s *topicconfig.Settings, timestamp int64) int64 {
	if s.TimestampType == record.LogAppendTime {
		return timestamp
	}
	return -1
}

// appending calls write under Log.mu if the log accepts appends. It logs the first append that the
// disk rejects, and the first append that succeeds afterwards: each client receives only its own
// error, and an administrator may have to free space.
func (l *Log) appending(now time.Time, write func() error) (err error) {
	l.mu.Lock()
	if l.fault.StoppedLocked() != nil {
		defer l.mu.Unlock()
		return l.fault.StoppedLocked()
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
	case errors.Is(err, ErrStorage) && l.fault.StoppedLocked() == nil:
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

// writeLocked assigns the log end offset and the latest leader epoch to the batch, and writes the
// batch. It fails with ErrFollows if this replica is a follower. The caller holds Log.mu.
func (l *Log) writeLocked(b record.Parts, config *config, now time.Time) error {
	if l.mu.follows {
		return ErrFollows
	}
	b.SetBaseOffset(l.offsets.LogEnd())
	b.SetLeaderEpoch(l.epochs.Latest())
	return l.writeAtLocked(b, config, now)
}

// writeAtLocked writes a batch whose offsets are already assigned. The caller holds Log.mu. The
// state in memory changes only after the write has succeeded, and changing it cannot fail.
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
		return l.fault.AppendFailedLocked(active, err)
	}
	active.Appended.AddLocked(active.SizeBytes(), b)
	ended, err := l.mu.producers.Update(b.Batch, now)
	if err == nil && ended != nil && ended.Aborted {
		err = active.AddAborted(ended.AbortedTxn)
	}
	if err != nil {
		// Neither Update nor AddAborted can fail here: the marker was checked before, and the index
		// entries ascend with the offsets. If Update or AddAborted fails anyway, the log stops,
		// because the batch is already in the file.
		l.fault.FailLocked(err)
		return l.fault.StoppedLocked()
	}
	l.offsets.Settle(&l.mu.producers, ended)
	if l.mu.firstAppend.IsZero() {
		l.mu.firstAppend = now
	}
	l.offsets.SetLogEnd(b.NextOffset())
	return nil
}

// errReserved is the cause of ErrStorage while the remaining space of the volume is reserved for
// the cleaner.
var errReserved = errors.New("the remaining space of the volume is reserved for the cleaner")

// SetReserved sets whether the remaining space of the volume is reserved for the cleaner. While it
// is reserved, appends of records fail with ErrStorage, on followers too. Markers are still
// appended: they are small, and they end transactions that block cleaning.
func (s *Store) SetReserved(reserved bool) { s.reserved.Store(reserved) }

// SetRefusal sets the error that refuses clients' batches; nil accepts them. Batches of
// coordinators, replicated records and markers are always appended.
func (s *Store) SetRefusal(refusal error) {
	if refusal == nil {
		s.refusal.Store(nil)
		return
	}
	s.refusal.Store(&refusal)
}

// checkProduce returns the refusal error (SetRefusal), or the error of checkReserve.
func (e *environment) checkProduce() error {
	if refusal := e.refusal.Load(); refusal != nil {
		return *refusal
	}
	return e.checkReserve()
}

// checkReserve returns ErrStorage while the remaining space is reserved for the cleaner.
func (e *environment) checkReserve() error {
	if e.reserved.Load() {
		return fmt.Errorf("%w: %w", ErrStorage, errReserved)
	}
	return nil
}

// ErrUnexpectedOffset is the error of AppendReplicated for a batch below the log end.
var ErrUnexpectedOffset = errors.New("unexpected append offset")

// AppendReplicated appends one or more complete batches from the leader, without changing their
// bytes. The offsets of the batches ascend from the log end, with gaps where the leader's log was
// cleaned. AppendReplicated checks length and checksum. It does not check the rules for produced
// batches, because the leader has checked them with the settings of that time.
//
// The log adopts the leader epochs in the batches, like the epoch passed to Lead.
//
// AppendReplicated fails with record.ErrCorrupt or ErrUnexpectedOffset for a malformed batch. It
// fails with ErrFencedLeaderEpoch if the leader epoch of a batch is lower than the latest one of
// the log, because leader epochs never decrease within a log. If the disk fails, it returns the
// same errors as Append. Batches that were appended before the failure stay in the log, which ends
// at LogEnd.
func (l *Log) AppendReplicated(batches []byte, now time.Time) error {
	config := l.config.Load()
	// Request a sync of the appended batches, even after a failure.
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
		l.disk.AddUnsynced(len(b))
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
// A new leader epoch is assumed to start at the previous log end, even if an offset gap precedes
// its first batch. Cleaning removed the leader's records in the gap, and the epoch of those records
// is unknown. If the gap were assigned to the previous epoch, a replica with different, never
// acknowledged records in the gap would keep these records as valid. With the gap in the new epoch,
// a replica may remove valid records in the gap, but it then receives the records that superseded
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
	if epoch < l.epochs.Latest() {
		return fmt.Errorf("%w: a batch of epoch %d at %d, the log knows %d", ErrFencedLeaderEpoch,
			epoch, b.BaseOffset(), l.epochs.Latest())
	}
	if epoch > l.epochs.Latest() {
		l.epochs.AssignLocked(epoch, from)
	}
	return l.writeAtLocked(record.Whole(b), config, now)
}

// EndOffsetFor returns the result of an OffsetForLeaderEpoch request (KIP-101, KIP-279); see
// leaderepoch.Cache.EndOf.
func (l *Log) EndOffsetFor(epoch int32) (found int32, end int64) {
	// The log end is loaded before the epochs. If an epoch starts between the two loads, its start
	// offset is at or above the loaded log end.
	logEnd := l.offsets.LogEnd()
	return l.epochs.Load().EndOf(epoch, logEnd)
}
