package topic

import (
	"k8s.io/apimachinery/pkg/types"

	"heartwood.dev/heartwood/controllers/keyed"
)

// placements records where the Partitions of each Topic were last observed. Deleting a Partition of
// an existing Topic deletes no records: the Partition is created again on the same brokers, which
// nothing else knows by then.
//
// A restart of the operator loses the placements of deleted Partitions; a ValidatingAdmissionPolicy
// (config/admission) rejects such deletions meanwhile.
type placements struct {
	byTopic keyed.Map[lastPlacement]
}

// lastPlacement is where the Partitions of one Topic were last observed, by index.
type lastPlacement struct {
	topic    types.UID
	replicas map[int32][]int32
	uids     map[int32]types.UID // of the Partitions
}

// observe records the Partitions that exist and returns the placement of the Topic. A Topic that
// was created again starts with an empty one: a name may be used again, a UID is not. The maps are
// changed in place; see keyed.Map.
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
