package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Fit changes existing assignments so that each partition has the given number of replicas, all of
// them on the given brokers. It is used when a topic's number of replicas has changed, or when
// brokers will be removed: the caller then passes only the remaining brokers. current contains the
// current assignments. load contains the number of replicas on each broker, including the replicas
// in current; Fit does not modify load.
//
// Fit moves as few replicas as possible. It keeps a replica on a remaining broker unless the
// partition has too many replicas. In that case it first removes replicas that share a rack with
// other replicas of the partition and, among those, the replica on the broker with the most
// replicas. A new replica goes to a rack with the fewest replicas of the partition and, in that
// rack, to the broker with the fewest replicas. A cordoned broker gets a replica only if there is
// no other broker. If Fit keeps the first replica, it remains the first.
//
// Fit does not move a replica only because a new broker has few replicas: only the assignment of
// new partitions balances the cluster (see Assign). Fit returns ErrNotEnoughBrokers if replicas >
// len(brokers), or if too few brokers that are not Full can get a partition's new replicas.
func Fit(brokers []Broker, load map[int32]int, current [][]int32, replicas int) ([][]int32,
	error) {
	return FitDisks(brokers, load, current, replicas, Disks{})
}

// Disks contains additional inputs of FitDisks. The zero value has no effect.
type Disks struct {
	Bytes []int64 // size of each partition in bytes; nil if unknown
	// Free contains the number of bytes that new replicas may occupy on each broker. FitDisks
	// subtracts the bytes of the replicas that it assigns. A broker without an entry has no limit.
	Free map[int32]int64
}

// FitDisks is like Fit, but among the brokers of a rack it prefers those whose disks have space for
// the new replica. If no broker has space, it assigns the replica nevertheless, and an entry of
// disks.Free becomes negative.
func FitDisks(brokers []Broker, load map[int32]int, current [][]int32, replicas int,
	disks Disks) ([][]int32, error) {
	if replicas < 1 || replicas > len(brokers) {
		return nil, fmt.Errorf("%w: %d replicas requested, %d brokers exist", ErrNotEnoughBrokers,
			replicas, len(brokers))
	}
	f := fitter{brokers: map[int32]Broker{}, load: maps.Clone(load), leads: map[int32]int{},
		free: disks.Free}
	if f.load == nil {
		f.load = map[int32]int{}
	}
	for _, b := range brokers {
		f.brokers[b.ID] = b
	}
	for _, partition := range current {
		if _, remains := f.brokers[partition[0]]; remains {
			f.leads[partition[0]]++
		}
	}
	targets := make([][]int32, len(current))
	for i, partition := range current {
		if f.lacksSpace(partition, replicas) {
			return nil, fmt.Errorf("%w: the volumes of too many brokers are almost full",
				ErrNotEnoughBrokers)
		}
		if f.bytes = 0; disks.Bytes != nil {
			f.bytes = disks.Bytes[i]
		}
		targets[i] = f.fit(partition, replicas)
	}
	return targets, nil
}

// fitter is the state of one call of Fit.
type fitter struct {
	brokers map[int32]Broker
	load    map[int32]int // number of replicas on each broker, after the changes so far
	// leads contains, for each broker, the number of partitions of which it has the first replica,
	// after the changes so far.
	leads map[int32]int
	free  map[int32]int64 // see Disks
	bytes int64           // size of the current partition
}

// lacksSpace reports whether too few brokers can get a partition's new replicas.
func (f *fitter) lacksSpace(current []int32, replicas int) bool {
	usable := 0
	for id, b := range f.brokers {
		if !b.Full || slices.Contains(current, id) {
			usable++
		}
	}
	return usable < replicas
}

// fit returns the target replicas of one partition.
func (f *fitter) fit(current []int32, replicas int) []int32 {
	var kept []int32
	for _, id := range current {
		if _, remains := f.brokers[id]; remains {
			kept = append(kept, id)
		} else {
			f.load[id]--
		}
	}
	for len(kept) > replicas {
		id := f.removable(kept)
		kept = slices.DeleteFunc(kept, func(k int32) bool { return k == id })
		f.load[id]--
	}
	for len(kept) < replicas {
		id := f.best(kept)
		kept = append(kept, id)
		f.load[id]++
		if _, limited := f.free[id]; limited {
			f.free[id] -= f.bytes
		}
	}
	// The preferred leader was removed. The broker that is first in the fewest partitions replaces it.
	if kept[0] != current[0] {
		first := slices.MinFunc(kept, func(a, b int32) int {
			return cmp.Or(cmp.Compare(f.leads[a], f.leads[b]), cmp.Compare(a, b))
		})
		f.leads[first]++
		kept = append([]int32{first},
			slices.DeleteFunc(kept, func(k int32) bool { return k == first })...)
	}
	return kept
}

// removable returns the replica to remove from a partition with too many replicas. It never returns
// the first replica.
func (f *fitter) removable(kept []int32) int32 {
	racks := f.racks(kept)
	return slices.MaxFunc(kept[1:], func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(racks[f.brokers[a].Rack], racks[f.brokers[b].Rack]),
			cmp.Compare(f.load[a], f.load[b]),
			cmp.Compare(a, b),
		)
	})
}

// best returns the broker for a new replica. The broker must not have another replica of the
// partition. The last criterion is the broker id, so that the result does not depend on the order
// of the map.
func (f *fitter) best(kept []int32) int32 {
	racks := f.racks(kept)
	free := slices.DeleteFunc(slices.Collect(maps.Keys(f.brokers)),
		func(id int32) bool { return slices.Contains(kept, id) || f.brokers[id].Full })
	if others := slices.DeleteFunc(slices.Clone(free),
		func(id int32) bool { return f.brokers[id].Cordoned }); len(others) > 0 {
		free = others
	}
	return slices.MinFunc(free, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(racks[f.brokers[a].Rack], racks[f.brokers[b].Rack]),
			cmp.Compare(f.overfull(a), f.overfull(b)),
			cmp.Compare(f.load[a], f.load[b]),
			cmp.Compare(f.leads[a], f.leads[b]),
			cmp.Compare(a, b),
		)
	})
}

// overfull returns 1 if a broker's disk lacks space for the current partition, and 0 otherwise.
func (f *fitter) overfull(id int32) int {
	if free, limited := f.free[id]; limited && free < f.bytes {
		return 1
	}
	return 0
}

// racks returns, for each rack, the number of replicas of one partition.
func (f *fitter) racks(ids []int32) map[string]int {
	counts := map[string]int{}
	for _, id := range ids {
		counts[f.brokers[id].Rack]++
	}
	return counts
}
