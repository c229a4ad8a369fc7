package replica

import (
	"fmt"

	"heartwood.dev/heartwood/internal/logstore"
)

// errMembershipUndecided means that this broker does not follow the leader yet. Its log must be
// discarded, because it belongs to another replica incarnation or is an incomplete copy of another
// leader's log. But the image's ISR contains an earlier epoch of this broker, and an ISR member
// must keep its log. The broker waits until an image shows whether it stays in the ISR.
var errMembershipUndecided = fmt.Errorf("%w: the log must be discarded, "+
	"but it is undecided whether this broker stays in the ISR", ErrNotLeader)

// adoptIncarnation compares the log's replica incarnation id with the image's, and discards a log
// of another incarnation. Such a log was written before this broker was removed from the replicas.
// Since then, the other replicas have removed tombstones without waiting for this broker, so a
// deleted value in the log would never be removed (ADR 0185).
//
// Two kinds of logs are kept although their incarnation id differs:
//
//   - The log of a leader or of a replica in sync is kept. Its records are the partition's records,
//     whichever incarnation the log was created for. The ids differ if the partition's entry was
//     lost, and after accepted data loss. In all other cases a follower joins the ISR only with the
//     incarnation that the leader expects.
//   - The log of a partition without a leader is kept, because it may be the last copy.
//
// The caller holds changing, and has not sent a fetch in role r yet. The order of the steps
// matters: first the records are durably removed, then the stored copy source, and finally the log
// gets its new id. After a crash between two steps the log still has the old id, and is discarded
// again.
func (p *partition) adoptIncarnation(r *role) error {
	if p.log == nil {
		return nil
	}
	if p.log.Notes().Loss() != "" {
		return p.resolveLoss(r)
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
		if err := p.log.Notes().SetReplicaIncarnation(r.incarnation); err != nil {
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
	p.log.Compaction().Progress.SetReplicasTombstoneClean(0)
	if err := p.resetLog(0); err != nil {
		return fmt.Errorf("discard log of another replica incarnation: %w", err)
	}
	p.damaged.Store(false)
	return nil
}

// loadReplicaState reads the replica's state, which is stored with its log. The log was just
// opened.
func (p *partition) loadReplicaState(log *logstore.Log) (err error) {
	if p.source, err = log.Notes().CopySource(); err != nil {
		return err
	}
	if p.gapEpoch, err = log.Notes().CopyGap(); err != nil {
		return err
	}
	p.incarnation, err = log.Notes().ReplicaIncarnation()
	return err
}
