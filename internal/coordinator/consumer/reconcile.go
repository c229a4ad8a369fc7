package consumer

import (
	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// reconcile is the member's next step to its target: where it stands afterwards.
func (g *Group) reconcile(m *Member, target assignor.Assignment, assignmentEpoch int32,
	t *turn) Current {
	switch {
	case m.Phase == Unrevoked && t.h.keeps(m.Revoking):
		return m.Current // it has not given up what it has to
	case m.Phase == Stable && m.Epoch == assignmentEpoch:
		return m.Current
	}
	next := Current{Epoch: assignmentEpoch, Previous: m.Epoch, Phase: Stable, Assigned: Owned{},
		Revoking: Owned{}}
	for topic, partitions := range m.Assigned {
		for partition, epoch := range partitions {
			if target.Has(topic, partition) {
				next.Assigned.add(topic, partition, epoch)
			} else {
				next.Revoking.add(topic, partition, epoch)
			}
		}
	}
	if t.h.keeps(next.Revoking) {
		// It stays in its epoch until it says that it has them no more.
		next.Epoch, next.Phase = m.Epoch, Unrevoked
		return next
	}
	next.Revoking = Owned{}
	for topic, partitions := range target {
		for _, partition := range partitions {
			if _, has := next.Assigned[topic][partition]; has {
				continue
			}
			if owner := g.owners[topic][partition]; owner != "" && owner != m.ID &&
				owner != t.instead {
				next.Phase = Unreleased
			} else {
				next.Assigned.add(topic, partition, assignmentEpoch)
			}
		}
	}
	if next.Epoch == m.Epoch && next.Phase == m.Phase {
		next.Previous = m.Previous
		if next.equal(&m.Current) {
			return m.Current // it still waits for the same
		}
		next.Previous = m.Epoch
	}
	return next
}

// keeps tells whether the member may have any of the partitions still: as it says, or as long as it
// says nothing.
func (h *Heartbeat) keeps(of Owned) bool {
	if len(of) == 0 {
		return false
	}
	if h.Owned == nil {
		return true
	}
	for topic, partitions := range of {
		for partition := range partitions {
			if h.Owned.Has(topic, partition) {
				return true
			}
		}
	}
	return false
}
