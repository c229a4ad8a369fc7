package coordinator

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// heartbeat sends a heartbeat of the consumer protocol to group g. The member subscribes to the
// offsets topic, because the image contains no other topic.
func (b *broker) heartbeat(member string, epoch int32, owned assignor.Assignment) (consumer.Answer,
	error) {
	h := &consumer.Heartbeat{Group: "g", Member: member, Epoch: epoch, Rebalance: -1, Owned: owned}
	if epoch == consumer.EpochJoin {
		h.Rebalance, h.Topics, h.Owned = time.Minute, []string{OffsetsTopic}, assignor.Assignment{}
	}
	return b.ConsumerHeartbeat(b.t.Context(), h)
}

// TestConsumersSurviveFailover checks that, after the broker restarts during a rebalance of a group
// with two consumers, the new coordinator loads the members with their epochs and assignments, and
// completes the rebalance. Later it must remove the member that sends no heartbeats.
func TestConsumersSurviveFailover(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, id := vfs.NewMem(), metadata.NewID()
		b := newBroker(t, disk, id)
		b.Lead(1, self)
		b.awaitLoaded()
		all := assignor.Assignment{id: {0}}
		if a, err := b.heartbeat("a", 0, nil); err != nil || a.Epoch != 1 ||
			!a.Assignment.Equal(all) {
			t.Fatalf("a joins: %+v, %v", a, err)
		}
		if c, err := b.heartbeat("c", 0, nil); err != nil || c.Epoch != 2 ||
			c.Assignment.Len() != 0 {
			t.Fatalf("c joins: %+v, %v", c, err)
		}
		b.Stop()
		b = newBroker(t, disk, id)
		defer func() { b.Stop() }()
		b.Lead(2, self)
		b.awaitLoaded()
		if a, err := b.heartbeat("a", 1, all); err != nil || a.Epoch != 2 {
			t.Errorf("heartbeat of a: %+v, %v", a, err)
		}
		if _, err := b.heartbeat("c", 3, nil); !errors.Is(err, consumer.ErrFencedEpoch) {
			t.Errorf("heartbeat of c in an unknown epoch: %v", err)
		}
		if d, err := b.DescribeConsumer(t.Context(), "g"); err != nil || d.State != "Reconciling" &&
			d.State != "Stable" || len(d.Members) != 2 {
			t.Errorf("%+v, %v", d, err)
		}
		b.Lead(3, self)
		b.awaitLoaded()
		for range 3 { // c sends heartbeats, and a does not
			time.Sleep(20 * time.Second)
			if _, err := b.heartbeat("c", 2, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.heartbeat("a", 2, nil); !errors.Is(err, group.ErrUnknownMember) {
			t.Errorf("heartbeat of a after its session: %v", err)
		}
		d, err := b.DescribeConsumer(t.Context(), "g")
		if err != nil || d.State != "Stable" || len(d.Members) != 1 ||
			!d.Members[0].Assigned.Equal(all) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// TestUnreplicatedAssignmentsAreNotVisible checks that, while records are not replicated, joins and
// descriptions of a consumer group fail with ErrNotAvailable, because a failover could lose the
// state that they would reveal.
func TestUnreplicatedAssignmentsAreNotVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.awaitLoaded()
		b.Lead(2, self, 2) // broker 2 does not run, so the high watermark does not advance
		b.awaitLoadedUnstored()
		began := time.Now()
		if a, err := b.heartbeat("a", 0, nil); !errors.Is(err, ErrNotAvailable) ||
			time.Since(began) != runtime.StoreTimeout {
			t.Errorf("join: %+v, %v after %v", a, err, time.Since(began))
		}
		if _, err := b.DescribeConsumer(t.Context(), "g"); !errors.Is(err, ErrNotAvailable) {
			t.Errorf("describe: %v", err)
		}
		if _, err := b.ConsumerHeartbeat(t.Context(), &consumer.Heartbeat{}); !errors.Is(err,
			consumer.ErrInvalid) {
			t.Errorf("heartbeat without a group id: %v", err)
		}
	})
}
