package consumer

import (
	"heartwood.dev/heartwood/internal/coordinator/assignor"
)

// reconcile returns the state of a member after its next step towards its target.
func (g *Group) reconcile(m *Member, target assignor.Assignment, assignmentEpoch int32,
	t *transition) Current {
	switch {
	case m.Phase == Unrevoked && t.h.mayOwn(m.Revoking):
		return m.Current // the member may still own partitions that it must revoke
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
	if t.h.mayOwn(next.Revoking) {
		// The member keeps its epoch until it reports that it has revoked these partitions.
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
				owner != t.replaces {
				next.Phase = Unreleased
			} else {
				next.Assigned.add(topic, partition, assignmentEpoch)
			}
		}
	}
	if next.Epoch == m.Epoch && next.Phase == m.Phase {
		next.Previous = m.Previous
		if next.equal(&m.Current) {
			return m.Current // the state is unchanged
		}
		next.Previous = m.Epoch
	}
	return next
}

// mayOwn reports whether the member may still own one of the given partitions, because the
// heartbeat lists one of them or does not list owned partitions at all.
func (h *Heartbeat) mayOwn(owned Owned) bool {
	if len(owned) == 0 {
		return false
	}
	if h.Owned == nil {
		return true
	}
	for topic, partitions := range owned {
		for partition := range partitions {
			if h.Owned.Has(topic, partition) {
				return true
			}
		}
	}
	return false
}
