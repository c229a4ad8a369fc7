package assignor

import (
	"cmp"
	"maps"
	"slices"
)

// TopicID is a topic's id, as Kafka has it.
type TopicID = [16]byte

// Assignment is partitions by topic, each list sorted and without doubles; a topic without
// partitions is not in it.
type Assignment map[TopicID][]int32

// Equal tells whether two assignments have the same partitions.
func (a Assignment) Equal(b Assignment) bool {
	return maps.EqualFunc(a, b, slices.Equal[[]int32])
}

// Has tells whether a partition is in it.
func (a Assignment) Has(topic TopicID, partition int32) bool {
	_, found := slices.BinarySearch(a[topic], partition)
	return found
}

// Len is how many partitions it has.
func (a Assignment) Len() (n int) {
	for _, partitions := range a {
		n += len(partitions)
	}
	return n
}

// Topics are those of an assignment, sorted by their ids.
func (a Assignment) Topics() []TopicID {
	return slices.SortedFunc(maps.Keys(a), compareTopics)
}

func compareTopics(a, b TopicID) int { return slices.Compare(a[:], b[:]) }

// Member is one who wants partitions.
type Member struct {
	ID       string
	Instance string     // group.instance.id, "" if it has none
	Topics   []TopicID  // that it subscribes to and that there are
	Current  Assignment // what it was assigned last
}

// Func assigns the partitions of topics, how many each has, to members.
type Func func(members []Member, topics map[TopicID]int) map[string]Assignment

// What clients call the assignors.
const (
	UniformName = "uniform"
	RangeName   = "range"
)

// Names are of all assignors there are; the first is what a group gets whose members do not choose.
func Names() []string { return []string{UniformName, RangeName} }

// ByName finds an assignor; nil if there is none.
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

// ordered returns members in an order that outlives restarts: those with an instance first, by
// that, then the others by id.
func ordered(members []Member) []Member {
	return slices.SortedFunc(slices.Values(members), func(a, b Member) int {
		if (a.Instance == "") != (b.Instance == "") {
			return cmp.Compare(b.Instance, a.Instance)
		}
		return cmp.Or(cmp.Compare(a.Instance, b.Instance), cmp.Compare(a.ID, b.ID))
	})
}

// subscribers are the members of each topic, as indexes, in the order of members.
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
