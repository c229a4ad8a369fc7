package replica

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
)

// After these errors, a follower does not continue until an administrator repairs its log.
var (
	errNoEpochs = errors.New("the log has records but no leader epochs: " +
		"cannot compare it with the leader's log")
	errNothingTruncated = errors.New("the leader's log diverges, but there is nothing to truncate")
)

// followerRequest returns the fetch request for this replica.
func (p *partition) followerRequest(r *role, bytesMax int) (FollowerPartition, error) {
	req := FollowerPartition{
		ID: p.id, Topic: p.topic, LeaderEpoch: r.epoch, LastEpoch: p.log.LeaderEpoch(),
		LogStart: p.log.LogStart(), HighWater: p.log.HighWatermark(),
		TombstoneClean:         p.log.Compaction().Progress.TombstoneClean(),
		ReplicasTombstoneClean: p.log.Compaction().Progress.ReplicasTombstoneClean(),
		ReplicaIncarnation:     r.logIncarnation, BytesMax: bytesMax,
	}
	req.Offset = p.log.LogEnd()
	req.DurableEnd = min(p.log.DurableEnd(), req.Offset)
	if req.LastEpoch < 0 && req.Offset > req.LogStart {
		return req, errNoEpochs
	}
	return req, p.log.Fault()
}

// applyResponse applies the leader's response to a fetch that was sent in role r. It ignores the
// response if the role has changed since then. The result advanced reports whether the high
// watermark has advanced.
func (p *partition) applyResponse(r *role, sent *FollowerPartition, got *FollowerResult,
	now time.Time) (advanced bool, err error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	current := p.role.Load()
	if current.epoch != r.epoch || current.logIncarnation != r.logIncarnation ||
		current.refusal != r.refusal { //nolint:errorlint // compares identity
		return false, nil
	}
	switch {
	case errors.Is(got.Err, logstore.ErrOffsetOutOfRange):
		return false, p.restartAtLeader(r, sent, got)
	case got.Err != nil:
		return false, got.Err
	case got.DivergingEpoch >= 0:
		return false, p.truncate(r, sent, got)
	}
	if err := p.appendFetched(r, sent, got.Records, now); err != nil {
		return false, err
	}
	if got.HighWater >= 0 {
		// The log limits its high watermark to the log end.
		advanced = p.log.AdvanceHighWatermark(got.HighWater)
	}
	p.log.Compaction().Progress.SetReplicasTombstoneClean(got.ReplicasTombstoneClean)
	// Delete the records that the leader has deleted, but none above this replica's high watermark,
	// which may briefly be below the leader's log start.
	if start := min(got.LogStart, p.log.HighWatermark()); start > p.log.LogStart() {
		err = p.log.DeleteBefore(start)
	}
	return advanced, err
}

