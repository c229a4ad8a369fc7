package v1alpha1

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
)

// noLeader is status.leader of a partition without a leader.
const noLeader int32 = -1

// Brokers returns, sorted, the ids of all brokers that spec or status name: those that hold a
// replica, are to hold one, or are in sync.
func (p *Partition) Brokers() []int32 {
	all := slices.Concat(p.Spec.Replicas, p.Status.Replicas)
	for _, replica := range p.Status.ISR {
		all = append(all, replica.Broker)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// Ready reports whether the leader serves the partition: condition Ready is True.
func (p *Partition) Ready() bool {
	return meta.IsStatusConditionTrue(p.Status.Conditions, ConditionReady)
}

// UnderReplicated reports whether the partition has no leader or any replica in spec.replicas is
// not in sync.
func (p *Partition) UnderReplicated() bool {
	if p.Status.Leader == noLeader {
		return true
	}
	return slices.ContainsFunc(p.Spec.Replicas, func(id int32) bool {
		return !slices.ContainsFunc(p.Status.ISR,
			func(r InSyncReplica) bool { return r.Broker == id })
	})
}

// Reassigning reports whether a reassignment is in progress: status.replicas differs from
// spec.replicas.
func (p *Partition) Reassigning() bool {
	return len(p.Status.Replicas) > 0 && !slices.Equal(p.Status.Replicas, p.Spec.Replicas)
}
