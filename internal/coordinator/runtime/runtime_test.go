package runtime

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

// TestPartitionForMatchesKafka checks that PartitionFor returns the same partitions as Kafka 4.3.1,
// for keys with positive and negative hashes. Otherwise an internal topic copied from Kafka would
// be unusable.
func TestPartitionForMatchesKafka(t *testing.T) {
	for key, want := range map[string]int32{
		"": 0, "g": 3, "orders": 31, "billing-service": 39, "console-consumer-12345": 6,
		"consumer-ü": 3, "🎈group": 37,
		"polygenelubricants": 0, // the hash is -2^31, which has no absolute value
	} {
		if got := PartitionFor(key, 50); got != want {
			t.Errorf("%q: %d, want %d", key, got, want)
		}
	}
}

func TestStateSurvivesFailoverAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, id := vfs.NewMem(), metadata.NewID()
		b := newBroker(t, disk, id)
		b.Lead(1, self)
		first := b.shard()
		must(t, b.put("a", "1"))
		machine := first.machine
		b.Lead(2, self)
		if b.shard() == first {
			t.Error("the shard of epoch 1 serves epoch 2")
		}
		if !machine.closed {
			t.Error("the machine of epoch 1 was not closed")
		}
		b.wantValue("a", "1")
		b.Stop()
		b = newBroker(t, disk, id)
		defer func() { b.Stop() }()
		b.Lead(3, self)
		b.shard()
		b.wantValue("a", "1")
	})
}

func TestWaitingRequestReturnsNotCoordinatorWhenThePartitionMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.shard()
		waited := make(chan error, 1)
		go func() {
			_, err := b.await("never")
			waited <- err
		}()
		synctest.Wait()
		b.Lead(2, 2)
		if err := <-waited; !errors.Is(err, ErrNotCoordinator) {
			t.Errorf("the waiting request returned %v", err)
		}
		if err := b.put("a", "1"); !errors.Is(err, ErrNotCoordinator) {
			t.Errorf("a later request returned %v", err)
		}
	})
}

func TestWaitReturnsTheAnswerThatReplayGives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.shard()
		waited := make(chan string, 1)
		go func() {
			value, err := b.await("a")
			waited <- fmt.Sprint(value, err)
		}()
		synctest.Wait()
		must(t, b.put("a", "1"))
		if got := <-waited; got != "1<nil>" {
			t.Errorf("the waiting request returned %s", got)
		}
	})
}

func TestTimersFireInTheShard(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		s := b.shard()
		must(t, b.put("fires", "1"))
		must(t, b.put("cleared", "1"))
		must(t, CallVolatile(t.Context(), s, func(_ time.Time, m *register) error {
			m.timers.Set("fires", time.Hour)
			m.timers.Set("fires", time.Second)
			m.timers.Set("cleared", time.Second)
			m.timers.Clear("cleared")
			return nil
		}))
		time.Sleep(900 * time.Millisecond)
		b.wantValue("fires", "1")
		time.Sleep(200 * time.Millisecond)
		b.wantValue("fires", "")
		b.wantValue("cleared", "1")
	})
}

func TestExpireRunsUntilNothingIsExpired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		s := b.shard()
		for i := range 10 {
			must(t, b.put(fmt.Sprint("old-", i), "1"))
		}
		must(t, b.put("new", "1"))
		time.Sleep(time.Hour + time.Second)
		synctest.Wait()
		must(t, CallVolatile(t.Context(), s, func(_ time.Time, m *register) error {
			if len(m.values) != 1 || m.values["new"] != "1" {
				t.Errorf("after expiry the state is %v", m.values)
			}
			if m.samples < 700 {
				t.Errorf("%d samples in an hour", m.samples)
			}
			return nil
		}))
	})
}

func TestMachineSeesRelevantImagesOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.OtherTopics = []*metadata.Topic{{Name: "deleted", ID: metadata.NewID()},
			{Name: "retained", ID: metadata.NewID(), RetainData: true}}
		b.Lead(1, self)
		s := b.shard()
		must(t, b.put("deleted", "1"))
		must(t, b.put("retained", "1"))
		deltas := func() (n int) {
			synctest.Wait()
			must(t, CallVolatile(t.Context(), s, func(_ time.Time, m *register) error {
				n = len(m.deltas)
				return nil
			}))
			return n
		}
		b.Lead(1, self)
		if n := deltas(); n != 1 {
			t.Errorf("after an image without changes the machine has seen %d deltas, want 1", n)
		}
		b.GroupSettings.MembersMax = 5
		b.Lead(1, self)
		if n := deltas(); n != 2 {
			t.Errorf("after a change of settings the machine has seen %d deltas, want 2", n)
		}
		b.OtherTopics = nil
		b.Lead(1, self)
		if n := deltas(); n != 3 {
			t.Errorf("after the deletion of topics the machine has seen %d deltas, want 3", n)
		}
		b.wantValue("deleted", "")
		b.wantValue("retained", "1")
	})
}

// TestMetadataChangesAreNotLost checks that a delta that arrives while the shard is loading stays
// pending, and that a delta whose records could not be stored becomes pending again.
func TestMetadataChangesAreNotLost(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.OtherTopics = []*metadata.Topic{{Name: "deleted", ID: metadata.NewID()}}
		b.Lead(1, self)
		s := b.detached()
		s.expiry = time.NewTicker(time.Hour)
		defer s.expiry.Stop()
		s.applyMetadata(Delta{Image: b.Image(), Deleted: map[string]bool{"x": true}}, true)
		if s.queue.pending {
			t.Error("an event was queued although the shard is loading")
		}
		b.Lead(2, 2)
		s.handDelta(time.Now(), s.machine.Loaded)
		if !s.queue.delta.Deleted["x"] {
			t.Errorf("after a failed append the pending delta is %+v", s.queue.delta)
		}
	})
}

func TestLoadIsRetriedAfterAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.shard()
		must(t, b.put("a", "1"))
		// The record is in the log, although Replay returns an error for it.
		must(t, b.put("corrupt", "1"))
		time.Sleep(10 * reloadBackoff)
		if _, err := b.get("a"); !errors.Is(err, ErrLoading) {
			t.Errorf("with a record that cannot be replayed: %v", err)
		}
	})
}
