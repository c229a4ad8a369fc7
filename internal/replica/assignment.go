package replica

import (
	"fmt"
	"slices"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// errUnsettled refuses to follow while the image has this broker in sync in an earlier incarnation,
// with a log that was made for another assignment, or that is to begin anew: whether it stays in
// sync is about to be decided, and then what becomes of the log.
var errUnsettled = fmt.Errorf("%w, and whether this broker is in sync is not decided yet",
	ErrNotLeader)

// settleAssignment holds the log against the assignment by which this broker is a replica. One that
// was made for another is given up: the others did not wait for this broker with their tombstones
// while it was no replica, and a value that it kept from the time before would be there for ever
// (ADR 0185).
//
// Not so the log of one that leads or is in sync: then it is the truth, whatever it was made for.
// That happens to a new partition that finds logs, as when a Partition was deleted and made again,
// and where somebody agreed to lose records; nobody else gets into the in-sync replicas but by the
// assignment that it told its leader. And not while nobody leads: it may be the last copy there is.
//
// It is called with changing held, before the first fetch in role r. In this order: the records go,
// for good; the note of whose copy they were; then the log gets its new name. A crash between any
// two leaves a log under its old name, which is given up again.
func (p *partition) settleAssignment(r *role) error {
	if p.log == nil {
		return nil
	}
	if r.assignment != "" && r.assignment != p.assignment {
		switch {
		case r.inSync || r.reign != nil || p.log.LogEnd() == 0:
		case r.refusal != ErrNotLeader || r.leader == metadata.NoBroker: //nolint:errorlint // see follows
			return nil
		case r.member:
			r.refusal = errUnsettled
			return nil
		default:
			if err := p.giveUp(r); err != nil {
				return err
			}
		}
		if err := p.log.SetAssignment(r.assignment); err != nil {
			return err
		}
		p.assignment = r.assignment
	}
	r.held = p.assignment
	return nil
}

// giveUp empties the log.
func (p *partition) giveUp(r *role) error {
	p.logger.Info("give up a log that was made for another assignment", "partition", p.id, "start",
		p.log.LogStart(), "end", p.log.LogEnd(),
		"madeFor", p.assignment, "assignment", r.assignment)
	p.log.Compaction().SetReplicasTombstoneClean(0)
	if err := p.restart(0); err != nil {
		return fmt.Errorf("give up a log of another assignment: %w", err)
	}
	return nil
}

// place fills in what an image says of this broker as a replica.
func (r *role) place(img *metadata.Image, p *metadata.Partition, node int32) {
	r.assignment = p.ReplicaIncarnation(node)
	at := slices.Index(p.ISR, node)
	r.member = at >= 0
	r.inSync = r.member
	if self, up := img.Broker(node); r.member && up && at < len(p.ISREpochs) {
		r.inSync = p.ISREpochs[at] == self.Epoch
	}
}

// openAssignment reads what is known of a log that was just opened.
func (p *partition) openAssignment(log *logstore.Log) (err error) {
	if p.source, err = log.CopySource(); err != nil {
		return err
	}
	if p.gapEpoch, err = log.CopyGap(); err != nil {
		return err
	}
	p.assignment, err = log.Assignment()
	return err
}
