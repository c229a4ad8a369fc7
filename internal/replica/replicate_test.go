package replica

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// inCluster runs a test in a bubble, with so many brokers and one partition that 1 leads.
func inCluster(t *testing.T, count int, change func(*metadata.Topic), test func(t *testing.T, n *nodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newNodes(t, count, change)) })
}

// TestAcksAllIsOnEveryReplica once it is acknowledged, and takes one wake-up of each follower, no wait.
func TestAcksAllIsOnEveryReplica(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.settle(time.Second)
		begin := time.Now()
		for range 20 {
			n.mustProduce(1, "x", "y")
			n.equal(1, 2, 3)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("20 produces one after the other took %v of the fetches' time", took)
		}
		n.settle(time.Second)
		for _, id := range n.ids {
			if hw := n.log(id).HighWatermark(); hw != 40 {
				t.Errorf("broker %d: high watermark %d, want 40", id, hw)
			}
		}
	})
}

// TestDivergentTailsAreCut: what the old leader appended and nobody else has is cut off when it follows the new one.
func TestDivergentTailsAreCut(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a", "b")
		n.nodes[1].cut.Store(true)
		n.settle(time.Second)
		lost := make(chan ProduceResult, 1)
		go func() { lost <- n.produce(1, "lost", "lost", "lost") }()
		synctest.Wait()
		n.change(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch, p.ISR = 2, 2, []int32{2, 3} })
		n.apply(2, 3)
		n.settle(time.Second)
		n.mustProduce(2, "c")
		if n.log(1).LogEnd() != 5 || n.log(1).HighWatermark() != 2 {
			t.Errorf("zombie: end %d, high watermark %d", n.log(1).LogEnd(), n.log(1).HighWatermark())
		}
		n.nodes[1].cut.Store(false)
		n.apply(1)
		if r := <-lost; !errors.Is(r.Err, ErrNotLeader) {
			t.Errorf("the zombie's produce: %v", r.Err)
		}
		n.settle(3 * time.Second)
		n.apply()
		n.equal(1, 2, 3)
		if isr := n.isr(); !slices.Equal(isr, []int32{1, 2, 3}) {
			t.Errorf("in sync: %v", isr)
		}
		n.mustProduce(2, "d")
		n.equal(1, 2, 3)
	})
}
