package replica

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// pace holds the fetches of a broker back until the returned function lets them go.
func (b *node) pace() (release func()) {
	gate := make(chan struct{})
	b.slow.Store(&gate)
	return func() {
		b.slow.Store(nil)
		close(gate)
	}
}

// TestSlowFollowerLeavesTheISRAndComesBack: acks=all waits for it for the lag time, no longer, and
// never again until it is back.
func TestSlowFollowerLeavesTheISRAndComesBack(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		release := n.nodes[3].pace()
		n.settle(time.Second)
		begin := time.Now()
		n.mustProduce(1, "b")
		if took := time.Since(begin); took < lagMaxDefault/2 || took > lagMaxDefault+
			lagMaxDefault/4+retryHold {
			t.Errorf("acknowledged after %v, the lag time is %v", took, lagMaxDefault)
		}
		if isr := n.isr(); !slices.Equal(isr, []int32{1, 2}) {
			t.Errorf("in sync: %v", isr)
		}
		n.apply()
		begin = time.Now()
		n.mustProduce(1, "c")
		if took := time.Since(begin); took > 0 {
			t.Errorf("without the slow one it took %v", took)
		}
		release()
		n.settle(3 * time.Second)
		n.equal(1, 2, 3)
		if isr := n.isr(); !slices.Equal(isr, []int32{1, 2, 3}) {
			t.Errorf("in sync again: %v", isr)
		}
	})
}

// TestSilenceIsSeenBesideNews: a follower that says nothing any more is dropped after the lag time
// also while another partition has something new to look at all the time, as one whose follower has
// everything and must not join.
func TestSilenceIsSeenBesideNews(t *testing.T) {
	second := func(topic *metadata.Topic) {
		p := *topic.Partitions[0]
		p.Index = 1
		topic.Partitions = append(topic.Partitions, &p)
	}
	inCluster(t, 3, second, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		release := n.nodes[3].pace()
		defer release()
		// who has all of the log is in sync
		n.nodes[1].Append(1, []ProducePartition{{ID: partitionA, Batch: batch(t, "b")}})
		for begin := time.Now(); time.Since(begin) < lagMaxDefault+2*retryHold; n.settle(pullWait) {
			n.nodes[1].reviews.want(id("a", 1))
		}
		if isr := n.isr(); !slices.Equal(isr, []int32{1, 2}) {
			t.Errorf("in sync: %v", isr)
		}
	})
}

// TestDeadFollowerLeavesTheISRAtOnce: nobody waits the lag time for a broker that the image does
// not have.
func TestDeadFollowerLeavesTheISRAtOnce(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		n.crash(3, false)
		acked := make(chan ProduceResult, 1)
		go func() { acked <- n.produce(1, "b") }()
		synctest.Wait()
		if len(acked) != 0 {
			t.Fatal("acknowledged without a member of the ISR")
		}
		n.apply(1, 2)
		synctest.Wait()
		if len(acked) != 1 {
			t.Fatal("still waits")
		}
		if r := <-acked; r.Err != nil {
			t.Error(r.Err)
		}
	})
}

// TestNobodyWaitsForWhoHasEnded: a follower that is back after a crash, in another incarnation, is
// out of sync as soon as an image says so, and no change is asked for.
func TestNobodyWaitsForWhoHasEnded(t *testing.T) {
	recorded := func(topic *metadata.Topic) { topic.Partitions[0].ISREpochs = []int64{1, 1, 1} }
	// of the incarnation that has ended: the one on record, or one before
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
				p.ISR, p.ISREpochs, p.Fenced = []int32{1, 2}, []int64{1, 1},
					[]metadata.InSync{{Broker: 3, Epoch: epoch}}
			})
			n.apply(1, 2)
			synctest.Wait()
			if got := len(acked) == 1; got != out {
				t.Fatalf("incarnation %d has ended: acknowledged %t", epoch, got)
			}
			<-acked
		})
	}
}

// TestARefusedConnectionIsHeardBeforeTheImage: a leader that copies from a broker finds its process
// gone before any image tells, and does not have producers wait for it. Both lead: the one that is
// killed partition 1.
func TestARefusedConnectionIsHeardBeforeTheImage(t *testing.T) {
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
			// a network that is cut says nothing of the process
			if !refused && took < lagMaxDefault/2 {
				t.Errorf("dropped after %v without a sign that it has ended", took)
			}
			if isr := n.isr(); !slices.Equal(isr, []int32{1, 2}) {
				t.Errorf("in sync: %v", isr)
			}
		})
	}
}

