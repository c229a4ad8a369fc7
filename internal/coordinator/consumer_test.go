package coordinator

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/assignor"
	"heartwood.dev/heartwood/internal/coordinator/consumer"
	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// beat is a heartbeat of a consumer of the groups' topic itself, which is the one that is there.
func (b *broker) beat(member string, epoch int32, owned assignor.Assignment) (consumer.Answer,
	error) {
	h := &consumer.Heartbeat{Group: "g", Member: member, Epoch: epoch, Rebalance: -1, Owned: owned}
	if epoch == consumer.EpochJoin {
		h.Rebalance, h.Topics, h.Owned = time.Minute, []string{OffsetsTopic}, assignor.Assignment{}
	}
	return b.ConsumerHeartbeat(b.t.Context(), h)
}

// A coordinator that comes knows members, epochs, what is each one's, and goes on in the middle of
// a rebalance.
func TestConsumersOutliveTheirCoordinator(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, id := vfs.NewMem(), metadata.NewID()
		b := newBroker(t, disk, id)
		b.lead(1, self)
		b.loaded()
		all := assignor.Assignment{id: {0}}
		if a, err := b.beat("a", 0, nil); err != nil || a.Epoch != 1 || !a.Assignment.Equal(all) {
			t.Fatalf("a joins: %+v, %v", a, err)
		}
		if c, err := b.beat("c", 0, nil); err != nil || c.Epoch != 2 || c.Assignment.Len() != 0 {
			t.Fatalf("c joins: %+v, %v", c, err)
		}
		b.stop()
		b = newBroker(t, disk, id)
		defer func() { b.stop() }()
		b.lead(2, self)
		b.loaded()
		if a, err := b.beat("a", 1, all); err != nil || a.Epoch != 2 {
			t.Errorf("a beats: %+v, %v", a, err)
		}
		if _, err := b.beat("c", 3, nil); !errors.Is(err, consumer.ErrFencedEpoch) {
			t.Errorf("c in an epoch that is none: %v", err)
		}
		if d, err := b.DescribeConsumer(t.Context(), "g"); err != nil || d.State != "Reconciling" &&
			d.State != "Stable" || len(d.Members) != 2 {
			t.Errorf("%+v, %v", d, err)
		}
		b.lead(3, self)
		b.loaded()
		for range 3 { // a is not heard of any more, c is
			time.Sleep(20 * time.Second)
			if _, err := b.beat("c", 2, nil); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := b.beat("a", 2, nil); !errors.Is(err, group.ErrUnknownMember) {
			t.Errorf("a is told %v", err)
		}
		d, err := b.DescribeConsumer(t.Context(), "g")
		if err != nil || d.State != "Stable" || len(d.Members) != 1 ||
			!d.Members[0].Assigned.Equal(all) {
			t.Errorf("%+v, %v", d, err)
		}
	})
}

// A member is told of nothing that a failover could take back.
func TestConsumersAreToldOfNothingThatIsNotSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.stop()
		b.lead(1, self)
		b.loaded()
		b.lead(2, self, 2) // there is nobody behind 2
		b.loadedUnsafe()
		began := time.Now()
		if a, err := b.beat("a", 0, nil); !errors.Is(err, ErrNotAvailable) ||
			time.Since(began) != commitWait {
			t.Errorf("%+v, %v after %v", a, err, time.Since(began))
		}
		if _, err := b.DescribeConsumer(t.Context(), "g"); !errors.Is(err, ErrNotAvailable) {
			t.Errorf("described: %v", err)
		}
		if _, err := b.ConsumerHeartbeat(t.Context(), &consumer.Heartbeat{}); !errors.Is(err,
			consumer.ErrInvalid) {
			t.Errorf("no group: %v", err)
		}
	})
}
