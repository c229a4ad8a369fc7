package replica

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
)

// Why a follower cannot go on by itself.
var (
	errNoEpochs = errors.New(
		"the log has records and knows no leader epoch: nobody can tell whether it is the leader's",
	)
	errNoCut = errors.New("the leader says that the logs part, and there is nothing to cut off")
)

// pulls is where this replica stands, for its leader.
func (p *partition) pulls(r *role, bytesMax int) (FollowerPartition, error) {
	at := FollowerPartition{
		ID: p.id, Topic: p.topic, LeaderEpoch: r.epoch, LastEpoch: p.log.LeaderEpoch(),
		LogStart: p.log.LogStart(), HighWater: p.log.HighWatermark(),
		TombstoneClean:         p.log.Compaction().TombstoneClean(),
		ReplicasTombstoneClean: p.log.Compaction().ReplicasTombstoneClean(),
		ReplicaIncarnation:     r.held,
		BytesMax:               bytesMax,
	}
	at.Offset = p.log.LogEnd()
	at.DurableEnd = min(p.log.SafeEnd(), at.Offset)
	if at.LastEpoch < 0 && at.Offset > at.LogStart {
		return at, errNoEpochs
	}
	return at, p.log.Fault()
}

// follow does to the log what its leader answered to a fetch made in role r. moved tells whether
// the high watermark did. An answer of a leader that is none any more does nothing.
func (p *partition) follow(r *role, asked *FollowerPartition, got *FollowerResult,
	now time.Time) (moved bool,
	err error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if now := p.role.Load(); now.epoch != r.epoch || now.refusal != r.refusal ||
		now.held != r.held { //nolint:errorlint // the very same
		return false, nil
	}
	switch {
	case errors.Is(got.Err, logstore.ErrOffsetOutOfRange):
		return false, p.reposition(asked, got)
	case got.Err != nil:
		return false, got.Err
	case got.DivergingEpoch >= 0:
		return false, p.truncate(r, asked, got)
	}
	if err := p.appendPulled(r, asked, got.Records, now); err != nil {
		return false, err
	}
	if got.HighWater >= 0 {
		moved = p.log.AdvanceHighWatermark(got.HighWater) // at most the log end
	}
	p.log.Compaction().SetReplicasTombstoneClean(got.ReplicasTombstoneClean)
	// What the leader has given up; never above the high watermark, which may be behind it for a
	// moment.
	if start := min(got.LogStart, p.log.HighWatermark()); start > p.log.LogStart() {
		err = p.log.DeleteBefore(start)
	}
	return moved, err
}

