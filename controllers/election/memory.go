package election

import (
	"time"

	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// memory is the information about a set's partitions that the controller keeps between
// reconciliations. It is lost when the operator restarts. Outages that have begun before are then
// not measured, and leadership moves back to preferred leaders only after another full delay.
type memory struct {
	cluster   string // name of the LogCluster
	outages   outages
	preferred preferred
}

func newMemory(cluster string) *memory {
	return &memory{cluster: cluster, outages: outages{served: map[partitionset.Key]bool{},
		since: map[partitionset.Key]time.Time{}}, preferred: preferred{}}
}

// retain removes the partitions that the set no longer contains.
func (m *memory) retain(set *partitionset.Set) {
	for key := range m.outages.served {
		if _, ok := set.Get(key); !ok {
			m.outages.forget(key)
		}
	}
	for key := range m.outages.since {
		if _, ok := set.Get(key); !ok {
			m.outages.forget(key)
		}
	}
}
