package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNotEnoughBrokers is wrapped when a partition has more replicas than there are brokers: two
// replicas on one broker would be lost together.
var ErrNotEnoughBrokers = errors.New("not enough brokers")

// Broker is a broker that may hold replicas.
type Broker struct {
	ID   int32  // unique among the brokers of a call
	Rack string // "" for all brokers without a rack, which form one rack
}

// Assign assigns partitions existing..existing+count-1 of a topic to brokers, each to a number of
// replicas, the preferred leader first. load is the number of replicas that each broker already
// holds, by id. Replicas are spread across racks.
//
// It returns count lists of distinct ids. existing and count are 0 or more; load may be nil. Assign
// does not modify load: a caller that calls Assign again adds the result to load. Assign fails if
// replicas < 1, and with ErrNotEnoughBrokers if replicas > len(brokers).
//
// The algorithm is greedy: it assigns a partition without regard to the following ones. It costs
// count * replicas * brokers * replicas comparisons.
func Assign(brokers []Broker, load map[int32]int, existing, count, replicas int) ([][]int32,
	error) {
	if replicas < 1 {
		return nil, fmt.Errorf("assign partitions: %d replicas requested, at least 1 is required",
			replicas)
	}
	if replicas > len(brokers) {
		return nil, fmt.Errorf("%w: %d replicas requested, %d brokers exist", ErrNotEnoughBrokers,
			replicas, len(brokers))
	}
	a := newAssigner(brokers, load, existing)
	assigned := make([][]int32, 0, count)
	for range count {
		assigned = append(assigned, a.assign(replicas))
	}
	return assigned, nil
}

// candidate is a broker during one call of Assign.
type candidate struct {
	Broker
	load  int // replicas before this call
	held  int // replicas assigned by this call
	leads int // preferred leaderships assigned by this call
	order int // breaks ties; a permutation of 0..n-1 over the brokers
}

// assigner is the state of one call of Assign.
type assigner struct {
	brokers []*candidate // sorted by id, so that the caller's order does not matter
}

// newAssigner sorts the brokers and sets the order of each. The first broker depends on all earlier
// assignments. If the first broker were always the same, it would lead every partition of a cluster
// with one-partition topics, because the loads are equal whenever a topic spans all brokers. The
// first broker is chosen by scatter and not by rotation, because a rotation synchronizes with the
// loads: with 2 replicas on 4 brokers, a rotation would always choose the same two brokers as
// leaders.
func newAssigner(brokers []Broker, load map[int32]int, existing int) *assigner {
	a := &assigner{}
	total := 0
	for _, b := range brokers {
		a.brokers = append(a.brokers, &candidate{Broker: b, load: load[b.ID]})
		total += load[b.ID]
	}
	slices.SortFunc(a.brokers, func(x, y *candidate) int { return cmp.Compare(x.ID, y.ID) })
	n := len(a.brokers)
	first := (existing + int(scatter(uint64(total))%uint64(n))) % n
	for i, b := range a.brokers {
		b.order = (i - first + n) % n
	}
	return a
}

// scatter mixes the bits of a number (the finalizer of splitmix64). 0 stays 0, so an empty cluster
// starts with its first broker.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// assign chooses the brokers of one partition, one after the other, from the rack that the
// partition uses least. The order is the last criterion and differs for each broker, so the result
// never depends on the order of a slice.
func (a *assigner) assign(replicas int) []int32 {
	var chosen []*candidate
	racks := map[string]int{}
	for range replicas {
		best := slices.MinFunc(without(a.brokers, chosen), func(x, y *candidate) int {
			return cmp.Or(
				cmp.Compare(racks[x.Rack], racks[y.Rack]),
				// The replicas of this call are compared first, and the existing load only if they
				// are equal. Otherwise a new, empty broker would get every partition of the next
				// topic, and all of its traffic.
				cmp.Compare(x.held, y.held),
				cmp.Compare(x.load, y.load),
				cmp.Compare(x.order, y.order),
			)
		})
		racks[best.Rack]++
		best.held++
		chosen = append(chosen, best)
	}
	return leaderFirst(chosen)
}

// leaderFirst moves the broker with the fewest preferred leaderships of this call to the front of a
// partition's brokers. Leaderships of earlier calls are unknown, because load holds replicas only.
func leaderFirst(chosen []*candidate) []int32 {
	slices.SortStableFunc(chosen, func(x, y *candidate) int {
		return cmp.Or(cmp.Compare(x.leads, y.leads), cmp.Compare(x.order, y.order))
	})
	chosen[0].leads++
	ids := make([]int32, len(chosen))
	for i, b := range chosen {
		ids[i] = b.ID
	}
	return ids
}

// without returns the elements of all that are not in some, in the same order. It does not modify
// all.
func without(all, some []*candidate) []*candidate {
	return slices.DeleteFunc(slices.Clone(all),
		func(b *candidate) bool { return slices.Contains(some, b) })
}
