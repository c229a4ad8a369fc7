package facts

import (
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// namesMax is the maximum number of names in a message.
const namesMax = 5

// Draining describes the brokers that are to be removed, and the replicas that they still have.
type Draining struct {
	Replicas   int32    // number of replicas that are on brokers to be removed, or assigned to them
	Partitions []string // partitions of these replicas, sorted
	// Brokers is the number of brokers that must run until draining is done: the highest id of a
	// broker with replicas, plus one, and at least spec.brokers.
	Brokers int32
	// Retained is the number of retained partitions of deleted topics with a replica on a broker that
	// is being removed or was removed. These replicas do not move.
	Retained int
	TooMany  []string // Topics with more replicas than spec.brokers, sorted
	// Unknown describes the PartitionSets and partitions whose replicas are unknown, sorted. No broker
	// is removed until they are known.
	Unknown []string
}

// Drain returns the replicas that must still move. It ignores partitions whose Topic was deleted. A
// broker that has only records of such partitions can be removed, because its volume with these
// records is kept.
func (s *Facts) Drain() Draining {
	d := s.walked().draining
	if d.Unknown = s.unknownReplicas(s.walked().tags); len(d.Unknown) > 0 {
		d.Brokers = max(d.Brokers, s.RunningBrokers())
	}
	return d
}

// unknownReplicas describes the PartitionSets and partitions whose replicas are unknown:
// PartitionSets that were deleted and not yet created again, and partitions of existing Topics
// whose entries cannot be parsed.
func (s *Facts) unknownReplicas(tags map[string]string) (unknown []string) {
	for number := range s.Sets.Count {
		set := s.Sets.Sets[number]
		if set == nil {
			unknown = append(unknown, "PartitionSet "+
				v1alpha1.PartitionSetName(s.Cluster.Name, number)+" (does not exist)")
			continue
		}
		for _, key := range set.InvalidKeys() {
			if _, exists := tags[key.Topic]; exists {
				unknown = append(unknown, key.String()+" (correct its entry in PartitionSet "+
					v1alpha1.PartitionSetName(s.Cluster.Name, number)+")")
			}
		}
	}
	slices.Sort(unknown)
	return unknown
}

// FirstNames joins the first namesMax names, followed by "..." if there are more names.
func FirstNames(names []string) string {
	if len(names) > namesMax {
		return strings.Join(names[:namesMax], " ") + " ..."
	}
	return strings.Join(names, " ")
}
