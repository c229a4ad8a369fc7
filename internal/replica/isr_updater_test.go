package replica

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/isr"
)

// pauseFetches blocks the fetches of a broker until release is called.
func (b *node) pauseFetches() (release func()) {
	gate := make(chan struct{})
	b.slow.Store(&gate)
	return func() {
		b.slow.Store(nil)
		close(gate)
	}
}

// TestSlowFollowerLeavesAndRejoinsTheISR checks that a produce request with acks=all waits for a
// slow follower no longer than the lag time. Later requests must not wait for the follower until it
// has rejoined the ISR.
func TestSlowFollowerLeavesAndRejoinsTheISR(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		release := n.nodes[3].pauseFetches()
		n.settle(time.Second)
		begin := time.Now()
		n.mustProduce(1, "b")
		if took := time.Since(begin); took < lagMaxDefault/2 || took > lagMaxDefault+
			lagMaxDefault/4+isr.RetryDelay {
			t.Errorf("acknowledged after %v, the lag time is %v", took, lagMaxDefault)
		}
		n.wantISR(1, 2)
		n.apply()
		begin = time.Now()
		n.mustProduce(1, "c")
		if took := time.Since(begin); took > 0 {
			t.Errorf("without the slow follower it took %v", took)
		}
		release()
		n.settle(3 * time.Second)
		n.equal(1, 2, 3)
		n.wantISR(1, 2, 3)
	})
}

// TestSilentFollowerLeavesDespiteOtherEvents checks that a follower that stops fetching leaves the
// ISR after the lag time, even if another partition is evaluated all the time. Such evaluations
// occur if a follower of the other partition has all records but may not join.
func TestSilentFollowerLeavesDespiteOtherEvents(t *testing.T) {
	second := func(topic *metadata.Topic) {
		p := *topic.Partitions[0]
		p.Index = 1
		topic.Partitions = append(topic.Partitions, &p)
	}
	inCluster(t, 3, second, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		release := n.nodes[3].pauseFetches()
		defer release()
		// Broker 3 does not receive this record, and brokers 1 and 2 stay in sync.
		n.nodes[1].Append(1, []ProducePartition{{ID: partitionA, Batch: batch(t, "b")}})
		for begin := time.Now(); time.Since(begin) < lagMaxDefault+
			2*isr.RetryDelay; n.settle(followerFetchWait) {
			n.nodes[1].isrUpdater.enqueue(id("a", 1))
		}
		n.wantISR(1, 2)
	})
}

// TestDownFollowerLeavesTheISRAtOnce checks that a follower is removed from the ISR as soon as an
// image no longer contains its broker. Producers must not wait for the lag time.
func TestDownFollowerLeavesTheISRAtOnce(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		n.crash(3, false)
		acked := make(chan ProduceResult, 1)
		go func() { acked <- n.produce(1, "b") }()
		synctest.Wait()
		if len(acked) != 0 {
			t.Fatal("acknowledged without an ISR member")
		}
		n.apply(1, 2)
		synctest.Wait()
		if len(acked) != 1 {
			t.Fatal("the produce still waits")
		}
		if r := <-acked; r.Err != nil {
			t.Error(r.Err)
		}
	})
}

// TestFencedFollowerLeavesTheISRAtOnce checks that a follower that returns after a crash, in
// another broker epoch, is removed from the ISR once an image shows that its recorded epoch is
// fenced. Producers must then no longer wait for it.
func TestFencedFollowerLeavesTheISRAtOnce(t *testing.T) {
	recorded := func(topic *metadata.Topic) { topic.Partitions[0].ISREpochs = []int64{1, 1, 1} }
	// If the recorded epoch 1 is fenced, the follower leaves. If only epoch 0 is fenced, it stays.
	for epoch, out := range map[int64]bool{1: true, 0: false} {
		inCluster(t, 3, recorded, func(t *testing.T, n *nodes) {
			n.mustProduce(1, "a")
			n.settle(time.Second)
			n.crash(3, false)
			acked := make(chan ProduceResult, 1)
			go func() { acked <- n.produce(1, "b") }()
			synctest.Wait()
			n.meta.mu.Lock()
			n.meta.epochs[3] = 2
			n.meta.mu.Unlock()
			n.change(func(p *metadata.Partition) {
				p.Fenced = []metadata.InSync{{Broker: 3, Epoch: epoch}}
			})
			n.apply(1, 2)
			synctest.Wait()
			if got := len(acked) == 1; got != out {
				t.Fatalf("broker epoch %d is fenced: acknowledged %t", epoch, got)
			}
			<-acked
		})
	}
}

