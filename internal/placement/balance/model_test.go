package balance

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
)

// randomCluster returns a cluster with random brokers and partitions. Only some clusters have
// racks, capacities, cordoned or draining brokers, or fixed partitions.
func randomCluster(random *rand.Rand) Cluster {
	var c Cluster
	brokers, racks := 1+random.IntN(9), 1+random.IntN(4)
	special, limited := random.IntN(2) == 0, random.IntN(2) == 0
	for id := range brokers {
		b := Broker{ID: int32(id * 2), Rack: fmt.Sprint(random.IntN(racks))}
		if limited {
			b.Capacity = int64(1+random.IntN(20)) << 20
			b.Other = int64(random.IntN(3)*random.IntN(3)) << 20
		}
		if special {
			b.Cordoned, b.Draining = random.IntN(6) == 0, random.IntN(6) == 0
			b.Removed = b.Draining && random.IntN(2) == 0
		}
		c.Brokers = append(c.Brokers, b)
	}
	for topic := range 1 + random.IntN(5) {
		replicas := 1 + random.IntN(min(brokers, 4))
		for index := range 1 + random.IntN(12) {
			p := Partition{Topic: fmt.Sprint("topic-", topic), Index: int32(index),
				Fixed: special && random.IntN(10) == 0}
			if random.IntN(4) > 0 {
				p.Bytes = random.Int64N(1 << (10 + random.IntN(11)))
				p.Rate = random.Int64N(1000)
			}
			for _, index := range random.Perm(brokers)[:replicas] {
				p.Replicas = append(p.Replicas, c.Brokers[index].ID)
			}
			c.Partitions = append(c.Partitions, p)
		}
	}
	return c
}

func (c Cluster) clone() Cluster {
	c.Brokers, c.Partitions = slices.Clone(c.Brokers), slices.Clone(c.Partitions)
	return c
}

func (c Cluster) broker(id int32) Broker {
	return c.Brokers[slices.IndexFunc(c.Brokers, func(b Broker) bool { return b.ID == id })]
}

func (c Cluster) bytes(broker int32) (sum int64) {
	for _, p := range c.Partitions {
		if slices.Contains(p.Replicas, broker) {
			sum += p.Bytes + replicaBytes
		}
	}
	return sum
}

// crowded returns the number of a partition's replicas that exceed the fair share of their rack,
// plus the number of racks in which the partition should have a replica but has none.
func (c Cluster) crowded(p Partition) int {
	used, count := map[string]bool{}, map[string]int{}
	for _, b := range c.Brokers {
		if !b.Removed {
			used[b.Rack] = true
		}
	}
	for _, id := range p.Replicas {
		count[c.broker(id).Rack]++
	}
	n := max(1, len(used))
	crowded := max(0, min(n, len(p.Replicas))-len(count))
	for _, replicas := range count {
		crowded += max(0, replicas-(len(p.Replicas)+n-1)/n)
	}
	return crowded
}

// check returns a description of what is wrong with a move, or "".
func (c Cluster) check(m Move) string {
	p := c.Partitions[m.Partition]
	after := p
	after.Replicas = m.Replicas
	from, to := c.broker(m.From), c.broker(m.To)
	expected := slices.Clone(p.Replicas)
	if m.Copy {
		index := slices.Index(expected, m.From)
		if index < 0 || slices.Contains(expected, m.To) {
			return "it moves a replica that does not exist, or to a broker that has one"
		}
		expected[index] = m.To
	} else {
		expected = slices.DeleteFunc(expected, func(id int32) bool { return id == m.To })
		expected = append([]int32{m.To}, expected...)
	}
	switch {
	case !slices.Equal(expected, m.Replicas):
		return fmt.Sprintf("the replicas are %v, want %v", m.Replicas, expected)
	case p.Fixed:
		return "the partition is fixed"
	case to.Draining || m.Copy && to.Cordoned:
		return "the target is cordoned or draining"
	case c.crowded(after) > c.crowded(p):
		return "the racks are less balanced"
	case m.Copy && to.Capacity > 0 &&
		to.Other+c.bytes(m.To)+p.Bytes+replicaBytes > to.Capacity/100*80:
		return "the disk of the target is too full"
	case m.Goal == Drain && !from.Draining:
		return "the source is not draining"
	case m.Goal != Drain && m.Copy && m.Goal != Racks && m.Goal != Capacity &&
		m.Goal != Disk && m.Goal != TopicReplicas && m.Goal != LeaderRate:
		return "the goal is not worth a copy"
	}
	return ""
}

// TestPlansOfRandomClusters checks the package's guarantees on random clusters. It recomputes the
// potential after each move.
func TestPlansOfRandomClusters(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(seed, 18))
		cluster := randomCluster(random)
		plan := New(cluster, Options{})
		shuffled := cluster.clone()
		order := random.Perm(len(cluster.Partitions))
		for i, index := range order {
			shuffled.Partitions[i] = cluster.Partitions[index]
		}
		slices.Reverse(shuffled.Brokers)
		other := New(shuffled, Options{})
		now, potential := cluster.clone(), plan.Before
		for i, m := range plan.Moves {
			if wrong := now.check(m); wrong != "" {
				t.Fatalf("seed %d: move %d, %+v: %s", seed, i, m, wrong)
			}
			now.Partitions[m.Partition].Replicas = m.Replicas
			after := Evaluate(now, Options{})
			if after.Compare(potential) >= 0 {
				t.Fatalf("seed %d: move %d, %+v, changes the potential from %v to %v", seed, i, m,
					potential, after)
			}
			potential = after
			if len(other.Moves) != len(plan.Moves) ||
				order[other.Moves[i].Partition] != m.Partition ||
				!slices.Equal(other.Moves[i].Replicas, m.Replicas) {
				t.Fatalf("seed %d: another order of the input gives other moves", seed)
			}
		}
		if potential != plan.After {
			t.Fatalf("seed %d: the plan ends with potential %v, want %v", seed, plan.After, potential)
		}
		if again := New(now, Options{}); len(again.Moves) > 0 {
			t.Fatalf("seed %d: the balanced cluster gets the moves %+v", seed, again.Moves)
		}
		if left := now.left(); left != len(plan.Blocked) {
			t.Fatalf("seed %d: %d replicas remain on draining brokers, and the plan reports %+v",
				seed, left, plan.Blocked)
		}
	}
}

// left returns the number of replicas on draining brokers, except replicas of fixed partitions.
func (c Cluster) left() (n int) {
	for _, p := range c.Partitions {
		for _, id := range p.Replicas {
			if c.broker(id).Draining && !p.Fixed {
				n++
			}
		}
	}
	return n
}
