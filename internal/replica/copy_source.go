package replica

import (
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
)

// requireSingleSource makes a new replica of a compacted topic a copy of one broker's log. Until
// the replica has been in sync, it is discarded and copied again if another broker becomes the
// leader. Otherwise it could copy a superseded value from one broker, and continue at another one
// that has already removed the value and its tombstone (ADR 0155).
//
// The caller holds changing, and no fetch was sent in role r yet: a leader that has learned the old
// log end may add this replica to the ISR, and then nothing may be discarded. So while the image
// has this broker in the ISR in an earlier broker epoch, nothing is fetched. In that state the
// stored note that the log is an incomplete copy may be stale: a power cut may have restored it, or
// the broker was killed before it removed the note.
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
	// This broker is in the ISR in an earlier epoch: if its leader learned of this log now, the log
	// could not be discarded once the membership is decided.
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

// markComplete records that the log is no incomplete copy and has no offset gap behind which
// records may be missing. If the note cannot be stored, the log may be copied once more when this
// replica falls behind.
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
		p.logger.Warn("failed to record that the copy is complete", "partition", p.id,
			"error", failed)
	}
}

// recordGap records durably, before the append, that the next records are behind an offset gap. The
// note must survive a kill of this broker: the next leader may be a broker that lost the records
// which superseded the records in the gap (ADR 0201).
//
// A replica in sync receives no gaps, because nothing above its log end is below the high
// watermark. If the image shows this replica in sync, the image is stale.
func (p *partition) recordGap(r *role) error {
	p.gapNewerThanImage = r.inSync
	if p.gapEpoch == r.epoch {
		return nil
	}
	if err := p.log.SetCopyGap(r.epoch); err != nil {
		return err
	}
	p.gapEpoch = r.epoch
	return nil
}

func (p *partition) clearGap() error {
	if p.gapEpoch < 0 {
		return nil
	}
	if err := p.log.SetCopyGap(-1); err != nil {
		return err
	}
	p.gapEpoch, p.gapNewerThanImage = -1, false
	return nil
}

// setSource records durably which broker the log is an incomplete copy of.
func (p *partition) setSource(broker int32) error {
	if err := p.log.SetCopySource(broker); err != nil {
		return err
	}
	p.source = broker
	return nil
}

// resetLog empties the log, so that the current leader's log can be copied.
func (p *partition) resetLog(start int64) error {
	if err := p.log.StartAt(start); err != nil {
		return err
	}
	return errors.Join(p.clearGap(), p.setSource(metadata.NoBroker))
}
