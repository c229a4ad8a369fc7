package lag

import (
	"cmp"
	"slices"
)

// Partition identifies a partition.
type Partition struct {
	Topic string
	Index int32
}

// Committed contains the committed offsets of one group in one topic.
type Committed struct {
	Group, Topic string
	Offsets      []Offset
}

// Offset is the committed offset of a partition.
type Offset struct {
	Partition int32
	Offset    int64
}

// Partitions returns the partitions that have committed offsets, sorted and without duplicates.
func Partitions(committed []Committed) (all []Partition) {
	seen := map[Partition]bool{}
	for i := range committed {
		for _, o := range committed[i].Offsets {
			if partition := (Partition{committed[i].Topic, o.Partition}); !seen[partition] {
				seen[partition] = true
				all = append(all, partition)
			}
		}
	}
	slices.SortFunc(all, func(a, b Partition) int {
		return cmp.Or(cmp.Compare(a.Topic, b.Topic), cmp.Compare(a.Index, b.Index))
	})
	return all
}

// Pair is a group's lag in a topic.
type Pair struct {
	Group, Topic string
	Offsets      int64 // sum of the lags of all partitions
}

// Summary describes the lag of several groups.
type Summary struct {
	// Top contains the pairs with the largest lag, the largest first. Pairs with equal lags are
	// ordered by the names of their groups and topics.
	Top []Pair
	// Omitted is the number of pairs that are not in Top because of its limit.
	Omitted int
	// Offsets is the sum of the lags of all pairs, including the omitted ones.
	Offsets int64
	// Unknown is the number of committed offsets in partitions whose end offset is unknown. No sum
	// includes them. A pair without a known end offset is in neither Top nor Omitted.
	Unknown int
}

// Summarize computes the lag of groups from the end offsets of partitions. It returns at most limit
// pairs. committed must contain at most one element for each group and topic. If a committed offset
// is above the end offset, because the log was truncated or the end offset is outdated, the lag is
// 0.
func Summarize(committed []Committed, ends map[Partition]int64, limit int) Summary {
	var s Summary
	for i := range committed {
		pair, known := Pair{Group: committed[i].Group, Topic: committed[i].Topic}, false
		for _, o := range committed[i].Offsets {
			end, ok := ends[Partition{pair.Topic, o.Partition}]
			if !ok {
				s.Unknown++
				continue
			}
			known = true
			pair.Offsets += max(0, end-o.Offset)
		}
		if known {
			s.Offsets += pair.Offsets
			s.Top = append(s.Top, pair)
		}
	}
	slices.SortFunc(s.Top, func(a, b Pair) int {
		return cmp.Or(cmp.Compare(b.Offsets, a.Offsets), cmp.Compare(a.Group, b.Group),
			cmp.Compare(a.Topic, b.Topic))
	})
	if len(s.Top) > limit {
		s.Omitted = len(s.Top) - limit
		s.Top = slices.Clone(s.Top[:limit])
	}
	return s
}
