package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"heartwood.dev/heartwood/internal/placement"
)

const largest = 8 << 27 // size of the largest partition that assigned returns

// assigned returns a cluster whose partitions package placement has assigned to the first brokers
// in all. The sizes of the partitions differ by up to a factor of 8.
func assigned(t testing.TB, all []Broker, first, topics, partitions int) Cluster {
	t.Helper()
	random := rand.New(rand.NewPCG(uint64(len(all)), uint64(topics)))
	c := Cluster{Brokers: all}
	var brokers []placement.Broker
	for _, b := range all[:first] {
		brokers = append(brokers, placement.Broker{ID: b.ID, Rack: b.Rack})
	}
	load := map[int32]int{}
	for topic := range topics {
		replicas, err := placement.Assign(brokers, load, 0, partitions, 3)
		if err != nil {
			t.Fatal(err)
		}
		for index, ids := range replicas {
			for _, id := range ids {
				load[id]++
			}
			c.Partitions = append(c.Partitions, Partition{Topic: fmt.Sprint("topic-", topic),
				Index: int32(index), Replicas: ids, Bytes: 1<<27 + random.Int64N(7<<27),
				Rate: 100 + random.Int64N(100)})
		}
	}
	return c
}

func brokers(n, racks int) (all []Broker) {
	for id := range n {
		all = append(all, Broker{ID: int32(id), Rack: fmt.Sprint(id % racks), Capacity: 1 << 40})
	}
	return all
}

// execute returns the cluster after a plan, and the number of bytes that the plan copies.
func execute(c Cluster, plan Plan) (after Cluster, copied int64) {
	after = c.clone()
	for _, m := range plan.Moves {
		after.Partitions[m.Partition].Replicas = m.Replicas
		if m.Copy {
			copied += c.Partitions[m.Partition].Bytes
		}
	}
	return after, copied
}

// near fails the test if a broker that is not draining deviates from the mean by more than 10 %
// plus the cost of one partition.
func near(t *testing.T, c Cluster, what string, one int64, cost func(Partition, int32) int64) {
	t.Helper()
	sums, total, n := map[int32]int64{}, int64(0), int64(0)
	for _, b := range c.Brokers {
		if !b.Draining {
			n++
		}
		for _, p := range c.Partitions {
			sums[b.ID] += cost(p, b.ID)
		}
		total += sums[b.ID]
	}
	for _, b := range c.Brokers {
		mean := total / n
		if d := max(sums[b.ID]-mean, mean-sums[b.ID]); d > mean/10+one && !b.Draining {
			t.Errorf("broker %d has %d %s, the mean is %d", b.ID, sums[b.ID], what, mean)
		}
	}
}

func bytesOn(p Partition, id int32) int64 {
	if slices.Contains(p.Replicas, id) {
		return p.Bytes + replicaBytes
	}
	return 0
}

func leadersOn(p Partition, id int32) int64 {
	if p.Replicas[0] == id {
		return 1
	}
	return 0
}

// TestNewBrokersAreFilled checks that, after a cluster of 3 brokers has been extended to 5, the
// plan copies little more than the bytes that the new brokers need.
func TestNewBrokersAreFilled(t *testing.T) {
	c := assigned(t, brokers(5, 1), 3, 6, 20)
	plan := New(c, Options{})
	after, copied := execute(c, plan)
	near(t, after, "bytes", largest, bytesOn)
	near(t, after, "leaders", 1, leadersOn)
	total := int64(0)
	for _, b := range c.Brokers {
		total += c.bytes(b.ID)
	}
	// Each of the two new brokers needs at least 90 % of the mean number of bytes.
	if bound := total / 5 * 2 * 9 / 10; copied > bound*11/10 {
		t.Errorf("the plan copies %d bytes, the lower bound is %d", copied, bound)
	}
}

// TestHundredBrokers checks the plan for a cluster of 80 brokers and 10,000 partitions in 4 racks,
// to which 20 brokers are added while one of the old brokers is drained.
func TestHundredBrokers(t *testing.T) {
	all := brokers(100, 4)
	all[7].Draining = true
	c := assigned(t, all, 80, 100, 100)
	plan := New(c, Options{})
	after, copied := execute(c, plan)
	if plan.After[Drain]+plan.After[Racks]+plan.After[Capacity] != 0 ||
		len(plan.Blocked) > 0 {
		t.Errorf("the potential after the plan is %v", plan.After)
	}
	near(t, after, "bytes", largest, bytesOn)
	near(t, after, "leaders", 1, leadersOn)
	total := int64(0)
	for _, b := range c.Brokers {
		total += c.bytes(b.ID)
	}
	if bound := total/99*20*9/10 + c.bytes(7); copied > bound*11/10 {
		t.Errorf("the plan copies %d bytes, the lower bound is %d", copied, bound)
	}
	t.Logf("%d moves", len(plan.Moves))
}

// TestBalancedClusterGetsNoMoves checks that partitions of equal size need no moves after package
// placement has assigned them.
func TestBalancedClusterGetsNoMoves(t *testing.T) {
	c := assigned(t, brokers(6, 3), 6, 10, 12)
	for i := range c.Partitions {
		c.Partitions[i].Bytes, c.Partitions[i].Rate = 1<<30, 1000
	}
	if plan := New(c, Options{}); len(plan.Moves) > 0 || plan.Before != (Potential{}) {
		t.Errorf("got %d moves, potential %v", len(plan.Moves), plan.Before)
	}
}

