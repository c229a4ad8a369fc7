package replica

import (
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/record"
)

// Why a follower cannot go on by itself.
var (
	errNoEpochs = errors.New("the log has records and knows no leader epoch: nobody can tell whether it is the leader's")
	errNoCut    = errors.New("the leader says that the logs part, and there is nothing to cut off")
)

// pulls is where this replica stands, for its leader.
func (p *partition) pulls(r *role, bytesMax int) (PullPartition, error) {
	at := PullPartition{
		ID: p.id, Topic: p.topic, LeaderEpoch: r.epoch, LastEpoch: p.log.LeaderEpoch(), LogStart: p.log.LogStart(), HighWater: p.log.HighWatermark(),
		Cleaned: p.log.CleanedTo(), Told: p.log.ReplicasCleaned(), BytesMax: bytesMax,
	}
	at.Offset = p.log.LogEnd()
	at.Safe = min(p.log.SafeEnd(), at.Offset)
	if at.LastEpoch < 0 && at.Offset > at.LogStart {
		return at, errNoEpochs
	}
	return at, p.log.Fault()
}

// follow does to the log what its leader answered to a fetch made in role r. moved tells whether the high watermark did. An answer of a
// leader that is none any more does nothing.
func (p *partition) follow(r *role, asked *PullPartition, got *Pulled, now time.Time) (moved bool, err error) {
	p.changing.Lock()
	defer p.changing.Unlock()
	if current := p.role.Load(); current.epoch != r.epoch || current.refusal != r.refusal { //nolint:errorlint // the very same
		return false, nil
	}
	switch {
	case errors.Is(got.Err, logstore.ErrOffsetOutOfRange):
		return false, p.reposition(asked, got)
	case got.Err != nil:
		return false, got.Err
	case got.DivergingEpoch >= 0:
		return false, p.truncate(asked, got)
	}
	if err := p.appendPulled(r, asked, got.Records, now); err != nil {
		return false, err
	}
	if got.HighWater >= 0 {
		moved = p.log.AdvanceHighWatermark(got.HighWater) // at most the log end
	}
	p.log.SetReplicasCleaned(got.Cleaned)
	// What the leader has given up; never above the high watermark, which may be behind it for a moment.
	if start := min(got.LogStart, p.log.HighWatermark()); start > p.log.LogStart() {
		err = p.log.DeleteBefore(start)
	}
	return moved, err
}

// appendPulled appends what the leader sent.
//
// A leader's log may begin within a batch (DeleteRecords), and an empty replica that begins there is sent the whole batch: it begins
// again where the batch does. What lies below the leader's log start goes with the next high watermark.
func (p *partition) appendPulled(r *role, asked *PullPartition, records []byte, now time.Time) error {
	if len(records) == 0 {
		return nil
	}
	first, _, err := record.Next(records)
	if err != nil {
		return fmt.Errorf("%w: %w", record.ErrCorrupt, err)
	}
	end := p.log.LogEnd()
	if end != asked.Offset {
		return fmt.Errorf("%w: asked for %d, the log ends at %d by now", logstore.ErrUnexpectedOffset, asked.Offset, end)
	}
	if base := first.BaseOffset(); base >= 0 && base < end && first.LastOffset() >= end && p.log.LogStart() == end {
		if err := p.log.StartAt(base); err != nil {
			return err
		}
	}
	if !r.inSync && p.log.LogEnd() == p.log.LogStart() && p.source != r.leader {
		if err := p.noteSource(r.leader); err != nil {
			return err
		}
	}
	return p.log.AppendReplicated(records, now)
}

// truncate cuts off what the leader does not have (KIP-101, KIP-279). All records of the leader up to its DivergingEpoch lie below
// DivergingEnd, and its later ones are of epochs that this log does not know; so whatever this log has at or above
// DivergingEnd, or of a later epoch than DivergingEpoch, the leader has not.
func (p *partition) truncate(asked *PullPartition, got *Pulled) error {
	to := min(got.DivergingEnd, p.log.LogEnd())
	if _, end := p.log.EndOffsetFor(got.DivergingEpoch); end >= 0 {
		to = min(to, end)
	}
	if hw := p.log.HighWatermark(); to < hw {
		p.logger.Warn("records below the high watermark are cut off: the leader does not have them", "partition", p.id,
			"to", to, "highWatermark", hw, "leaderEpoch", asked.LeaderEpoch)
	}
	p.logger.Info("truncate log to the leader's", "partition", p.id, "from", asked.Offset, "to", to,
		"lastEpoch", asked.LastEpoch, "divergingEpoch", got.DivergingEpoch, "divergingEnd", got.DivergingEnd)
	if err := p.log.TruncateTo(to); err != nil {
		return err
	}
	if p.log.LogEnd() == asked.Offset && p.log.LeaderEpoch() == asked.LastEpoch {
		return errNoCut // else it would be asked and told the same again, at once
	}
	return nil
}

// reposition is for a log that does not meet the leader's: what there is lies below all that the leader has, or there is nothing.
func (p *partition) reposition(asked *PullPartition, got *Pulled) error {
	if got.LogStart < 0 || asked.Offset >= got.LogStart && asked.Offset > asked.LogStart {
		return fmt.Errorf("%w: the leader's log is [%d, %d), this one ends at %d", got.Err, got.LogStart, got.LogEnd, asked.Offset)
	}
	p.logger.Info("begin log anew where the leader's begins", "partition", p.id, "at", got.LogStart, "ended", asked.Offset)
	return p.log.StartAt(got.LogStart)
}
