package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Fit returns where partitions should be so that each has that many replicas, all on brokers: after
// a topic's number of replicas has changed, or when brokers are to go and are left out of brokers.
// Load is how many replicas each broker holds, those of placed among them; it is not changed.
//
// As few replicas move as can: a replica on a broker that stays, stays, unless there are too many;
// then those go that are on a rack with others of the partition, and of these those on the fullest
// broker. New ones go to the racks that the partition uses least, and there to the broker that
// holds least. The first replica stays first if it stays.
//
// Brokers that are new get nothing here: what is placed stays, and new partitions even it out (see
// Assign). It fails, with ErrNotEnoughBrokers, if replicas > len(brokers).
func Fit(brokers []Broker, load map[int32]int, placed [][]int32, replicas int) ([][]int32, error) {
	if replicas < 1 || replicas > len(brokers) {
		return nil, fmt.Errorf("%w: %d replicas asked for, %d brokers there", ErrNotEnoughBrokers,
			replicas, len(brokers))
	}
	f := fit{brokers: map[int32]Broker{}, load: maps.Clone(load), leads: map[int32]int{}}
	if f.load == nil {
		f.load = map[int32]int{}
	}
	for _, b := range brokers {
		f.brokers[b.ID] = b
	}
	for _, partition := range placed {
		if _, stays := f.brokers[partition[0]]; stays {
			f.leads[partition[0]]++
		}
	}
	fitted := make([][]int32, len(placed))
	for i, partition := range placed {
		fitted[i] = f.partition(partition, replicas)
	}
	return fitted, nil
}

// fit is one call of Fit under way.
type fit struct {
	brokers map[int32]Broker
	load    map[int32]int // replicas by broker, as they will be
	leads   map[int32]int // first replicas by broker, as they will be
}

func (f *fit) partition(placed []int32, replicas int) []int32 {
	var kept []int32
	for _, id := range placed {
		if _, stays := f.brokers[id]; stays {
			kept = append(kept, id)
		} else {
			f.load[id]--
		}
	}
	for len(kept) > replicas {
		id := f.superfluous(kept)
		kept = slices.DeleteFunc(kept, func(k int32) bool { return k == id })
		f.load[id]--
	}
	for len(kept) < replicas {
		id := f.best(kept)
		kept = append(kept, id)
		f.load[id]++
	}
	if kept[0] != placed[0] { // who led goes: the one that leads least follows
		first := slices.MinFunc(kept,
			func(a, b int32) int {
				return cmp.Or(cmp.Compare(f.leads[a], f.leads[b]),
					cmp.Compare(a, b))
			})
		f.leads[first]++
		kept = append([]int32{first},
			slices.DeleteFunc(kept, func(k int32) bool { return k == first })...)
	}
	return kept
}

// superfluous is who goes of too many; never the first.
func (f *fit) superfluous(kept []int32) int32 {
	racks := f.racks(kept)
	return slices.MaxFunc(kept[1:], func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(racks[f.brokers[a].Rack], racks[f.brokers[b].Rack]),
			cmp.Compare(f.load[a], f.load[b]),
			cmp.Compare(a, b),
		)
	})
}

// best is who comes of those that hold none of the partition. The id decides last, so the order of
// a map does not.
func (f *fit) best(kept []int32) int32 {
	racks := f.racks(kept)
	free := slices.DeleteFunc(slices.Collect(maps.Keys(f.brokers)),
		func(id int32) bool { return slices.Contains(kept, id) })
	return slices.MinFunc(free, func(a, b int32) int {
		return cmp.Or(
			cmp.Compare(racks[f.brokers[a].Rack], racks[f.brokers[b].Rack]),
			cmp.Compare(f.load[a], f.load[b]),
			cmp.Compare(f.leads[a], f.leads[b]),
			cmp.Compare(a, b),
		)
	})
}

// racks counts the replicas of one partition by rack.
func (f *fit) racks(ids []int32) map[string]int {
	counts := map[string]int{}
	for _, id := range ids {
		counts[f.brokers[id].Rack]++
	}
	return counts
}