// TestAFalseSignOfAnEndIsTakenBack with the next fetch, and said once: no broker flaps because it
// cannot be reached from one side.
func TestAFalseSignOfAnEndIsTakenBack(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		of := metadata.InSync{Broker: 3, Epoch: n.meta.epochs[3]}
		n.nodes[1].processEnded(of)
		n.mustProduce(1, "b")
		n.settle(2 * time.Second)
		n.apply()
		n.settle(2 * time.Second)
		if isr := n.isr(); !slices.Equal(isr, []int32{1, 2, 3}) {
			t.Errorf("in sync: %v", isr)
		}
		if changes := len(n.meta.calls); changes > 2 {
			t.Errorf("%d changes of the in-sync replicas, want at most one out and one in: %v",
				changes, n.meta.calls)
		}
	})
}

// TestJoiningUnderLoad: a follower comes into the ISR while the leader is never idle.
func TestJoiningUnderLoad(t *testing.T) {
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
			t.Error("it never joined")
		})
}

// TestMinInSync: acks=all is refused below the minimum; what waits then is told; consumers see no
// more than what is on enough replicas.
func TestMinInSync(t *testing.T) {
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
			t.Fatal("still waits")
		}
		if r := <-waits; !errors.Is(r.Err, ErrNotEnoughReplicasAfterAppend) {
			t.Errorf("waiting: %v", r.Err)
		}
		if r := n.produce(1, "c"); !errors.Is(r.Err, ErrNotEnoughReplicas) {
			t.Errorf("after that: %v", r.Err)
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
			t.Errorf("with two again: high watermark %d", hw)
		}
		n.mustProduce(1, "e")
		n.equal(1, 2)
	})
}

// TestUnknownOutcomeCountsBothSets: the answer to a change is lost. Whether it was made or not, the
// high watermark waits for the union.
func TestUnknownOutcomeCountsBothSets(t *testing.T) {
	inCluster(t, 3, func(topic *metadata.Topic) { topic.Partitions[0].ISR = []int32{1, 2} },
		func(t *testing.T, n *nodes) {
			n.meta.mu.Lock()
			n.meta.lose = 1
			n.meta.mu.Unlock()
			n.settle(100 * time.Millisecond)
			if isr := n.isr(); !slices.Equal(isr, []int32{1, 2, 3}) {
				t.Fatalf("on record: %v", isr)
			}
			release := n.nodes[3].pace() // in sync on record, and the leader was not told
			n.settle(600 * time.Millisecond)
			acked := make(chan ProduceResult, 1)
			go func() { acked <- n.produce(1, "a") }()
			synctest.Wait()
			if len(acked) != 0 {
				t.Fatal("acknowledged without a broker that is in sync on record")
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

// TestAnOutageOfTheMetadataIsToldOnce, and its end, however many partitions want a change
// meanwhile, and however often they try.
func TestAnOutageOfTheMetadataIsToldOnce(t *testing.T) {
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
		if begins, all := n.said.count("in-sync replicas cannot be changed"),
			n.said.count("level=WARN"); begins != 1 || all != begins {
			t.Errorf("the begin is told %d times, among %d warnings", begins, all)
		}
		outage(nil)
		n.settle(time.Minute)
		if ends := n.said.count("in-sync replicas can be changed again"); ends != 1 {
			t.Errorf("the end is told %d times", ends)
		}
	})
}

// TestZombieAcknowledgesNothing: cut off from the metadata it serves on, and its followers have
// gone.
func TestZombieAcknowledgesNothing(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.change(func(p *metadata.Partition) {
			p.Leader, p.LeaderEpoch, p.ISR = 2, 2,
				[]int32{2, 3}
		})
		n.apply(2, 3)
		results := make(chan ProduceResult, 1)
		go func() { results <- n.produce(1, "zombie") }()
		n.settle(3 * lagMaxDefault)
		if r := n.log(1); r.HighWatermark() != 1 || len(results) != 0 {
			t.Errorf("high watermark %d, %d answers", r.HighWatermark(), len(results))
		}
		n.mustProduce(2, "b")
		n.settle(time.Minute)
		if r := <-results; !errors.Is(r.Err, ErrTimeout) {
			t.Errorf("the zombie says %v", r.Err)
		}
	})
}

// TestRestartInTheSameEpoch: a leader that comes up again before anybody elected must not go on
// where it was.
func TestRestartInTheSameEpoch(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.crash(1, false)
		n.start(1)
		served, err := n.nodes[1].Apply(n.meta.image())
		if !errors.Is(err, errOldEpoch) || len(served) != 1 || !served[0].Ahead {
			t.Errorf("served %v, %v", served, err)
		}
		if r := n.produce(1, "b"); r.Err == nil {
			t.Error("appended")
		}
		n.elect(1, 1, 2)
		n.mustProduce(1, "c")
		n.equal(1, 2)
	})
}
