package topic

import (
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/controllers/keyed"
)

// placements stores the last observed replicas of the Partitions of each Topic. If somebody deletes
// a Partition of an existing Topic, its records are not deleted, and the Partition must be created
// again on the same brokers. Only placements still has their ids.
//
// After a restart of the operator, the placements of Partitions that were deleted in the meantime
// are not known. A ValidatingAdmissionPolicy (config/admission) therefore rejects such deletions.
type placements struct {
	byTopic keyed.Map[lastPlacement]
}

// lastPlacement contains the last observed replicas and UIDs of one Topic's Partitions, by index.
type lastPlacement struct {
	topic    types.UID
	replicas map[int32][]int32
	uids     map[int32]types.UID // UIDs of the Partitions
}

// observe adds the existing Partitions to the placement of a Topic and returns the placement. If
// the Topic has another UID than before, it was deleted and created again, and starts with an empty
// placement. The maps are changed in place; see keyed.Map.
func (p *placements) observe(key types.NamespacedName, scope *scope) lastPlacement {
	current, _ := p.byTopic.Get(key)
	if current.topic != scope.topic.UID {
		current = lastPlacement{topic: scope.topic.UID, replicas: map[int32][]int32{},
			uids: map[int32]types.UID{}}
	}
	for index, partition := range scope.partitions {
		current.replicas[index], current.uids[index] = partition.Spec.Replicas, partition.UID
	}
	p.byTopic.Set(key, current)
	return current
}

func (p *placements) forget(key types.NamespacedName) { p.byTopic.Delete(key) }