// TestRefusedConnectionRemovesFollower checks that a leader removes a killed follower from the ISR
// before an image shows its exit, because its own fetches from that broker are refused. Producers
// must not wait for it. Brokers 1 and 3 each lead a partition and follow the other one; broker 3 is
// killed.
func TestRefusedConnectionRemovesFollower(t *testing.T) {
	second := func(topic *metadata.Topic) {
		p := *topic.Partitions[0]
		p.Index, p.Leader = 1, 3
		topic.Partitions = append(topic.Partitions, &p)
	}
	for _, refused := range []bool{true, false} {
		inCluster(t, 3, second, func(t *testing.T, n *nodes) {
			n.refuse.Store(refused)
			n.mustProduce(1, "a")
			n.settle(time.Second)
			n.crash(3, false)
			begin := time.Now()
			n.mustProduce(1, "b")
			took := time.Since(begin)
			if refused && took > 2*retryFirst {
				t.Errorf("acknowledged after %v", took)
			}
			// A network failure is not a sign that the process has exited.
			if !refused && took < lagMaxDefault/2 {
				t.Errorf("removed from the ISR after %v without a sign that its process has exited",
					took)
			}
			n.wantISR(1, 2)
		})
	}
}

// TestFalseExitSignIsReverted checks that a follower's next fetch corrects the leader's wrong
// assumption that the follower's process has exited, and that the leader then ignores the same
// sign. So a broker that only some brokers cannot reach does not alternately leave and join the
// ISR.
func TestFalseExitSignIsReverted(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		inSync := metadata.InSync{Broker: 3, Epoch: n.meta.epochs[3]}
		n.nodes[1].processExited(inSync)
		n.mustProduce(1, "b")
		n.settle(2 * time.Second)
		n.apply()
		n.settle(2 * time.Second)
		n.wantISR(1, 2, 3)
		if changes := len(n.meta.updates); changes > 2 {
			t.Errorf("%d ISR updates, want at most one removal and one addition: %v",
				changes, n.meta.updates)
		}
	})
}

// TestFollowerJoinsUnderLoad checks that a follower joins the ISR while records are appended all
// the time.
func TestFollowerJoinsUnderLoad(t *testing.T) {
	inCluster(t, 2, func(topic *metadata.Topic) { topic.Partitions[0].ISR = []int32{1} },
		func(t *testing.T, n *nodes) {
			for range 200 {
				n.mustProduce(1, "x")
				time.Sleep(10 * time.Millisecond)
				if slices.Equal(n.isr(), []int32{1, 2}) {
					n.equal(1, 2)
					return
				}
			}
			t.Error("the follower never joined")
		})
}

// TestMinInSyncReplicas checks that requests with acks=all, including waiting ones, fail if fewer
// replicas than the minimum are in sync. Consumers must read only records that enough replicas
// have.
func TestMinInSyncReplicas(t *testing.T) {
	two := func(topic *metadata.Topic) { topic.Settings.MinInSyncReplicas = 2 }
	inCluster(t, 2, two, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		n.crash(2, false)
		waits := make(chan ProduceResult, 1)
		go func() { waits <- n.produce(1, "b") }()
		synctest.Wait()
		n.apply(1)
		n.settle(2 * time.Second)
		if len(waits) != 1 {
			t.Fatal("the produce still waits")
		}
		if r := <-waits; !errors.Is(r.Err, ErrNotEnoughReplicasAfterAppend) {
			t.Errorf("the waiting produce: %v", r.Err)
		}
		if r := n.produce(1, "c"); !errors.Is(r.Err, ErrNotEnoughReplicas) {
			t.Errorf("the next produce: %v", r.Err)
		}
		r := n.nodes[1].Append(1,
			[]ProducePartition{{ID: partitionA, Batch: batch(t, "d")}}).Wait(t.Context(),
			time.Minute)[0]
		if r.Err != nil || n.log(1).HighWatermark() != 1 {
			t.Errorf("acks=1: %v, high watermark %d", r.Err, n.log(1).HighWatermark())
		}
		n.start(2)
		n.apply()
		n.settle(3 * time.Second)
		if hw := n.log(1).HighWatermark(); hw != 3 {
			t.Errorf("after the follower's return: high watermark %d", hw)
		}
		n.mustProduce(1, "e")
		n.equal(1, 2)
	})
}

// TestHighWatermarkWaitsForBothSetsOfPendingUpdate checks that, if the answer to an ISR update is
// lost, the high watermark waits for the members of both the old and the new ISR, because either
// may be recorded.
func TestHighWatermarkWaitsForBothSetsOfPendingUpdate(t *testing.T) {
	inCluster(t, 3, func(topic *metadata.Topic) { topic.Partitions[0].ISR = []int32{1, 2} },
		func(t *testing.T, n *nodes) {
			n.meta.mu.Lock()
			n.meta.lose = 1
			n.meta.mu.Unlock()
			n.settle(100 * time.Millisecond)
			if isr := n.isr(); !slices.Equal(isr, []int32{1, 2, 3}) {
				t.Fatalf("recorded ISR: %v", isr)
			}
			// The recorded ISR contains broker 3, but the leader has not received the answer.
			release := n.nodes[3].pauseFetches()
			n.settle(600 * time.Millisecond)
			acked := make(chan ProduceResult, 1)
			go func() { acked <- n.produce(1, "a") }()
			synctest.Wait()
			if len(acked) != 0 {
				t.Fatal("acknowledged without a broker of the recorded ISR")
			}
			release()
			if r := <-acked; r.Err != nil {
				t.Error(r.Err)
			}
			n.settle(5 * time.Second)
			n.apply()
			n.equal(1, 2, 3)
		})
}

