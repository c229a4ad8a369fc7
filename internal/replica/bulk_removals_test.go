package replica

import (
	"slices"
	"testing"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestManyRemovalsAreLeftToTheOperator checks that leaders leave many removals to the operator only
// as long as the operator makes progress with them.
func TestManyRemovalsAreLeftToTheOperator(t *testing.T) {
	type evaluation struct {
		after    time.Duration // time since the first removals
		removals int
		all      bool
		leave    bool
	}
	for name, evaluations := range map[string][]evaluation{
		"few":         {{0, bulkRemovalsMin - 1, false, false}},
		"no operator": {{0, 200, false, true}, {bulkDelay - 1, 200, true, true}, {bulkDelay, 200, true, false}},
		"made":        {{0, 200, false, true}, {bulkDelay, 0, true, false}, {bulkDelay + 1, 3, false, false}},
		"progress": {{0, 200, false, true}, {bulkDelay, 90, true, true}, {2 * bulkDelay, 10, true, true},
			{3 * bulkDelay, 10, true, false}},
		"second failure": {{0, 200, false, true}, {bulkDelay / 2, 300, true, true},
			{bulkDelay, 300, true, false}},
		"an evaluation of some partitions is no progress": {{0, 200, false, true},
			{bulkDelay, 5, false, true}, {bulkDelay, 200, true, false}},
		"slow progress ends": {{0, 200, false, true}, {bulkDelay, 190, true, true},
			{bulkDelayMax, 180, true, false}},
	} {
		t.Run(name, func(t *testing.T) {
			begin, b := time.Unix(1000, 0), bulkRemovals{}
			for i, e := range evaluations {
				wait, leave := b.leave(e.removals, e.all, begin.Add(e.after))
				if leave != e.leave {
					t.Fatalf("evaluation %d: leave %t, want %t", i, leave, e.leave)
				}
				if wait > 0 && !leave {
					t.Errorf("evaluation %d: wait %s though nothing is left", i, wait)
				}
			}
		})
	}
}

// TestLeaderRemovesAFailedBrokerItself checks that a leader removes a failed follower from the ISRs
// of 150 partitions if the operator does not.
func TestLeaderRemovesAFailedBrokerItself(t *testing.T) {
	many := func(topic *metadata.Topic) {
		for index := range int32(149) {
			p := *topic.Partitions[0]
			p.Index, p.ISR = index+1, slices.Clone(p.ISR)
			topic.Partitions = append(topic.Partitions, &p)
		}
	}
	inCluster(t, 3, many, func(t *testing.T, n *nodes) {
		n.settle(time.Second)
		exited := metadata.InSync{Broker: 3, Epoch: n.meta.epochs[3]}
		n.crash(3, false)
		n.nodes[1].processExited(exited)
		shrunk := func() (count int) {
			for _, p := range n.meta.image().Topics[0].Partitions {
				if !slices.Contains(p.ISR, 3) {
					count++
				}
			}
			return count
		}
		if n.settle(bulkDelay - time.Millisecond); shrunk() != 0 {
			t.Errorf("the leader removed the follower from %d ISRs at once", shrunk())
		}
		if n.settle(10 * time.Millisecond); shrunk() != 150 {
			t.Errorf("the leader removed the follower from %d ISRs, want 150", shrunk())
		}
	})
}

// TestLeaderAcceptsRemovalsOfTheOperator checks that the leader acknowledges records without an ISR
// update of its own once the operator has removed a failed follower from the ISR.
func TestLeaderAcceptsRemovalsOfTheOperator(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.settle(time.Second)
		n.crash(3, false)
		acked := make(chan ProduceResult, 1)
		go func() { acked <- n.produce(1, "a") }()
		n.change(func(p *metadata.Partition) {
			p.ISR = []int32{1, 2}
			p.PartitionEpoch++
		})
		n.apply(1, 2)
		if r := <-acked; r.Err != nil {
			t.Error(r.Err)
		}
		n.settle(time.Minute)
		n.meta.mu.Lock()
		defer n.meta.mu.Unlock()
		if len(n.meta.updates) > 0 {
			t.Errorf("the leader updated the ISR: %+v", n.meta.updates)
		}
	})
}
