package replica

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// produceAwaiting produces to a broker in a goroutine, as a produce request does, and measures how
// long the request takes.
func (n *nodes) produceAwaiting(to int32) <-chan producedAfter {
	produced := make(chan producedAfter, 1)
	start := time.Now()
	go func() {
		batches := []ProducePartition{{ID: partitionA, Batch: batch(n.t, "x")}}
		n.nodes[to].AwaitLeader(n.t.Context(), batches)
		result := n.nodes[to].Append(1, batches).Wait(n.t.Context(), time.Minute)[0]
		produced <- producedAfter{result, time.Since(start)}
	}()
	synctest.Wait()
	return produced
}

type producedAfter struct {
	result ProduceResult
	took   time.Duration
}

// TestProduceAwaitsTheImageOfTheNewLeader sends a produce request to the next leader before the
// image reaches it. The request must wait for the image. The former leader must name the next
// leader, and answer without a wait.
func TestProduceAwaitsTheImageOfTheNewLeader(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		n.change(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = 2, p.LeaderEpoch+1 })
		epoch := n.meta.image().Topics[0].Partitions[0].LeaderEpoch
		n.apply(1)
		if answer := <-n.produceAwaiting(1); !errors.Is(answer.result.Err,
			ErrNotLeader) || answer.took != 0 {
			t.Errorf("former leader: %v after %s, want %v at once", answer.result.Err, answer.took,
				ErrNotLeader)
		}
		if leader, known, ok := n.nodes[1].KnownLeader(partitionA, n.meta.topic.ID); !ok || leader != 2 ||
			known != epoch {
			t.Errorf("the former leader knows leader %d of epoch %d, want 2 of %d", leader, known,
				epoch)
		}
		// This change does not begin a new leader epoch.
		n.change(func(p *metadata.Partition) { p.ISR = []int32{2, 1} })
		n.apply(1)
		if answer := <-n.produceAwaiting(1); answer.took != 0 {
			t.Errorf("former leader: answer after %s, want at once", answer.took)
		}
		produced := n.produceAwaiting(2)
		time.Sleep(50 * time.Millisecond)
		n.apply(2)
		if answer := <-produced; answer.result.Err != nil || answer.took != 50*time.Millisecond {
			t.Errorf("new leader: %v after %s, want success after 50 ms", answer.result.Err, answer.took)
		}
	})
}

// TestProduceToAFollowerEndsItsWait checks that a produce request to a follower stops waiting if
// the follower does not become the leader.
func TestProduceToAFollowerEndsItsWait(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.settle(time.Second)
		answer := <-n.produceAwaiting(2)
		if late := answer.took - leaderWaitMax; !errors.Is(answer.result.Err, ErrNotLeader) || late < 0 ||
			late > 2*time.Millisecond {
			t.Errorf("follower: %v after %s, want %v after %s", answer.result.Err, answer.took, ErrNotLeader,
				leaderWaitMax)
		}
		if answer := <-n.produceAwaiting(2); !errors.Is(answer.result.Err,
			ErrNotLeader) || answer.took != 0 {
			t.Errorf("after a wait that expired: %v after %s, want %v at once", answer.result.Err,
				answer.took,
				ErrNotLeader)
		}
	})
}

// TestProduceAwaitsANewReplica checks a replica that one image adds to the ISR and the next image
// elects. A client sends records to the replica before it has applied either image.
func TestProduceAwaitsANewReplica(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.settle(time.Second)
		n.elect(1, 1)
		n.settle(time.Second)
		n.change(func(p *metadata.Partition) { p.ISR = []int32{1, 2} })
		n.apply(1)
		n.change(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = 2, p.LeaderEpoch+1 })
		produced := n.produceAwaiting(2)
		time.Sleep(50 * time.Millisecond)
		n.apply(2)
		if answer := <-produced; answer.result.Err != nil || answer.took != 50*time.Millisecond {
			t.Errorf("%v after %s, want success after 50 ms", answer.result.Err, answer.took)
		}
	})
}

// TestRemovedLeaderNamesTheNextOne applies an image that elects another leader and removes the
// former leader's replica. The former leader must still name its successor.
func TestRemovedLeaderNamesTheNextOne(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.settle(time.Second)
		n.change(func(p *metadata.Partition) {
			p.Replicas, p.ISR, p.Leader, p.LeaderEpoch = []int32{2}, []int32{2}, 2, p.LeaderEpoch+1
		})
		epoch := n.meta.image().Topics[0].Partitions[0].LeaderEpoch
		n.apply(1)
		leader, known, ok := n.nodes[1].KnownLeader(partitionA, n.meta.topic.ID)
		if !ok || leader != 2 || known != epoch {
			t.Errorf("leader %d of epoch %d, %t, want 2 of %d", leader, known, ok, epoch)
		}
		if _, _, ok := n.nodes[1].KnownLeader(partitionA, metadata.ID{}); ok {
			t.Error("a topic with another id has a leader")
		}
		if _, _, ok := n.nodes[1].KnownLeader(id(partitionA.Topic, 7), n.meta.topic.ID); ok {
			t.Error("a partition that does not exist has a leader")
		}
	})
}

// TestFormerLeaderAwaitsLaterElections checks that, some time after this broker has led, a produce
// request waits again, because its client may know of a later leader epoch.
func TestFormerLeaderAwaitsLaterElections(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.settle(time.Second)
		n.elect(2, 1, 2)
		n.settle(formerLeaderPeriod)
		n.change(func(p *metadata.Partition) { p.Leader, p.LeaderEpoch = 1, p.LeaderEpoch+1 })
		produced := n.produceAwaiting(1)
		time.Sleep(50 * time.Millisecond)
		n.apply(1)
		if answer := <-produced; answer.result.Err != nil || answer.took != 50*time.Millisecond {
			t.Errorf("%v after %s, want success after 50 ms", answer.result.Err, answer.took)
		}
	})
}

// TestWaitForTheLeaderEndsWithTheRequest checks that a wait ends when the request's context ends,
// and when the set is closed.
func TestWaitForTheLeaderEndsWithTheRequest(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.settle(time.Second)
		await := func(ctx context.Context) <-chan time.Duration {
			took, start := make(chan time.Duration, 1), time.Now()
			go func() {
				n.nodes[2].AwaitLeader(ctx, []ProducePartition{{ID: id("none", 0)}, {ID: partitionA}})
				took <- time.Since(start)
			}()
			synctest.Wait()
			return took
		}
		ctx, cancel := context.WithCancel(t.Context())
		took := await(ctx)
		time.Sleep(10 * time.Millisecond)
		cancel()
		if d := <-took; d != 10*time.Millisecond {
			t.Errorf("cancelled request: %s, want 10 ms", d)
		}
		n.settle(expiredWaitPeriod)
		took = await(t.Context())
		time.Sleep(10 * time.Millisecond)
		n.nodes[2].produces.Close()
		if d := <-took; d != 10*time.Millisecond {
			t.Errorf("closed set: %s, want 10 ms", d)
		}
	})
}