// TestLeadershipMovesWithoutCopies checks that nothing is copied if one of three brokers leads all
// partitions and every broker has all replicas.
func TestLeadershipMovesWithoutCopies(t *testing.T) {
	c := Cluster{Brokers: brokers(3, 3)}
	for index := range int32(30) {
		c.Partitions = append(c.Partitions, Partition{Topic: "orders", Index: index,
			Bytes: 1 << 30, Rate: 1000, Replicas: []int32{0, 1, 2}})
	}
	plan := New(c, Options{})
	after, copied := execute(c, plan)
	if copied > 0 || len(plan.Moves) > 20 {
		t.Errorf("%d moves copy %d bytes", len(plan.Moves), copied)
	}
	near(t, after, "leaders", 0, leadersOn)
}

// TestBlockedDrain checks that the plan for a drain that cannot be completed reports the obstacle,
// and contains no move that violates the goal that is the obstacle.
func TestBlockedDrain(t *testing.T) {
	for name, test := range map[string]struct {
		change func(c *Cluster)
		want   Goal
	}{
		"as many brokers as replicas": {func(c *Cluster) { c.Brokers = c.Brokers[:3] }, Drain},
		"the others are cordoned":     {func(c *Cluster) { c.Brokers[3].Cordoned = true }, Drain},
		"the other one is in the rack of a replica": {func(c *Cluster) {
			c.Brokers[3].Rack = "1"
			c.Brokers = append(c.Brokers, Broker{ID: 4, Rack: "0", Cordoned: true})
		}, Racks},
		"the other one is in the rack of a replica, and no other in its own": {
			func(c *Cluster) { c.Brokers[3].Rack = "1" }, Racks},
		"two racks would have two of four replicas": {func(c *Cluster) {
			c.Brokers = append(c.Brokers, Broker{ID: 4, Rack: "2"})
			c.Partitions[0].Replicas = []int32{0, 1, 2, 4}
			c.Brokers[3].Rack = "1"
		}, Racks},
		"the other one is too small": {func(c *Cluster) { c.Brokers[3].Capacity = 1 << 30 }, Capacity},
	} {
		c := Cluster{Brokers: brokers(4, 3)}
		c.Brokers[0].Draining = true
		c.Partitions = []Partition{{Topic: "orders", Bytes: 1 << 30, Replicas: []int32{0, 1, 2}}}
		test.change(&c)
		plan := New(c, Options{})
		want := []Blocked{{Partition: 0, Broker: 0, Goal: test.want}}
		if len(plan.Moves) > 0 || !slices.Equal(plan.Blocked, want) {
			t.Errorf("%s: got %+v, want %+v", name, plan, want)
		}
	}
}

// TestRackOfRemovedBrokersDoesNotCount checks that the replicas of a removed broker may share the
// remaining racks.
func TestRackOfRemovedBrokersDoesNotCount(t *testing.T) {
	c := Cluster{Brokers: brokers(4, 3), Partitions: []Partition{{Topic: "orders",
		Replicas: []int32{0, 1, 2}}}}
	c.Brokers[2].Draining, c.Brokers[2].Removed = true, true
	if plan := New(c, Options{DrainOnly: true}); len(plan.Moves) != 1 || plan.Moves[0].To != 3 {
		t.Errorf("got %+v, want a move to broker 3", plan)
	}
}

// TestDrainAnywayRelaxesOnlyBlockedReplicas checks plans with AnywayPercent. A replica that fits
// into its rack must stay in that rack, and one that does not fit must share another rack. The
// latter may fill a disk further than other moves do. Plans with other goals must leave the blocked
// replicas where they are.
func TestDrainAnywayRelaxesOnlyBlockedReplicas(t *testing.T) {
	c := Cluster{Brokers: brokers(4, 2), AnywayPercent: 91, Partitions: []Partition{
		{Topic: "large", Bytes: 50 << 20, Replicas: []int32{0, 1}},
		{Topic: "medium", Bytes: 12 << 20, Replicas: []int32{2, 1}},
		{Topic: "small", Bytes: 2 << 20, Replicas: []int32{2, 1}}}}
	c.Brokers[1].Draining = true
	c.Brokers[3].Capacity, c.Brokers[3].Other = 100<<20, 75<<20
	plan := New(c, Options{DrainOnly: true})
	type move struct {
		partition int
		to        int32
		anyway    bool
	}
	var got []move
	for _, m := range plan.Moves {
		got = append(got, move{m.Partition, m.To, m.Anyway})
	}
	if want := []move{{2, 3, false}, {0, 2, true}, {1, 3, true}}; !slices.Equal(got, want) ||
		len(plan.Blocked) > 0 {
		t.Errorf("got %+v, blocked %+v; want %+v", got, plan.Blocked, want)
	}
	if plan := New(c, Options{}); len(plan.Blocked) != 2 {
		t.Errorf("a plan with all goals blocks %+v, want 2 replicas", plan.Blocked)
	}
}

func BenchmarkHundredBrokers(b *testing.B) {
	c := assigned(b, brokers(100, 4), 80, 100, 100)
	for b.Loop() {
		New(c, Options{})
	}
}