// appendPulled appends what the leader sent.
//
// A leader's log may begin within a batch (DeleteRecords), and an empty replica that begins there
// is sent the whole batch: it begins again where the batch does. What lies below the leader's log
// start goes with the next high watermark.
func (p *partition) appendPulled(r *role, asked *FollowerPartition, records []byte,
	now time.Time) error {
	if len(records) == 0 {
		return nil
	}
	first, _, err := record.Next(records)
	if err != nil {
		return fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	end := p.log.LogEnd()
	if end != asked.Offset {
		return fmt.Errorf("%w: asked for %d, the log ends at %d by now",
			logstore.ErrUnexpectedOffset, asked.Offset, end)
	}
	if base := first.BaseOffset(); base >= 0 && base < end && first.LastOffset() >= end &&
		p.log.LogStart() == end {
		if err := p.log.StartAt(base); err != nil {
			return err
		}
	}
	if !r.inSync && p.log.LogEnd() == p.log.LogStart() && p.source != r.leader {
		if err := p.noteSource(r.leader); err != nil {
			return err
		}
	}
	if (!r.inSync || p.log.Settings().Compact) && hasGap(records, p.log.LogEnd()) {
		if err := p.noteGap(r); err != nil {
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

// forgetEmptyEpochs drops the leader epochs at the log's end in which nothing was appended, as the
// leader goes on with records of an earlier one: this broker led in them for a moment, and whoever
// leads now did not hear of it. Where the logs part, truncate does the same; below the high
// watermark of a compacted topic they do not (diverging), and the log would refuse what comes for
// ever (ADR 0206). An epoch with records stays, and is what AppendReplicated fails for.
func (p *partition) forgetEmptyEpochs() error { return p.log.TruncateTo(p.log.LogEnd()) }

// hasGap tells whether batches do not follow each other, or what ends at an offset. Batches that
// make no sense are refused later.
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

// truncate cuts off what the leader does not have (KIP-101, KIP-279). All records of the leader up
// to its DivergingEpoch lie below DivergingEnd, and its later ones are of epochs that this log does
// not know; so whatever this log has at or above DivergingEnd, or of a later epoch than
// DivergingEpoch, the leader has not.
//
// Unless it was cleaned away there: what is below the high watermark stays, while nothing says that
// records were lost.
func (p *partition) truncate(r *role, asked *FollowerPartition, got *FollowerResult) error {
	to := min(got.DivergingEnd, p.log.LogEnd())
	if _, end := p.log.EndOffsetFor(got.DivergingEpoch); end >= 0 {
		to = min(to, end)
	}
	compacted, lost := p.log.Settings().Compact, r.lostSince(asked.LastEpoch) && !r.member
	switch hw := p.log.HighWatermark(); {
	case compacted && lost:
		return p.beginAnew(asked, to)
	case compacted && hw < p.log.LogEnd():
		to = max(to, hw)
	case to < hw:
		p.logger.Warn("records below the high watermark are cut off: the leader does not have them",
			"partition", p.id,
			"to", to, "highWatermark", hw, "leaderEpoch", asked.LeaderEpoch)
	}
	p.logger.Info("truncate log to the leader's", "partition", p.id, "from", asked.Offset, "to", to,
		"lastEpoch", asked.LastEpoch, "divergingEpoch", got.DivergingEpoch, "divergingEnd",
		got.DivergingEnd)
	if err := p.log.TruncateTo(to); err != nil {
		return err
	}
	if p.log.LogEnd() == asked.Offset && p.log.LeaderEpoch() == asked.LastEpoch {
		return errNoCut // else it would be asked and told the same again, at once
	}
	return nil
}

// beginAnew empties a compacted log that parts from the leader's since records were lost. To cut
// off what the leader lacks is not enough: older records of the same keys, which the leader has,
// may have been cleaned away here for the sake of those that go (ADR 0186). It is not in sync: who
// parts from the leader was not heard by it in this epoch, and who was in sync when it began is a
// member in every image of it.
func (p *partition) beginAnew(asked *FollowerPartition, parts int64) error {
	p.logger.Warn("begin log anew: records were lost since, and it was cleaned with some of them",
		"partition", p.id, "parts", parts,
		"ended", asked.Offset, "lastEpoch", asked.LastEpoch, "leaderEpoch", asked.LeaderEpoch)
	return p.restart(p.log.LogStart())
}

// restart empties the log, for a copy of whoever leads.
func (p *partition) restart(at int64) error {
	if err := p.log.StartAt(at); err != nil {
		return err
	}
	return errors.Join(p.closeGap(), p.noteSource(metadata.NoBroker))
}

// reposition is for a log that does not meet the leader's: what there is lies below all that the
// leader has, or there is nothing.
func (p *partition) reposition(asked *FollowerPartition, got *FollowerResult) error {
	if got.LogStart < 0 || asked.Offset >= got.LogStart && asked.Offset > asked.LogStart {
		return fmt.Errorf("%w: the leader's log is [%d, %d), this one ends at %d", got.Err,
			got.LogStart, got.LogEnd, asked.Offset)
	}
	p.logger.Info("begin log anew where the leader's begins", "partition", p.id, "at", got.LogStart,
		"ended", asked.Offset)
	return p.log.StartAt(got.LogStart)
}
