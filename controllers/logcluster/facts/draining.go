package facts

import (
	"slices"
	"strings"

	"heartwood.dev/heartwood/api/v1alpha1"
)

// namesMax is the maximum number of resources that a message names.
const namesMax = 5

// Draining describes the brokers that are to be removed, and the replicas that they still hold.
type Draining struct {
	Replicas   int32    // replicas that brokers to be removed hold or are assigned
	Partitions []string // the partitions of these replicas, sorted
	// Brokers is the number of running brokers until draining is done: the highest id of a broker with
	// replicas, plus one, and at least spec.brokers.
	Brokers int32
	// Retained is the number of retained partitions of deleted topics with a replica on a broker that
	// is to be removed, or was. They do not move.
	Retained int
	TooMany  []string // Topics with more replicas than spec.brokers, sorted
	// Unknown describes the PartitionSets and partitions whose replicas are unknown, sorted. No broker
	// is removed until they are known.
	Unknown []string
}

// Drain returns the replicas that are still to be moved. It ignores partitions whose Topic was
// deleted: a broker that holds only their records may be removed, because its volume with these
// records is kept.
func (s *Facts) Drain() Draining {
	d := s.walked().draining
	if d.Unknown = s.unknownReplicas(s.walked().tags); len(d.Unknown) > 0 {
		d.Brokers = max(d.Brokers, s.RunningBrokers())
	}
	return d
}

// unknownReplicas describes the PartitionSets that do not exist, because they were deleted and are
// created again, and the partitions of existing Topics whose entries cannot be parsed.
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
