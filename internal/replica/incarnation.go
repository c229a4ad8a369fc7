package replica

import (
	"fmt"

	"heartwood.dev/heartwood/internal/logstore"
)

// errMembershipUndecided rejects following while the image has this broker in the ISR in an earlier
// broker epoch, with a log that must be discarded: one of another replica incarnation, or an
// incomplete copy of another leader's log. Whether this broker stays in the ISR is about to be
// decided, and the fate of the log depends on that decision.
var errMembershipUndecided = fmt.Errorf("%w, and this broker's ISR membership is not decided yet",
	ErrNotLeader)

// adoptIncarnation compares the log's replica incarnation id with the image's. A log of another
// incarnation is discarded: while this broker was no replica, the others did not wait for it before
// they removed tombstones, so a deleted value in its log would never be removed (ADR 0185).
//
// The log of a leader or of a replica in sync is kept: its records are the partition's, whatever
// incarnation it was created for. A log of another incarnation is found by a new partition, such as
// a Partition that was deleted and created again, and after accepted data loss; otherwise only the
// incarnation that a follower reports to its leader can join the ISR. The log is also kept while
// the partition has no leader, because it may be the last copy.
//
// The caller holds changing, and no fetch was sent in role r yet. The order of the steps matters:
// first the records are removed durably, then the note of the broker that they were copied from,
// then the log gets its new id. After a crash between any two the log still has the old id, and is
// discarded again.
func (p *partition) adoptIncarnation(r *role) error {
	if p.log == nil {
		return nil
	}
	if r.incarnation != "" && r.incarnation != p.incarnation {
		switch {
		case r.inSync || r.leaderState != nil || p.log.LogEnd() == 0:
		case !r.mayFollow():
			return nil
		case r.inISR:
			r.refusal = errMembershipUndecided
			return nil
		default:
			if err := p.discardLog(r); err != nil {
				return err
			}
		}
		if err := p.log.SetReplicaIncarnation(r.incarnation); err != nil {
			return err
		}
		p.incarnation = r.incarnation
	}
	r.logIncarnation = p.incarnation
	return nil
}

func (p *partition) discardLog(r *role) error {
	p.logger.Info(MessageDiscardIncarnation, "partition", p.id,
		"logStart", p.log.LogStart(), "logEnd", p.log.LogEnd(),
		"logIncarnation", p.incarnation, "incarnation", r.incarnation)
	p.log.Compaction().SetReplicasTombstoneClean(0)
	if err := p.resetLog(0); err != nil {
		return fmt.Errorf("discard log of another replica incarnation: %w", err)
	}
	return nil
}

// loadReplicaState reads the replica state that is stored with a log that was just opened.
func (p *partition) loadReplicaState(log *logstore.Log) (err error) {
	if p.source, err = log.CopySource(); err != nil {
		return err
	}
	if p.gapEpoch, err = log.CopyGap(); err != nil {
		return err
	}
	p.incarnation, err = log.ReplicaIncarnation()
	return err
}
