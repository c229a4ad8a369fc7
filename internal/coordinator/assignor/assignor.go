package assignor

import (
	"cmp"
	"maps"
	"slices"
)

// TopicID is Kafka's topic id.
type TopicID = [16]byte

// Assignment maps topics to partitions. Each list of partitions is sorted, has at least one element
// and contains no duplicates.
type Assignment map[TopicID][]int32

// Equal reports whether two assignments contain the same partitions.
func (a Assignment) Equal(b Assignment) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]int32])
}

// Has reports whether the assignment contains a partition.
func (a Assignment) Has(topic TopicID, partition int32) bool {
	_, found := slices.BinarySearch(a[topic], partition)
	return found
}

// Len returns the number of partitions.
func (a Assignment) Len() (n int) {
	for _, partitions := range a {
		n += len(partitions)
	}
	return n
}

// Topics returns the topics, sorted by id.
func (a Assignment) Topics() []TopicID {
	return slices.SortedFunc(maps.Keys(a), compareTopics)
}

func compareTopics(a, b TopicID) int { return slices.Compare(a[:], b[:]) }

// Member is a member of a group.
type Member struct {
	ID       string
	Instance string     // value of group.instance.id; "" for a dynamic member
	Topics   []TopicID  // subscribed topics, if they exist
	Current  Assignment // previous assignment of the member
}

// Func assigns the partitions of topics to members. topics maps topic ids to numbers of partitions.
// The result maps member ids to assignments.
type Func func(members []Member, topics map[TopicID]int) map[string]Assignment

// These are the names of the assignors, as clients send them.
const (
	UniformName = "uniform"
	RangeName   = "range"
)

// Names returns the names of all assignors. The first is the default.
func Names() []string { return []string{UniformName, RangeName} }

// ByName returns the assignor with the given name, or nil if the name is unknown.
func ByName(name string) Func {
	switch name {
	case UniformName:
		return Uniform
	case RangeName:
		return Range
	default:
		return nil
	}
}

// ordered returns members in an order that does not change when their processes restart: static
// members, ordered by instance id, and then dynamic members, ordered by member id.
func ordered(members []Member) []Member {
	return slices.SortedFunc(slices.Values(members), func(a, b Member) int {
		if (a.Instance == "") != (b.Instance == "") {
			return cmp.Compare(b.Instance, a.Instance)
		}
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.ID, b.ID))
	})
}

// subscribers returns the subscribers of each topic, as ascending indexes into members.
func subscribers(members []Member, topics map[TopicID]int) map[TopicID][]int {
	all := make(map[TopicID][]int, len(topics))
	for i := range members {
		for _, topic := range members[i].Topics {
			if topics[topic] > 0 && (len(all[topic]) == 0 || all[topic][len(all[topic])-1] != i) {
				all[topic] = append(all[topic], i)
			}
		}
	}
	return all
}
