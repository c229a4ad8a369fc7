package replica

import (
	"errors"
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
)

// oneSource keeps a new replica of a compacted topic from being put together of two logs: until it
// has been in sync it is copied from one broker, and begun anew if another comes to lead. Else it
// could take a value from one on which that is still garbage, and go on at another that has removed
// the value and its tombstone long ago (ADR 0155).
//
// It is called with changing held, before the first fetch in role r: a leader that has heard of the
// old end may take this replica into the in-sync replicas, and nothing may be given up then. So
// while the image has this broker in sync in an earlier incarnation, nothing is fetched: the note
// of a copy that has long been whole may have come back with a power cut, or the broker was killed
// before it was removed.
func (p *partition) oneSource(r *role) error {
	if p.log == nil {
		return nil
	}
	p.gapAhead = p.gapAhead && r.inSync && r.reign == nil
	if r.inSync || r.reign != nil {
		p.whole()
		return nil
	}
	follows := r.refusal == ErrNotLeader &&
		r.leader != metadata.NoBroker //nolint:errorlint // see follows
	other := p.source != metadata.NoBroker && r.leader != p.source
	if !follows || !p.log.Settings().Compact || !other &&
		!(p.gapEpoch >= 0 && r.lostSince(p.gapEpoch)) {
		return nil
	}
	// by an earlier incarnation: were its leader to hear of this log now, it could not be given up
	// once that is decided
	if r.member {
		r.refusal = errUnsettled
		return nil
	}
	p.logger.Info(
		"begin copy anew: another broker leads, whose log may have been cleaned further, or has lost records",
		"partition",
		p.id,
		"ended",
		p.log.LogEnd(),
		"from",
		p.source,
		"leader",
		r.leader,
	)
	if err := p.restart(p.log.LogStart()); err != nil {
		return fmt.Errorf("begin copy anew: %w", err)
	}
	return nil
}

// whole notes that the log is no copy under way, nor behind a gap.
func (p *partition) whole() {
	var failed error
	if p.source != metadata.NoBroker {
		failed = p.noteSource(metadata.NoBroker)
		p.source = metadata.NoBroker
	}
	if !p.gapAhead {
		failed = errors.Join(failed, p.closeGap())
		p.gapEpoch = -1
	}
	if failed != nil { // all that it costs is another copy, if this replica ever falls behind
		p.logger.Warn("cannot note that a copy is whole", "partition", p.id, "error", failed)
	}
}

// noteGap notes that what is about to be appended lies behind a gap. It is on the disk before that
// is: whoever has lost the records that superseded what was there may be elected after this broker
// was killed as well (ADR 0201).
//
// A replica in sync is sent no gaps, for nothing above its end is below the high watermark. If the
// image says that this is one, it is old.
func (p *partition) noteGap(r *role) error {
	p.gapAhead = r.inSync
	if p.gapEpoch == r.epoch {
		return nil
	}
	if err := p.log.SetCopyGap(r.epoch); err != nil {
		return err
	}
	p.gapEpoch = r.epoch
	return nil
}

// closeGap notes that the log has no gap that matters.
func (p *partition) closeGap() error {
	if p.gapEpoch < 0 {
		return nil
	}
	if err := p.log.SetCopyGap(-1); err != nil {
		return err
	}
	p.gapEpoch, p.gapAhead = -1, false
	return nil
}

// noteSource notes that the log is a copy of a broker's that is not whole; NoBroker: it is whole,
// or nothing.
func (p *partition) noteSource(broker int32) error {
	if err := p.log.SetCopySource(broker); err != nil {
		return err
	}
	p.source = broker
	return nil
}