// TestMetadataOutageIsLoggedOnce checks that the beginning and the end of a metadata outage are
// each logged once, although many partitions need an ISR update and retry it often.
func TestMetadataOutageIsLoggedOnce(t *testing.T) {
	many := func(topic *metadata.Topic) {
		for index := range int32(20) {
			p := *topic.Partitions[0]
			p.Index = index + 1
			topic.Partitions = append(topic.Partitions, &p)
		}
	}
	inCluster(t, 3, many, func(t *testing.T, n *nodes) {
		outage := func(err error) {
			n.meta.mu.Lock()
			n.meta.refuse = err
			n.meta.mu.Unlock()
		}
		n.settle(time.Second)
		outage(errors.New("no API server"))
		n.crash(3, false)
		n.apply(1, 2)
		n.settle(10 * time.Minute)
		if begins, all := strings.Count(n.logs.String(), "failed to update ISR"),
			strings.Count(n.logs.String(), "level=WARN"); begins != 1 || all != begins {
			t.Errorf("the outage is logged %d times, among %d warnings", begins, all)
		}
		outage(nil)
		n.settle(time.Minute)
		if ends := strings.Count(n.logs.String(), "ISR updates succeed again"); ends != 1 {
			t.Errorf("the end of the outage is logged %d times", ends)
		}
	})
}

// TestDeposedLeaderAcknowledgesNothing checks that a leader that has lost its connection to the
// metadata, and continues to serve after the election of another leader, acknowledges nothing: its
// followers fetch from the new leader.
func TestDeposedLeaderAcknowledgesNothing(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.change(func(p *metadata.Partition) {
			p.Leader, p.LeaderEpoch, p.ISR = 2, 2,
				[]int32{2, 3}
		})
		n.apply(2, 3)
		results := make(chan ProduceResult, 1)
		go func() { results <- n.produce(1, "x") }()
		n.settle(3 * lagMaxDefault)
		if r := n.log(1); r.HighWatermark() != 1 || len(results) != 0 {
			t.Errorf("high watermark %d, %d results", r.HighWatermark(), len(results))
		}
		n.mustProduce(2, "b")
		n.settle(time.Minute)
		if r := <-results; !errors.Is(r.Err, ErrTimeout) {
			t.Errorf("the deposed leader returned %v", r.Err)
		}
	})
}

// TestRestartedLeaderWaitsForElection checks that a leader that restarts does not lead again in the
// same leader epoch, but waits for an election.
func TestRestartedLeaderWaitsForElection(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.crash(1, false)
		n.start(1)
		served, err := n.nodes[1].Apply(n.meta.image())
		if !errors.Is(err, errRestartedLeader) || len(served) != 1 || !served[0].Ahead {
			t.Errorf("served %v, %v", served, err)
		}
		if r := n.produce(1, "b"); r.Err == nil {
			t.Error("the restarted leader appended a batch")
		}
		n.elect(1, 1, 2)
		n.mustProduce(1, "c")
		n.equal(1, 2)
	})
}

// TestLostLeaderEpochDoesNotBeginAgain checks that a killed leader that has lost its leader epoch,
// and everything that it appended in this epoch, does not lead in that epoch again. Its follower
// still has the records. An old image names the broker as the leader with its earlier broker epoch.
func TestLostLeaderEpochDoesNotBeginAgain(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Minute) // long enough for the record to be synced
		n.change(func(p *metadata.Partition) {
			p.ISREpochs = []int64{n.meta.epochs[1], n.meta.epochs[2]}
		})
		n.elect(1, 1, 2)
		lost := n.meta.topic.Partitions[0].LeaderEpoch
		n.mustProduce(1, "b")
		n.crash(1, true)
		n.start(1)
		served, err := n.nodes[1].Apply(n.meta.image())
		if got := n.log(1).LeaderEpoch(); got >= lost {
			t.Fatalf("the log contains leader epoch %d, it should have lost %d", got, lost)
		}
		if !errors.Is(err, errRestartedLeader) {
			t.Errorf("served %v, %v", served, err)
		}
		if r := n.produce(1, "c"); r.Err == nil {
			t.Error("the restarted leader appended a batch in its earlier leader epoch")
		}
		n.change(func(p *metadata.Partition) {
			p.ISREpochs = []int64{n.meta.epochs[2]}
		})
		n.elect(2, 2)
		n.mustProduce(2, "d")
		n.settle(time.Minute)
		n.equal(1, 2)
	})
}
