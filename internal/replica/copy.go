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
	switch {
	case p.log == nil || p.source == metadata.NoBroker:
		return nil
	case r.inSync || r.reign != nil:
		if err := p.noteSource(metadata.NoBroker); err != nil { // all that it costs is another copy, if this replica ever falls behind
			p.logger.Warn("cannot note that a copy is whole", "partition", p.id, "error", err)
		}
		p.source = metadata.NoBroker
		return nil
	case r.leader == metadata.NoBroker || r.leader == p.source || r.refusal != ErrNotLeader || !p.log.Settings().Compact: //nolint:errorlint // see follows
		return nil
	}
	p.logger.Info("begin copy anew: another broker leads, whose log may have been cleaned further", "partition", p.id,
		"ended", p.log.LogEnd(), "from", p.source, "leader", r.leader)
	if err := p.log.StartAt(p.log.LogStart()); err != nil {
		return fmt.Errorf("begin copy anew: %w", err)
	}
	return p.noteSource(metadata.NoBroker)
}

// noteSource notes that the log is a copy of a broker's that is not whole; NoBroker: it is whole, or nothing.
func (p *partition) noteSource(broker int32) error {
	if err := p.log.SetCopySource(broker); err != nil {
		return err
	}
	p.source = broker
	return nil
}
