package coordinator

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"heartwood.dev/heartwood/internal/coordinator/group"
	"heartwood.dev/heartwood/internal/coordinator/runtime"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/vfs"
)

func TestMemberWithoutHeartbeatsIsRemoved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.awaitLoaded()
		joined := b.join()
		for range 5 {
			time.Sleep(9 * time.Second)
			must(t, b.Heartbeat(t.Context(), "g", "m", "", joined.Generation))
		}
		b.wantPhase("Stable")
		time.Sleep(11 * time.Second)
		synctest.Wait()
		b.wantPhase("Empty")
		if err := b.Heartbeat(t.Context(), "g", "m", "", joined.Generation); !errors.Is(err,
			group.ErrUnknownMember) {
			t.Errorf("heartbeat of the removed member: %v", err)
		}
	})
}

// TestGroupsSurviveFailoverAndRestart checks that, after a failover and after a restart of the
// broker, the coordinator has loaded a group's member and offset, and the member continues without
// a rebalance.
func TestGroupsSurviveFailoverAndRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		disk, id := vfs.NewMem(), metadata.NewID()
		b := newBroker(t, disk, id)
		b.Lead(1, self)
		b.awaitLoaded()
		joined := b.join()
		must(t, b.commit(7, "m", joined.Generation))
		check := func(epoch int32) {
			t.Helper()
			b.Lead(epoch, self)
			b.awaitLoaded()
			if got, err := b.committed(); got != 7 || err != nil {
				t.Errorf("epoch %d: offset %d, %v", epoch, got, err)
			}
			must(t, b.Heartbeat(t.Context(), "g", "m", "", joined.Generation))
			synced, err := b.Sync(t.Context(),
				group.Sync{Group: "g", Member: "m", Generation: joined.Generation})
			if must(t, err); string(synced.Assignment) != "all" {
				t.Errorf("epoch %d: assignment %q", epoch, synced.Assignment)
			}
		}
		check(2)
		b.Stop()
		b = newBroker(t, disk, id)
		defer func() { b.Stop() }()
		check(3)
		time.Sleep(11 * time.Second) // the member stops sending heartbeats
		synctest.Wait()
		b.wantPhase("Empty")
	})
}

func TestJoinReturnsNotCoordinatorWhenThePartitionMoves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.awaitLoaded()
		joined := make(chan error, 1)
		go func() {
			_, err := b.Join(context.Background(), group.Join{
				Group: "g", NewMember: "m", Session: 10 * time.Second, ProtocolType: "consumer",
				Protocols: []group.Protocol{{Name: "range"}},
			})
			joined <- err
		}()
		synctest.Wait() // the join now waits for the end of the initial delay
		b.Lead(2, 2)
		if err := <-joined; !errors.Is(err, ErrNotCoordinator) {
			t.Errorf("the waiting join returned %v", err)
		}
		if err := b.commit(1, "", -1); !errors.Is(err, ErrNotCoordinator) {
			t.Errorf("a later commit returned %v", err)
		}
	})
}

// TestUnreplicatedOffsetsAreNotVisible checks that a commit is not acknowledged, and its offset is
// not returned, before all in-sync replicas have its record.
func TestUnreplicatedOffsetsAreNotVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.awaitLoaded()
		must(t, b.commit(7, "", -1))
		b.Lead(2, self, 2) // broker 2 does not run, so the high watermark does not advance
		b.awaitLoadedUnstored()
		began := time.Now()
		if err := b.commit(8, "", -1); !errors.Is(err, ErrNotAvailable) ||
			time.Since(began) != runtime.StoreTimeout {
			t.Errorf("commit: %v after %v", err, time.Since(began))
		}
		if got, err := b.committed(); !errors.Is(err, ErrNotAvailable) {
			t.Errorf("fetched %d, %v", got, err)
		}
		b.Lead(3, self)
		b.awaitLoaded()
		if got, err := b.committed(); got != 8 || err != nil {
			t.Errorf("got offset %d, %v; want 8, which is in the leader's log", got, err)
		}
	})
}

// TestExpiredOffsetsAndTheirGroupAreDeleted checks that an offset of a group without members is
// deleted after its retention, and that the group is deleted with its last offset.
func TestExpiredOffsetsAndTheirGroupAreDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Lead(1, self)
		b.awaitLoaded()
		must(t, b.commit(7, "", -1))
		time.Sleep(time.Hour - time.Minute)
		if got, err := b.committed(); got != 7 || err != nil {
			t.Errorf("before the retention ends: %d, %v", got, err)
		}
		time.Sleep(2 * expireIntervalDefault)
		if got, err := b.committed(); got != -1 || err != nil {
			t.Errorf("after the retention: %d, %v", got, err)
		}
		if all, err := b.List(t.Context()); len(all) != 0 || err != nil {
			t.Errorf("groups %v, %v; want none", all, err)
		}
		if n := testutil.ToFloat64(b.metrics.expired); n != 1 {
			t.Errorf("metric of expired offsets: got %v, want 1", n)
		}
	})
}

// TestConcurrentCommitsOfManyGroups checks that two hundred groups can commit concurrently with a
// small limit for the batch size. Every commit must be stored, and each group must read its own
// offset.
func TestConcurrentCommitsOfManyGroups(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBroker(t, vfs.NewMem(), metadata.NewID())
		defer b.Stop()
		b.Topic.Settings.MessageBytesMax = 300
		b.Lead(1, self)
		b.awaitLoaded()
		var all sync.WaitGroup
		for i := range 200 {
			all.Go(func() {
				id := fmt.Sprint("group-", i)
				for offset := range int64(5) {
					commitAndFetch(t, b, id, offset)
				}
			})
		}
		all.Wait()
		if n := testutil.ToFloat64(b.metrics.committed); n != 1000 {
			t.Errorf("metric of commits: got %v, want 1000", n)
		}
		time.Sleep(runtime.SampleInterval)
		synctest.Wait()
		if got := testutil.CollectAndCount((*groupCollector)(b.Groups)); got != len(groupStates) {
			t.Errorf("exported group states: got %d, want %d", got, len(groupStates))
		}
	})
}

func commitAndFetch(t *testing.T, b *broker, id string, offset int64) {
	t.Helper()
	errs, err := b.Commit(t.Context(), group.Commit{Group: id, Generation: -1,
		Offsets: []group.CommitOffset{{Topic: "t",
			Offset: group.Offset{Offset: offset, LeaderEpoch: -1, ExpireMs: -1}}}})
	if err != nil || errs[0] != nil {
		t.Errorf("%s: %v %v", id, errs, err)
		return
	}
	found, err := b.Committed(t.Context(), id, []group.TopicPartition{{Topic: "t"}})
	if err != nil || found[0].Offset.Offset != offset {
		t.Errorf("%s: committed %d, found %+v, %v", id, offset, found, err)
	}
}