// appendFetched appends the leader's records.
//
// After DeleteRecords, a leader's log may start within a batch. An empty replica that fetches from
// the log start receives the whole batch, and restarts its log at the batch's base offset. Once the
// replica's high watermark has advanced, the replica deletes the records below the leader's log
// start.
func (p *partition) appendFetched(r *role, sent *FollowerPartition, records []byte,
	now time.Time) error {
	if len(records) == 0 {
		return nil
	}
	first, _, err := record.Next(records)
	if err != nil {
		return fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	end := p.log.LogEnd()
	if end != sent.Offset {
		return fmt.Errorf("%w: fetched from %d, but the log ends at %d",
			logstore.ErrUnexpectedOffset, sent.Offset, end)
	}
	if base := first.BaseOffset(); base >= 0 && base < end && first.LastOffset() >= end &&
		p.log.LogStart() == end {
		if err := p.log.StartAt(base); err != nil {
			return err
		}
	}
	if !r.inSync && p.log.LogEnd() == p.log.LogStart() && p.source != r.leader {
		if err := p.setSource(r.leader); err != nil {
			return err
		}
	}
	if (!r.inSync || p.log.Settings().Compact) && hasGap(records, p.log.LogEnd()) {
		if err := p.storeGap(r); err != nil {
			return err
		}
	}
	if first.LeaderEpoch() < p.log.LeaderEpoch() {
		if err := p.forgetEmptyEpochs(); err != nil {
			return err
		}
	}
	return p.log.AppendReplicated(records, now)
}

// forgetEmptyEpochs removes the leader epochs at the end of the log that contain no records. This
// is needed if the leader continues with records of an earlier epoch: this broker led briefly in
// the empty epochs, and the current leader does not know them. truncate removes such epochs where
// logs diverge. But logs of a compacted topic do not diverge below the high watermark, so the
// epochs would remain and the log would reject every later append (ADR 0206). An epoch that
// contains records is kept, and makes AppendReplicated fail.
func (p *partition) forgetEmptyEpochs() error { return p.log.TruncateTo(p.log.LogEnd()) }

// hasGap reports whether the offsets have a gap between the log end and the batches, or between two
// batches. It also returns true for malformed batches, which the append then rejects.
func hasGap(batches []byte, end int64) bool {
	for len(batches) > 0 {
		batch, rest, err := record.Next(batches)
		if err != nil {
			return true
		}
		if batch.BaseOffset() > end {
			return true
		}
		end, batches = batch.NextOffset(), rest
	}
	return false
}

// truncate removes the records that the leader does not have (KIP-101, KIP-279). got.DivergingEpoch
// is the leader's largest epoch that is not above this log's last epoch. got.DivergingEnd is that
// epoch's end offset in the leader's log. So the leader's log contains neither this log's records
// at or above DivergingEnd, nor its records of epochs after DivergingEpoch.
//
// A compacted log that extends above its high watermark is not truncated below it, because the
// leader may lack records there that it has removed as superseded. If acknowledged records were
// lost, the whole log is discarded. Any other log is truncated below its high watermark only if the
// metadata show that acknowledged records were lost. Otherwise the leader has lost these records
// without notice, and the log is kept.
func (p *partition) truncate(r *role, sent *FollowerPartition, got *FollowerResult) error {
	to := min(got.DivergingEnd, p.log.LogEnd())
	if _, end := p.log.EndOffsetFor(got.DivergingEpoch); end >= 0 {
		to = min(to, end)
	}
	compacted, lost := p.log.Settings().Compact, r.lostSince(sent.LastEpoch) && !r.inISR
	switch hw := p.log.HighWatermark(); {
	case compacted && lost:
		return p.discardDiverged(sent, to)
	case compacted && hw < p.log.LogEnd():
		to = max(to, hw)
	case to < hw && !r.lostSince(sent.LastEpoch):
		return errTruncatesCommitted
	case to < hw:
		p.logger.Warn(MessageTruncateBelowHW,
			"partition", p.id, "to", to, "highWatermark", hw, "leaderEpoch", sent.LeaderEpoch)
	}
	p.logger.Info("truncating diverged log", "partition", p.id, "from", sent.Offset, "to", to,
		"lastEpoch", sent.LastEpoch, "divergingEpoch", got.DivergingEpoch, "divergingEnd",
		got.DivergingEnd)
	if err := p.log.TruncateTo(to); err != nil {
		return err
	}
	if p.log.LogEnd() == sent.Offset && p.log.LeaderEpoch() == sent.LastEpoch {
		// Return an error, because the leader would give the same answer to the next fetch.
		return errNothingTruncated
	}
	return nil
}

// discardDiverged removes all records of a compacted log that diverges from the leader's log after
// a loss of records. Truncation does not suffice: the truncated records may have superseded older
// records of the same keys. This replica has already removed the older records, but the leader
// still has them (ADR 0186).
//
// This replica may discard its log, because it is not in the ISR: the image's ISR does not contain
// it, and the leader has not added it since, because the leader accepts no fetch from a diverging
// replica.
func (p *partition) discardDiverged(sent *FollowerPartition, divergesAt int64) error {
	p.logger.Warn(MessageDiscardDiverged,
		"partition", p.id, "divergesAt", divergesAt, "logEnd", sent.Offset,
		"lastEpoch", sent.LastEpoch, "leaderEpoch", sent.LeaderEpoch)
	return p.resetLog(p.log.LogStart())
}

// restartAtLeader restarts this log at the leader's log start if the two logs do not overlap: this
// log is empty, or it ends below the leader's log start.
func (p *partition) restartAtLeader(r *role, sent *FollowerPartition, got *FollowerResult) error {
	if got.LogEnd >= 0 && got.LogEnd < p.log.HighWatermark() && !r.lostSince(sent.LastEpoch) {
		return errTruncatesCommitted
	}
	if got.LogStart < 0 || sent.Offset >= got.LogStart && sent.Offset > sent.LogStart {
		return fmt.Errorf("%w: the leader's log is [%d, %d), this log ends at %d", got.Err,
			got.LogStart, got.LogEnd, sent.Offset)
	}
	p.logger.Info(MessageRestartAtLogStart, "partition", p.id,
		"logStart", got.LogStart, "logEnd", sent.Offset)
	return p.log.StartAt(got.LogStart)
}
