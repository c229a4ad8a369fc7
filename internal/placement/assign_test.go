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

func TestAssignKnownPlacements(t *testing.T) {
	three := []Broker{{ID: 0}, {ID: 1}, {ID: 2}}
	for _, test := range []struct {
		name                      string
		brokers                   []Broker
		load                      map[int32]int
		existing, count, replicas int
		want                      [][]int32
	}{
		{"one broker", three[:1], nil, 0, 2, 1, [][]int32{{0}, {0}}},
		{"round-robin", three, nil, 0, 4, 1, [][]int32{{0}, {1}, {2}, {0}}},
		{"new partitions continue after the existing ones", three, map[int32]int{0: 1, 1: 1}, 2, 2,
			1,
			[][]int32{{2}, {0}}},
		{"one partition is assigned to the least loaded broker", three, map[int32]int{0: 4, 1: 2, 2: 3}, 0,
			1,
			1, [][]int32{{1}}},
		{"an empty broker gets its share of a topic only", three, map[int32]int{0: 9, 1: 9}, 0,
			3, 1,
			[][]int32{{2}, {0}, {1}}},
		{"every broker leads one partition", three, nil, 0, 3, 2,
			[][]int32{{0, 1}, {2, 0}, {1, 2}}},
		{"the first leader differs between topics", three, map[int32]int{0: 1, 1: 1, 2: 1}, 0, 1, 3,
			[][]int32{{2, 0, 1}}},
		{"replicas on different racks", []Broker{
			{ID: 0, Rack: "a"}, {ID: 1, Rack: "a"}, {ID: 2, Rack: "b"}}, nil, 0, 2, 2,
			[][]int32{{0, 2}, {1, 2}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := Assign(test.brokers, test.load, test.existing, test.count, test.replicas)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("assignment (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAssignRejectsMoreReplicasThanBrokers(t *testing.T) {
	_, err := Assign([]Broker{{ID: 0}, {ID: 1}}, nil, 0, 1, 3)
	if !errors.Is(err, ErrNotEnoughBrokers) {
		t.Errorf("got error %v, want ErrNotEnoughBrokers", err)
	}
	if _, err = Assign(nil, nil, 0, 1, 1); !errors.Is(err, ErrNotEnoughBrokers) {
		t.Errorf("without brokers: got error %v, want ErrNotEnoughBrokers", err)
	}
	if _, err = Assign([]Broker{{ID: 0}}, nil, 0, 1, 0); err == nil {
		t.Error("0 replicas: got no error, want one")
	}
}

// cluster is a random input for Assign.
type cluster struct {
	brokers                   []Broker
	load                      map[int32]int
	existing, count, replicas int
}

func randomCluster(random *rand.Rand) cluster {
	c := cluster{load: map[int32]int{}, existing: random.IntN(5), count: random.IntN(40)}
	racks := random.IntN(4)
	for range 1 + random.IntN(9) {
		id := random.Int32N(1000)
		rack := ""
		if racks > 0 {
			rack = fmt.Sprintf("rack-%d", random.IntN(racks))
		}
		if _, taken := c.load[id]; !taken {
			c.brokers = append(c.brokers, Broker{ID: id, Rack: rack})
			c.load[id] = random.IntN(20)
		}
	}
	c.replicas = 1 + random.IntN(min(len(c.brokers), 5))
	return c
}

// TestAssignGuarantees checks with random clusters that Assign satisfies the guarantees in doc.go,
// and that its result does not depend on the order of the brokers.
func TestAssignGuarantees(t *testing.T) {
	for seed := range seed.Sequence(t, 2000) {
		random := rand.New(rand.NewPCG(seed, 1))
		c := randomCluster(random)
		got, err := Assign(c.brokers, c.load, c.existing, c.count, c.replicas)
		if err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		if fault := c.check(got); fault != "" {
			t.Fatalf("seed %d: %s\nbrokers %v load %v\nassignment %v", seed, fault, c.brokers,
				c.load, got)
		}
		random.Shuffle(len(c.brokers),
			func(i, j int) { c.brokers[i], c.brokers[j] = c.brokers[j], c.brokers[i] })
		again, _ := Assign(c.brokers, c.load, c.existing, c.count, c.replicas)
		if diff := cmp.Diff(got, again); diff != "" {
			t.Fatalf("seed %d: different results for two orders of the same brokers (-first +second):\n%s", seed,
				diff)
		}
	}
}

func (c cluster) check(assigned [][]int32) string {
	rack := map[int32]string{}
	racks := map[string]bool{}
	held, leads := map[int32]int{}, map[int32]int{}
	for _, b := range c.brokers {
		rack[b.ID], racks[b.Rack] = b.Rack, true
		held[b.ID], leads[b.ID] = 0, 0
	}
	if len(assigned) != c.count {
		return fmt.Sprintf("got %d assigned partitions, want %d", len(assigned), c.count)
	}
	for i, replicas := range assigned {
		brokersUsed, racksUsed := map[int32]bool{}, map[string]bool{}
		for _, id := range replicas {
			if _, known := rack[id]; !known {
				return fmt.Sprintf("partition %d is on broker %d, which does not exist", i, id)
			}
			brokersUsed[id], racksUsed[rack[id]] = true, true
			held[id]++
		}
		if len(brokersUsed) != c.replicas {
			return fmt.Sprintf("partition %d is on %d brokers, want %d", i, len(brokersUsed),
				c.replicas)
		}
		if want := min(c.replicas, len(racks)); len(racksUsed) != want {
			return fmt.Sprintf("partition %d is on %d racks, want %d", i, len(racksUsed), want)
		}
		leads[replicas[0]]++
	}
	if len(racks) > 1 {
		return "" // with racks of different sizes, equal numbers of replicas per broker are impossible
	}
	if spread(held) > 1 {
		return fmt.Sprintf("replicas are uneven: %v", held)
	}
	if spread(leads) > 3 {
		return fmt.Sprintf("leaders are uneven: %v", leads)
	}
	return c.checkRemainder(held)
}

// checkRemainder checks that only the brokers with the smallest load have one more replica than
// others.
func (c cluster) checkRemainder(held map[int32]int) string {
	for a := range held {
		for b := range held {
			if held[a] > held[b] && c.load[a] > c.load[b] {
				return fmt.Sprintf("broker %d with load %d was assigned more replicas than broker %d with load %d", a,
					c.load[a], b, c.load[b])
			}
		}
	}
	return ""
}

func spread(counts map[int32]int) int {
	values := slices.Collect(maps.Values(counts))
	return slices.Max(values) - slices.Min(values)
}

// TestManySmallTopicsAreBalanced checks that, after 400 topics with one partition have been
// assigned one after the other, the brokers have the same number of replicas, and lead similar
// numbers of partitions. The load is updated as in the operator.
func TestManySmallTopicsAreBalanced(t *testing.T) {
	brokers := []Broker{{ID: 0}, {ID: 1}, {ID: 2}, {ID: 3}}
	for replicas := 1; replicas <= 4; replicas++ {
		load, leads := map[int32]int{}, map[int32]int{0: 0, 1: 0, 2: 0, 3: 0}
		for range 400 {
			assigned, err := Assign(brokers, load, 0, 1, replicas)
			if err != nil {
				t.Fatal(err)
			}
			leads[assigned[0][0]]++
			for _, id := range assigned[0] {
				load[id]++
			}
		}
		if spread(load) > 1 {
			t.Errorf("%d replicas: got load %v, want at most a difference of 1", replicas, load)
		}
		if fewest := slices.Min(slices.Collect(maps.Values(leads))); fewest < 75 {
			t.Errorf("%d replicas: got a broker that leads %d of 400 partitions, want at least 75: %v",
				replicas, fewest, leads)
		}
	}
}
