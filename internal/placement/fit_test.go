package placement

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"heartwood.dev/heartwood/test/kit/seed"
)

func TestFit(t *testing.T) {
	four := []Broker{{ID: 0, Rack: "a"}, {ID: 1, Rack: "b"}, {ID: 2, Rack: "a"}, {ID: 3, Rack: "b"}}
	for _, test := range []struct {
		name     string
		brokers  []Broker
		current  [][]int32
		replicas int
		want     [][]int32
	}{
		{"unchanged, although the load is uneven", four, [][]int32{{0, 1}, {0, 1}, {0, 1}}, 2,
			[][]int32{{0, 1}, {0, 1}, {0, 1}}},
		{"more replicas: unused racks first", four, [][]int32{{0}, {1}}, 2,
			[][]int32{{0, 3}, {1, 2}}},
		{"fewer replicas: the first is kept, a replica in a shared rack is removed", four,
			[][]int32{{0, 1, 2}}, 2,
			[][]int32{{0, 1}}},
		{"removed broker: only its replicas move", four[:3],
			[][]int32{{0, 3}, {3, 2}, {1, 0}}, 2, [][]int32{{0, 1}, {2, 1}, {1, 0}}},
		{"removed broker: its leaders are balanced", four[:2], [][]int32{{3, 0, 1}, {3, 0, 1}}, 2,
			[][]int32{{0, 1}, {1, 0}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			load := map[int32]int{}
			count(load, test.current)
			got, err := Fit(test.brokers, load, test.current, test.replicas)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("assignment (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Fit(four[:1], nil, [][]int32{{0, 1}}, 2); !errors.Is(err, ErrNotEnoughBrokers) {
		t.Errorf("two replicas on one broker: got error %v, want ErrNotEnoughBrokers", err)
	}
}

func count(load map[int32]int, assigned [][]int32) {
	for _, ids := range assigned {
		for _, id := range ids {
			load[id]++
		}
	}
}

// TestFitMovesAsFewReplicasAsPossible checks that, after random brokers have been removed or the
// number of replicas has changed, Fit keeps as many replicas as possible, and its result does not
// depend on the order of the brokers.
func TestFitMovesAsFewReplicasAsPossible(t *testing.T) {
	for seed := range seed.Sequence(t, 2000) {
		random := rand.New(rand.NewPCG(seed, 3))
		c := randomCluster(random)
		current, err := Assign(c.brokers, nil, 0, c.count, c.replicas)
		if err != nil {
			t.Fatal(err)
		}
		load := map[int32]int{}
		count(load, current)
		remaining := c.brokers[:1+random.IntN(len(c.brokers))]
		replicas := c.replicas
		if random.IntN(2) == 0 {
			replicas = 1 + random.IntN(5)
		}
		before := maps.Clone(load)
		got, err := Fit(remaining, load, current, replicas)
		if replicas > len(remaining) {
			if !errors.Is(err, ErrNotEnoughBrokers) {
				t.Fatalf("seed %d: got error %v, want ErrNotEnoughBrokers", seed, err)
			}
			continue
		}
		if err != nil || !maps.Equal(load, before) {
			t.Fatalf("seed %d: got error %v or a changed load", seed, err)
		}
		for i := range got {
			if fault := checkFit(remaining, current[i], got[i], replicas); fault != "" {
				t.Fatalf("seed %d, partition %d: %s\nfrom %v to %v on %v", seed, i, fault,
					current[i], got[i], remaining)
			}
		}
		reversed := slices.Clone(remaining)
		slices.Reverse(reversed)
		again, _ := Fit(reversed, load, current, replicas)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("seed %d: different results for two orders of the brokers (-first +second):\n%s", seed, diff)
		}
	}
}

// checkFit checks the new assignment of one partition. It returns a description of what is wrong
// with it, or "".
func checkFit(remaining []Broker, before, after []int32, replicas int) string {
	rack, racks, used := map[int32]string{}, map[string]bool{}, map[string]bool{}
	for _, b := range remaining {
		rack[b.ID], racks[b.Rack] = b.Rack, true
	}
	kept, possible := 0, 0
	keptRacks := map[string]bool{}
	for _, id := range before {
		if _, ok := rack[id]; ok {
			possible++
			keptRacks[rack[id]] = true
		}
	}
	for i, id := range after {
		if _, ok := rack[id]; !ok || slices.Contains(after[:i], id) {
			return fmt.Sprintf("broker %d is removed or named twice", id)
		}
		used[rack[id]] = true
		if slices.Contains(before, id) {
			kept++
		}
	}
	// New replicas must use racks that the kept replicas do not use. Kept replicas may share a rack,
	// as before the call.
	least := min(len(racks), len(keptRacks)+max(replicas-possible, 0), replicas)
	switch {
	case len(after) != replicas:
		return fmt.Sprintf("got %d replicas, want %d", len(after), replicas)
	case kept != min(possible, replicas):
		return fmt.Sprintf("got %d kept replicas, want %d", kept, min(possible, replicas))
	case len(used) < least:
		return fmt.Sprintf("got %d racks, want at least %d", len(used), least)
	}
	if _, ok := rack[before[0]]; ok && after[0] != before[0] {
		return "the first replica remains, but is no longer the first"
	}
	return ""
}

// TestDrainedReplicasAreBalanced checks that Fit distributes the replicas of a removed broker
// evenly over the other three.
func TestDrainedReplicasAreBalanced(t *testing.T) {
	brokers := []Broker{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}}
	current, err := Assign(brokers, nil, 0, 120, 1)
	if err != nil {
		t.Fatal(err)
	}
	load, leads := map[int32]int{}, map[int32]int{}
	count(load, current)
	got, err := Fit(brokers[:3], load, current, 1)
	if err != nil {
		t.Fatal(err)
	}
	clear(load)
	count(load, got)
	for _, ids := range got {
		leads[ids[0]]++
	}
	if spread(load) > 1 || spread(leads) > 1 {
		t.Errorf("got replicas %v and leaders %v by broker, want differences of at most 1", load, leads)
	}
}
