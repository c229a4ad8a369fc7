package coordinator

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// The numbers are what Kafka 4.3.1 computes, of hashes above and below 0: a copied topic counts on
// them.
func TestGroupsAreWhereKafkaPutsThem(t *testing.T) {
	for id, want := range map[string]int32{
		"": 0, "g": 3, "orders": 31, "billing-service": 39, "console-consumer-12345": 6,
		"consumer-ü": 3, "🎈group": 37,
		"polygenelubricants": 0, // its hash is -2^31, which has no absolute value
	} {
		if got := partitionOf(id, 50); got != want {
			t.Errorf("%q: %d, want %d", id, got, want)
		}
	}
}

func TestMemberThatIsNotHeardOfIsOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.stop()
		b.lead(1, self)
		b.loaded()
		joined := b.member()
		for range 5 {
			time.Sleep(9 * time.Second)
			must(t, b.Heartbeat(t.Context(), "g", "m", "", joined.Generation))
		}
		if got := b.phase(); got != "Stable" {
			t.Errorf("with heartbeats the group is %s", got)
		}
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if got := b.phase(); got != "Empty" {
			t.Errorf("without heartbeats the group is %s", got)
		}
		if err := b.Heartbeat(t.Context(), "g", "m", "", joined.Generation); !errors.Is(err,
			group.ErrUnknownMember) {
			t.Errorf("heartbeat of who is out: %v", err)
		}
	})
}

// A coordinator that begins again, in another epoch or after a restart, knows offsets and members,
// and members go on without a rebalance.
func TestCoordinatorComesBackWithWhatItSaid(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, id := vfs.NewMem(), metadata.NewID()
		b := newBroker(t, disk, id)
		b.lead(1, self)
		b.loaded()
		joined := b.member()
		must(t, b.commit(7, "m", joined.Generation))
		check := func(epoch int32) {
			t.Helper()
			b.lead(epoch, self)
			b.loaded()
			if got, err := b.committed(); got != 7 || err != nil {
				t.Errorf("epoch %d: offset %d, %v", epoch, got, err)
			}
			must(t, b.Heartbeat(t.Context(), "g", "m", "", joined.Generation))
			synced, err := b.Sync(t.Context(),
				group.Sync{Group: "g", Member: "m", Generation: joined.Generation})
			if must(t, err); string(synced.Assignment) != "all" {
				t.Errorf("assigned %q", synced.Assignment)
			}
		}
		check(2)
		b.stop()
		b = newBroker(t, disk, id)
		defer func() { b.stop() }()
		check(3)
		time.Sleep(11 * time.Second) // who does not come back after a failover is out as well
		synctest.Wait()
		if got := b.phase(); got != "Empty" {
			t.Errorf("the group is %s", got)
		}
	})
}

// Who waits when the partition goes elsewhere is told so, and asks there.
func TestWaitersAreToldThatTheCoordinatorMoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.stop()
		b.lead(1, self)
		b.loaded()
		told := make(chan error, 1)
		go func() {
			_, err := b.Join(context.Background(), group.Join{
				Group: "g", NewMember: "m", Session: 10 * time.Second, ProtocolType: "consumer",
				Protocols: []group.Protocol{{Name: "range"}},
			})
			told <- err
		}()
		synctest.Wait() // it waits out the initial delay
		b.lead(2, 2)
		if err := <-told; !errors.Is(err, ErrNotCoordinator) {
			t.Errorf("told %v", err)
		}
		if err := b.commit(1, "", -1); !errors.Is(err, ErrNotCoordinator) {
			t.Errorf("commit: %v", err)
		}
	})
}

// What is not on all in-sync replicas is neither acknowledged nor told to anybody.
func TestNothingIsToldThatIsNotSafe(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.stop()
		b.lead(1, self)
		b.loaded()
		must(t, b.commit(7, "", -1))
		b.lead(2, self, 2) // there is nobody behind 2
		b.loadedUnsafe()
		began := time.Now()
		if err := b.commit(8, "", -1); !errors.Is(err, ErrNotAvailable) ||
			time.Since(began) != commitWait {
			t.Errorf("commit: %v after %v", err, time.Since(began))
		}
		if got, err := b.committed(); !errors.Is(err, ErrNotAvailable) {
			t.Errorf("fetched %d, %v", got, err)
		}
		b.lead(3, self)
		b.loaded()
		if got, err := b.committed(); got != 8 || err != nil {
			t.Errorf("fetched %d, %v: the leader's log has it", got, err)
		}
	})
}

// loadedUnsafe waits for a shard whose answers do not become safe.
func (b *broker) loadedUnsafe() {
	b.t.Helper()
	for range 100 {
		synctest.Wait()
		if err := b.Heartbeat(b.t.Context(), "g", "nobody", "", 0); errors.Is(err,
			group.ErrUnknownMember) {
			return
		}
		time.Sleep(100 * time.Millisecond)
	}
	b.t.Fatal("the shard is not loaded")
}

// Offsets of a group without members go after the retention, and the group with them.
func TestOldOffsetsGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.stop()
		b.lead(1, self)
		b.loaded()
		must(t, b.commit(7, "", -1))
		time.Sleep(time.Hour - time.Minute)
		if got, err := b.committed(); got != 7 || err != nil {
			t.Errorf("fetched %d, %v", got, err)
		}
		time.Sleep(2 * expireInterval)
		if got, err := b.committed(); got != -1 || err != nil {
			t.Errorf("fetched %d, %v", got, err)
		}
		if all, err := b.List(t.Context()); len(all) != 0 || err != nil {
			t.Errorf("groups %v, %v", all, err)
		}
	})
}
