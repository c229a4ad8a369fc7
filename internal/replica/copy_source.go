package replica

import (
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
)

// requireSingleSource ensures that a new replica of a compacted topic is a copy of one broker's
// log. If another broker becomes the leader before the replica is in sync, the replica discards its
// log and copies again. Otherwise it could copy a superseded value from one broker, and continue at
// another broker that has already removed the value and its tombstone (ADR 0155). The log is also
// discarded if it has an offset gap and acknowledged records may have been lost after the leader
// epoch of the gap (ADR 0201).
//
// The caller holds changing, and has not sent a fetch in role r yet. After such a fetch the leader
// may add this replica to the ISR, and an ISR member's log must not be discarded. For the same
// reason the replica fetches nothing while the image's ISR contains this broker in an earlier
// broker epoch. In that state the stored copy source may be outdated: a power cut may have restored
// the stored value, or the broker was killed before it removed the value.
func (p *partition) requireSingleSource(r *role) error {
	if p.log == nil {
		return nil
	}
	p.gapNewerThanImage = p.gapNewerThanImage && r.inSync && r.leaderState == nil
	if r.inSync || r.leaderState != nil {
		p.markComplete()
		return nil
	}
	otherSource := p.source != metadata.NoBroker && r.leader != p.source
	lost := p.gapEpoch >= 0 && r.lostSince(p.gapEpoch)
	if !r.mayFollow() || !p.log.Settings().Compact || !otherSource && !lost {
		return nil
	}
	// The image's ISR contains this broker in an earlier epoch. A fetch now could make the leader keep
	// this broker in the ISR. The incomplete log would then count as complete, and could no longer be
	// discarded.
	if r.inISR {
		r.refusal = errMembershipUndecided
		return nil
	}
	p.logger.Info(MessageDiscardCopy, "partition", p.id, "logEnd", p.log.LogEnd(),
		"source", p.source, "leader", r.leader, "leaderChanged", otherSource, "recordsLost", lost)
	if err := p.resetLog(p.log.LogStart()); err != nil {
		return fmt.Errorf("discard incomplete copy: %w", err)
	}
	return nil
}

// markComplete removes two notes that are stored with the log: that it is an incomplete copy, and
// that it has an offset gap after which records may be missing. If the gap is newer than the image,
// its note is kept. If a note cannot be removed, the log may be copied once more when this replica
// falls behind.
func (p *partition) markComplete() {
	var failed error
	if p.source != metadata.NoBroker {
		failed = p.setSource(metadata.NoBroker)
		p.source = metadata.NoBroker
	}
	if !p.gapNewerThanImage {
		failed = errors.Join(failed, p.clearGap())
		p.gapEpoch = -1
	}
	if failed != nil {
		p.logger.Warn("failed to remove the note that the log is an incomplete copy", "partition", p.id,
			"error", failed)
	}
}

// storeGap durably stores that the records that the caller is about to append follow an offset gap.
// This note must survive a kill of this broker: the next leader may be a broker that has lost the
// records that superseded the records in the gap (ADR 0201).
//
// A replica in sync receives no gap: cleaning makes gaps only below the high watermark, and the
// replica has every record there. So if the image shows this replica in sync, the image is stale.
func (p *partition) storeGap(r *role) error {
	p.gapNewerThanImage = r.inSync
	if p.gapEpoch == r.epoch {
		return nil
	}
	if err := p.log.Notes().SetCopyGap(r.epoch); err != nil {
		return err
	}
	p.gapEpoch = r.epoch
	return nil
}

func (p *partition) clearGap() error {
	if p.gapEpoch < 0 {
		return nil
	}
	if err := p.log.Notes().SetCopyGap(-1); err != nil {
		return err
	}
	p.gapEpoch, p.gapNewerThanImage = -1, false
	return nil
}

// setSource durably stores the copy source: this log is an incomplete copy of the given broker's
// log.
func (p *partition) setSource(broker int32) error {
	if err := p.log.Notes().SetCopySource(broker); err != nil {
		return err
	}
	p.source = broker
	return nil
}

// resetLog removes all records, so that the current leader's log can be copied. The empty log
// starts at the offset start.
func (p *partition) resetLog(start int64) error {
	if err := p.log.StartAt(start); err != nil {
		return err
	}
	return errors.Join(p.clearGap(), p.setSource(metadata.NoBroker))
}
