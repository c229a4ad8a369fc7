package partitionset

import (
	"slices"

	"heartwood.dev/heartwood/internal/placement"
)

// RemovedFrom records that a broker no longer has records of a partition that is being removed. tag
// is the tag of the partition's topic. The partition's state is removed together with its last
// replica. RemovedFrom changes nothing if the partition is not being removed, or belongs to another
// topic.
func (s *Set) RemovedFrom(key Key, tag string, broker int32) {
	entry, _ := s.Get(key)
	a := entry.Assignment
	if a == nil || a.Reclaim != Remove || a.Tag != tag || entry.State == nil ||
		!slices.Contains(entry.State.Replicas, broker) {
		return
	}
	left := func(ids []int32) []int32 {
		return slices.DeleteFunc(slices.Clone(ids), func(id int32) bool { return id == broker })
	}
	next := *entry.State
	if next.Replicas = left(next.Replicas); len(next.Replicas) == 0 {
		s.RemoveState(key)
		return
	}
	next.ISR = slices.DeleteFunc(slices.Clone(next.ISR),
		func(m placement.InSyncReplica) bool { return m.Broker == broker })
	next.Leader, next.Serving = placement.NoLeader, false
	s.PutState(key, next)
}
