package replica

import (
	"fmt"

	"heartwood.dev/heartwood/internal/metadata"
)

// oneSource keeps a new replica of a compacted topic from being put together of two logs: until it has been in sync it is copied from one
// broker, and begun anew if another comes to lead. Else it could take a value from one on which that is still garbage, and go on at
// another that has removed the value and its tombstone long ago (ADR 0155).
//
// It is called with changing held, before the first fetch in role r: a leader that has heard of the old end may take this replica into the
// in-sync replicas, and nothing may be given up then.
func (p *partition) oneSource(r *role) error {
	if p.log == nil {
		return nil
	}
	if r.inSync || r.reign != nil {
		p.gapEpoch = 0
		p.whole()
		return nil
	}
	follows := r.refusal == ErrNotLeader && r.leader != metadata.NoBroker //nolint:errorlint // see follows
	other := p.source != metadata.NoBroker && r.leader != p.source
	if !follows || r.member || !p.log.Settings().Compact || !other && !(p.gapEpoch > 0 && r.lostSince(p.gapEpoch)) {
		return nil
	}
	p.logger.Info("begin copy anew: another broker leads, whose log may have been cleaned further, or has lost records", "partition", p.id,
		"ended", p.log.LogEnd(), "from", p.source, "leader", r.leader)
	if err := p.restart(p.log.LogStart()); err != nil {
		return fmt.Errorf("begin copy anew: %w", err)
	}
	return nil
}

// whole notes that the log is no copy under way.
func (p *partition) whole() {
	if p.source == metadata.NoBroker {
		return
	}
	if err := p.noteSource(metadata.NoBroker); err != nil { // all that it costs is another copy, if this replica ever falls behind
		p.logger.Warn("cannot note that a copy is whole", "partition", p.id, "error", err)
	}
	p.source = metadata.NoBroker
}

// noteSource notes that the log is a copy of a broker's that is not whole; NoBroker: it is whole, or nothing.
func (p *partition) noteSource(broker int32) error {
	if err := p.log.SetCopySource(broker); err != nil {
		return err
	}
	p.source = broker
	return nil
}
