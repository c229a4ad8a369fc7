package replica

import (
	"testing"
	"time"

	"golang.org/x/time/rate"

	"heartwood.dev/heartwood/internal/metadata"
)

// TestImageConfiguresReplication checks that an image also changes the settings of leaders that
// already serve, and that settings that an image does not contain return to their defaults.
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
	follower, added := int32(1), int32(2)
	r := &role{replicas: []int32{0, 1, 2}, adding: []int32{2}}
	if b.throttleOf(r, added) != b.catchUp {
		t.Error("without a rate for moves, the catch-up rate does not apply to them")
	}
	apply(metadata.Replication{CatchUpBytesRate: 1 << 20, MoveBytesRate: 2 << 20})
	if b.throttleOf(r, added) != b.moves || b.moves.limiter.Limit() != 2<<20 ||
		b.throttleOf(r, follower) != b.catchUp {
		t.Error("replicas that are added are not throttled apart from the others")
	}
	apply(metadata.Replication{})
	if lag() != lagMaxDefault || b.catchUp.limiter.Limit() != rate.Inf ||
		b.catchUp.limiter.Burst() != 0 {
		t.Errorf("default again: lag %s, catch-up rate %v, burst %d", lag(),
			b.catchUp.limiter.Limit(), b.catchUp.limiter.Burst())
	}
}
