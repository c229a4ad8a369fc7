package placement

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
)

// ErrNotEnoughBrokers is wrapped when a partition wants more replicas than there are brokers: two
// replicas on one broker would be lost together.
var ErrNotEnoughBrokers = errors.New("not enough brokers")

// Broker is a broker that may hold replicas.
type Broker struct {
	ID   int32  // node id, unique among the brokers of a call
	Rack string // empty: a rack of its own kind, shared by all brokers that have none
}

// Assign places partitions existing..existing+count-1 of a topic, each on replicas brokers, the
// preferred leader first. Load (replicas a broker holds already, by id) evens out the choice; racks
// are spread over. The result is a function of its arguments alone.
//
// It returns count lists of replicas distinct ids each. existing and count are 0 or more; load may
// be nil, and is not changed: who calls again adds what was placed. It fails if replicas < 1, and
// with ErrNotEnoughBrokers if replicas > len(brokers).
//
// It is greedy: a partition is placed without regard to those that follow. Its cost is count *
// replicas * brokers * replicas comparisons.
func Assign(brokers []Broker, load map[int32]int, existing, count, replicas int) ([][]int32,
	error) {
	if replicas < 1 {
		return nil, fmt.Errorf("place partitions: %d replicas asked for, at least 1 is needed",
			replicas)
	}
	if replicas > len(brokers) {
		return nil, fmt.Errorf("%w: %d replicas asked for, %d brokers there", ErrNotEnoughBrokers,
			replicas, len(brokers))
	}
	state := newState(brokers, load, existing)
	assigned := make([][]int32, 0, count)
	for range count {
		assigned = append(assigned, state.place(replicas))
	}
	return assigned, nil
}

// broker is what one call knows of a broker while it places partitions.
type broker struct {
	Broker
	load  int // replicas from before this call
	held  int // replicas placed by this call
	leads int // partitions whose preferred leader this call made it
	turn  int // breaks ties; a permutation of 0..n-1 over the brokers
}

// state is one call of Assign under way.
type state struct {
	brokers []*broker // by id, so that the caller's order does not matter
}

// newState sorts the brokers and gives each its turn. Where the turns begin changes with everything
// placed before: if they always began at the first broker, a cluster full of one-partition topics
// would have all its leaders there, since the loads are equal whenever a topic spans all brokers.
// It is scattered, not rotated, because a rotation falls into step with the loads: with 2 replicas
// on 4 brokers it makes the same two brokers lead for ever.
func newState(brokers []Broker, load map[int32]int, existing int) *state {
	s := &state{}
	total := 0
	for _, b := range brokers {
		s.brokers = append(s.brokers, &broker{Broker: b, load: load[b.ID]})
		total += load[b.ID]
	}
	slices.SortFunc(s.brokers, func(a, b *broker) int { return cmp.Compare(a.ID, b.ID) })
	n := len(s.brokers)
	first := (existing + int(scatter(uint64(total))%uint64(n))) % n
	for i, b := range s.brokers {
		b.turn = (i - first + n) % n
	}
	return s
}

// scatter mixes the bits of a number (the finalizer of splitmix64); 0 stays 0, so a cluster begins
// with its first broker.
func scatter(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// place chooses the brokers of one partition: one after the other, from the rack used least by this
// partition. The turn decides last and is different for each broker, so the choice is never left to
// the order of a slice.
func (s *state) place(replicas int) []int32 {
	var chosen []*broker
	racks := map[string]int{}
	for range replicas {
		best := slices.MinFunc(without(s.brokers, chosen), func(a, b *broker) int {
			return cmp.Or(
				cmp.Compare(racks[a.Rack], racks[b.Rack]),
				// What this call gave comes before what was there: else a broker that is new and
				// empty would get every partition of the next topic, and all of that topic's
				// traffic.
				cmp.Compare(a.held, b.held),
				cmp.Compare(a.load, b.load),
				cmp.Compare(a.turn, b.turn),
			)
		})
		racks[best.Rack]++
		best.held++
		chosen = append(chosen, best)
	}
	return leaderFirst(chosen)
}

// leaderFirst orders a partition's brokers: first the one that leads least. It counts leads of this
// call only: load does not say who leads.
func leaderFirst(chosen []*broker) []int32 {
	slices.SortStableFunc(chosen, func(a, b *broker) int {
		return cmp.Or(cmp.Compare(a.leads, b.leads), cmp.Compare(a.turn, b.turn))
	})
	chosen[0].leads++
	ids := make([]int32, len(chosen))
	for i, b := range chosen {
		ids[i] = b.ID
	}
	return ids
}

// without returns all but some, in their order; all stays as it is.
func without(all, some []*broker) []*broker {
	return slices.DeleteFunc(slices.Clone(all),
		func(b *broker) bool { return slices.Contains(some, b) })
}
