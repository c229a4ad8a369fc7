package replica

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestImageConfiguresReplication: an image also changes the settings of leaders that already serve.
// Settings that an image does not contain return to their defaults.
func TestImageConfiguresReplication(t *testing.T) {
	b := newBroker(t)
	b.topic("orders", 1, nil)
	b.apply()
	apply := func(replication metadata.Replication) {
		t.Helper()
		image := metadata.NewImage(b.cluster, metadata.CleanerBudget{}, nil,
			[]*metadata.Topic{b.topics["orders"]})
		image.Replication = replication
		if _, err := b.Apply(image); err != nil {
			t.Fatal(err)
		}
	}
	lag := func() time.Duration {
		l := b.view.Load().partitions[id("orders", 0)].role.Load().leaderState
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.mu.isr.LagMax()
	}
	if lag() != lagMaxDefault || b.catchUp.limiter.Limit() != rate.Inf {
		t.Errorf("default: lag %s, catch-up rate %v", lag(), b.catchUp.limiter.Limit())
	}
	apply(metadata.Replication{LagMax: 3 * time.Second, CatchUpBytesRate: 1 << 20})
	if lag() != 3*time.Second || b.catchUp.limiter.Limit() != 1<<20 ||
		b.catchUp.limiter.Burst() != followerPartitionBytesMax {
		t.Errorf("configured: lag %s, catch-up rate %v", lag(), b.catchUp.limiter.Limit())
	}
	apply(metadata.Replication{})
	if lag() != lagMaxDefault || b.catchUp.limiter.Limit() != rate.Inf ||
		b.catchUp.limiter.Burst() != 0 {
		t.Errorf("default again: lag %s, catch-up rate %v, burst %d", lag(),
			b.catchUp.limiter.Limit(), b.catchUp.limiter.Burst())
	}
}
