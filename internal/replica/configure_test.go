package replica

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestReplicationIsAsTheImageSays, for leaderships that are under way too; what it leaves out is as
// before.
func TestReplicationIsAsTheImageSays(t *testing.T) {
	b := newBroker(t)
	b.topic("orders", 1, nil)
	b.apply()
	apply := func(copying metadata.Replication) {
		t.Helper()
		image := metadata.NewImage(b.cluster, metadata.CleanerBudget{}, nil,
			[]*metadata.Topic{b.topics["orders"]})
		image.Replication = copying
		if _, err := b.Apply(image); err != nil {
			t.Fatal(err)
		}
	}
	lag := func() time.Duration {
		g := b.view.Load().partitions[id("orders", 0)].role.Load().reign
		g.mu.Lock()
		defer g.mu.Unlock()
		return g.mu.isr.lagMax
	}
	if lag() != lagMaxDefault || b.catchUp.Limit() != rate.Inf {
		t.Errorf("nothing is said: a lag of %s, catching up at %v", lag(), b.catchUp.Limit())
	}
	apply(metadata.Replication{LagMax: 3 * time.Second, CatchUpBytesRate: 1 << 20})
	if lag() != 3*time.Second || b.catchUp.Limit() != 1<<20 ||
		b.catchUp.Burst() != pullPartitionBytesMax {
		t.Errorf("a lag of %s, catching up at %v", lag(), b.catchUp.Limit())
	}
	apply(metadata.Replication{})
	if lag() != lagMaxDefault || b.catchUp.Limit() != rate.Inf || b.catchUp.Burst() != 0 {
		t.Errorf("nothing is said any more: a lag of %s, catching up at %v, %d", lag(),
			b.catchUp.Limit(), b.catchUp.Burst())
	}
}
