package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNotEnoughBrokers is returned if a partition has more replicas than there are brokers. Two
// replicas on one broker would be useless, because they would be lost together.
var ErrNotEnoughBrokers = errors.New("not enough brokers")

// Broker is a broker that can hold replicas.
type Broker struct {
	ID   int32  // unique within a call of Assign or Fit
	Rack string // "" if unknown; all brokers without a rack form one rack
	// Cordoned is set if the broker gets new replicas only when there are too few other brokers
	// (KIP-1066). The broker keeps its replicas.
	Cordoned bool
	// Full is set if the broker's volume is almost full. The broker keeps its replicas and gets no new
	// ones.
	Full bool
}

// open returns the brokers that are not cordoned. If there are fewer of them than replicas, it
// returns all brokers; assign then prefers those that are not cordoned.
func open(brokers []Broker, replicas int) []Broker {
	others := slices.DeleteFunc(slices.Clone(brokers), func(b Broker) bool { return b.Cordoned })
	if len(others) < replicas {
		return brokers
	}
	return others
}

// withSpace returns the brokers that can get new replicas. If there are fewer of them than
// replicas, it returns an error that wraps ErrNotEnoughBrokers.
func withSpace(brokers []Broker, replicas int) ([]Broker, error) {
	free := slices.DeleteFunc(slices.Clone(brokers), func(b Broker) bool { return b.Full })
	switch {
	case replicas > len(brokers):
		return nil, fmt.Errorf("%w: %d replicas requested, %d brokers exist", ErrNotEnoughBrokers,
			replicas, len(brokers))
	case replicas > len(free):
		return nil, fmt.Errorf("%w: %d replicas requested, and the volumes of all but %d brokers "+
			"are almost full", ErrNotEnoughBrokers, replicas, len(free))
	}
	return free, nil
}

// Assign assigns the replicas of new partitions to brokers. existing is the number of partitions
// that the topic already has, and count is the number of new partitions. Each partition has the
// given number of replicas, the preferred leader first. load maps broker ids to the number of
// replicas that the brokers already have. Assign spreads a partition's replicas across racks.
//
// The result contains a list of distinct broker ids for each new partition. existing and count must
// not be negative; load may be nil. Assign does not modify load: before another call, the caller
// must add the result to load. Assign returns an error if replicas < 1, and ErrNotEnoughBrokers if
// replicas exceeds the number of brokers that are not Full.
//
// The algorithm is greedy: it assigns each partition without regard to the following partitions. It
// needs about count * replicas * brokers * replicas comparisons.
func Assign(brokers []Broker, load map[int32]int, existing, count, replicas int) ([][]int32,
	error) {
	if replicas < 1 {
		return nil, fmt.Errorf("assign partitions: %d replicas requested, at least 1 is required",
			replicas)
	}
	free, err := withSpace(brokers, replicas)
	if err != nil {
		return nil, err
	}
	a := newAssigner(open(free, replicas), load, existing)
	assigned := make([][]int32, 0, count)
	for range count {
		assigned = append(assigned, a.assign(replicas))
	}
	return assigned, nil
}

// candidate is a broker and its state during one call of Assign.
type candidate struct {
	Broker
	load  int // number of replicas before this call
	held  int // number of replicas assigned by this call
	leads int // number of partitions in this call whose preferred leader is this broker
	order int // position of the broker in the order that breaks ties, 0 to n-1; see newAssigner
}

// cordoned returns 1 if the broker is cordoned, and 0 otherwise.
func (c *candidate) cordoned() int {
	if c.Cordoned {
		return 1
	}
	return 0
}

// assigner is the state of one call of Assign.
type assigner struct {
	// brokers is sorted by id, so that the result does not depend on the order of the caller's list.
	brokers []*candidate
}

// newAssigner sorts the brokers by id and sets each broker's order. The broker at which the order
// starts depends on the total load and on the number of existing partitions. With a fixed start,
// one broker would lead all topics with one partition and a replica on every broker, because the
// loads would always be equal. scatter computes the start from the total load. With a simple
// rotation (total modulo n) and 2 replicas on 4 brokers, the leaders would always be the same two
// brokers.
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

// scatter mixes the bits of a number (the finalizer of splitmix64). It maps 0 to 0, so in an empty
// cluster the order starts at the first broker.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// assign chooses the brokers of one partition, one after the other. It chooses each broker from a
// rack with the fewest replicas of this partition, and within that rack prefers brokers that are
// not cordoned. The last criterion, order, is different for each broker, so the choice is always
// unique.
func (a *assigner) assign(replicas int) []int32 {
	var chosen []*candidate
	racks := map[string]int{}
	for range replicas {
		best := slices.MinFunc(without(a.brokers, chosen), func(x, y *candidate) int {
			return cmp.Or(
				cmp.Compare(racks[x.Rack], racks[y.Rack]),
				cmp.Compare(x.cordoned(), y.cordoned()),
				// Compare the replicas assigned by this call before the earlier loads. Otherwise a new, empty
				// broker would receive all partitions of the next topic, and all of the topic's traffic.
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

// leaderFirst returns the ids of a partition's brokers. The first is the broker that is the
// preferred leader of the fewest partitions in this call. The leaders assigned by earlier calls are
// unknown, because load contains only numbers of replicas.
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
// the lists.
func without(all, some []*candidate) []*candidate {
	return slices.DeleteFunc(slices.Clone(all),
		func(b *candidate) bool { return slices.Contains(some, b) })
}
