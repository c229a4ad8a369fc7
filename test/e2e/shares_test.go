//go:build e2e

package e2e

import (
	"maps"
	"slices"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"heartwood.dev/heartwood/api/v1alpha1"
	"heartwood.dev/heartwood/internal/metadata/partitionset"
)

// replicaSizes contains the size in bytes of each partition's log on each broker.
type replicaSizes map[partitionset.Key]map[int32]int64

// replicas returns the sizes of all replicas on brokers 0 to brokers-1.
func (e *environment) replicas(t *testing.T, brokers int32) replicaSizes {
	t.Helper()
	sizes := replicaSizes{}
	for id := range brokers {
		for _, p := range e.logs(t, id) {
			key := partitionset.Key{Topic: p.Topic, Index: p.Partition}
			if sizes[key] == nil {
				sizes[key] = map[int32]int64{}
			}
			sizes[key][id] = p.SizeBytes
		}
	}
	return sizes
}

// largest returns the size of the largest replica.
func (s replicaSizes) largest() (largest int64) {
	for _, brokers := range s {
		for _, size := range brokers {
			largest = max(largest, size)
		}
	}
	return largest
}

// byBroker returns the number of bytes on each broker that has a replica, and their sum.
func (s replicaSizes) byBroker() (sizes map[int32]int64, total int64) {
	sizes = map[int32]int64{}
	for _, brokers := range s {
		for id, size := range brokers {
			sizes[id] += size
			total += size
		}
	}
	return sizes, total
}

// shares returns the number of bytes on each broker when the bytes are balanced as far as racks
// allow. A partition with as many replicas as there are racks has a replica in each rack, so the
// only broker in a rack holds more than the mean.
func (s replicaSizes) shares(racks map[int32]string) map[int32]int64 {
	members := map[string][]int32{}
	for id, rack := range racks {
		members[rack] = append(members[rack], id)
	}
	bound := s.rackBytes(len(members))
	_, rest := s.byBroker()
	open := len(racks) // brokers without a share
	shares := map[int32]int64{}
	// Racks with the fewest brokers come first: what these hold beyond the mean, the others lack.
	for _, rack := range slices.SortedFunc(maps.Keys(members), func(a, b string) int {
		return len(members[a]) - len(members[b])
	}) {
		brokers := int64(len(members[rack]))
		share := max(rest/int64(open), bound/brokers)
		for _, id := range members[rack] {
			shares[id] = share
		}
		rest -= share * brokers
		open -= len(members[rack])
	}
	return shares
}

// rackBytes returns the number of bytes that each rack holds whatever the placement is.
func (s replicaSizes) rackBytes(racks int) (bytes int64) {
	for _, brokers := range s {
		var sum int64
		for _, size := range brokers {
			sum += size
		}
		bytes += sum / int64(len(brokers)) * int64(len(brokers)/racks)
	}
	return bytes
}

// rackOf returns the racks of brokers 0 to brokers-1. A broker without a rack is in a rack of its
// own, because it does not restrict the placement.
func (e *environment) rackOf(t *testing.T, brokers int32) map[int32]string {
	t.Helper()
	racks := map[int32]string{}
	for id := range brokers {
		var lease coordinationv1.Lease
		if err := e.Get(t.Context(), client.ObjectKey{Name: brokerPod(id)}, &lease); err != nil {
			t.Fatal(err)
		}
		racks[id] = lease.Annotations[v1alpha1.AnnotationRack]
		if racks[id] == "" {
			racks[id] = brokerPod(id)
		}
	}
	return racks
}
