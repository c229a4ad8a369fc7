package replica

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/record"
)

// inCluster runs a test in a synctest bubble, with count brokers and one partition, which broker 1
// leads.
func inCluster(t *testing.T, count int, change func(*metadata.Topic),
	test func(t *testing.T, n *nodes)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newNodes(t, count, change)) })
}

// TestAcksAllIsOnEveryReplica checks that an acknowledged record is on every replica. The append
// wakes the followers, so the produce request must take no time on the bubble's clock.
func TestAcksAllIsOnEveryReplica(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.settle(time.Second)
		begin := time.Now()
		for range 20 {
			n.mustProduce(1, "x", "y")
			n.equal(1, 2, 3)
		}
		if took := time.Since(begin); took > 0 {
			t.Errorf("20 sequential produces took %v", took)
		}
		n.settle(time.Second)
		for _, id := range n.ids {
			if hw := n.log(id).HighWatermark(); hw != 40 {
				t.Errorf("broker %d: high watermark %d, want 40", id, hw)
			}
		}
	})
}

// TestDivergentTailsAreTruncated checks that a former leader that follows the new leader truncates
// the records that only it has.
func TestDivergentTailsAreTruncated(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a", "b")
		n.nodes[1].disconnected.Store(true)
		n.settle(time.Second)
		lost := make(chan ProduceResult, 1)
		go func() { lost <- n.produce(1, "lost", "lost", "lost") }()
		synctest.Wait()
		n.change(func(p *metadata.Partition) {
			p.Leader, p.LeaderEpoch, p.ISR = 2, 2,
				[]int32{2, 3}
		})
		n.apply(2, 3)
		n.settle(time.Second)
		n.mustProduce(2, "c")
		if n.log(1).LogEnd() != 5 || n.log(1).HighWatermark() != 2 {
			t.Errorf("old leader: log end %d, high watermark %d", n.log(1).LogEnd(),
				n.log(1).HighWatermark())
		}
		n.nodes[1].disconnected.Store(false)
		n.apply(1)
		if r := <-lost; !errors.Is(r.Err, ErrNotLeader) {
			t.Errorf("the old leader's produce: %v", r.Err)
		}
		n.settle(3 * time.Second)
		n.apply()
		n.equal(1, 2, 3)
		n.wantISR(1, 2, 3)
		n.mustProduce(2, "d")
		n.equal(1, 2, 3)
	})
}

// TestRestartWithLostTail checks that a follower that has lost its unsynced records copies them
// again after a restart. The leader must not confuse the follower's new broker epoch with the old
// one, which is in the ISR.
func TestRestartWithLostTail(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		for range 5 {
			n.mustProduce(1, "x")
		}
		n.crash(2, true)
		n.start(2)
		n.nodes[2].disconnected.Store(true)
		n.apply()
		n.settle(time.Second)
		if end := n.log(2).LogEnd(); end == 5 {
			t.Skip("the disk lost nothing")
		}
		// The leader proposes to remove broker 3. That update must not list broker 2.
		n.crash(3, false)
		n.apply(1, 2)
		n.settle(time.Second)
		for _, change := range n.meta.updates {
			if slices.ContainsFunc(change.To,
				func(m metadata.InSync) bool { return m.Broker == 2 && m.Epoch == 2 }) {
				t.Errorf("update %+v lists broker 2, whose log end is %d", change,
					n.log(2).LogEnd())
			}
		}
		n.nodes[2].disconnected.Store(false)
		n.start(3)
		n.apply()
		n.settle(3 * lagMaxDefault)
		n.mustProduce(1, "y")
		n.equal(1, 2, 3)
		n.wantISR(1, 2, 3)
	})
}

// TestFollowersAdoptTheLogStart checks that, after DeleteRecords has moved the leader's log start
// into the middle of a batch, a follower in sync adopts the log start, and an empty replica begins
// its log there.
func TestFollowersAdoptTheLogStart(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.nodes[3].disconnected.Store(true)
		n.settle(600 * time.Millisecond)
		n.change(func(p *metadata.Partition) { p.ISR = []int32{1, 2} })
		n.apply()
		n.settle(time.Second)
		n.crash(3, false)
		n.apply(1, 2)
		n.mustProduce(1, "a", "b", "c", "d")
		n.mustProduce(1, "e", "f")
		n.settle(time.Second)
		if err := n.log(1).DeleteBefore(2); err != nil {
			t.Fatal(err)
		}
		n.mustProduce(1, "g")
		n.settle(time.Second)
		if start := n.log(2).LogStart(); start != 2 {
			t.Errorf("the follower's log start is %d, want 2", start)
		}
		n.nodes[3].disconnected.Store(false)
		n.start(3)
		n.apply()
		n.settle(3 * time.Second)
		n.mustProduce(1, "h")
		n.settle(time.Second)
		n.equal(1, 2)
		if n.log(3).LogStart() != 2 || n.log(3).LogEnd() != 8 {
			t.Errorf("the empty follower has [%d, %d), want [2, 8)", n.log(3).LogStart(),
				n.log(3).LogEnd())
		}
		n.wantISR(1, 2, 3)
	})
}

func TestEmptyFollowerCopiesManySegments(t *testing.T) {
	small := func(topic *metadata.Topic) {
		topic.Settings.SegmentBytes = 1024
		topic.Partitions[0].ISR = []int32{1}
	}
	inCluster(t, 2, small, func(t *testing.T, n *nodes) {
		n.nodes[2].disconnected.Store(true)
		n.settle(time.Second)
		for range 300 {
			n.mustProduce(1, "0123456789012345678901234567890123456789")
		}
		n.nodes[2].disconnected.Store(false)
		n.settle(2 * time.Second)
		n.equal(1, 2)
		n.wantISR(1, 2)
	})
}

// TestProducerStateSurvivesFailover checks that the new leader recognizes a repetition of each of a
// producer's last five batches, and returns the offset of the first append.
func TestProducerStateSurvivesFailover(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		var batches [][]byte
		for i := range int32(7) {
			b := batchOf(t, record.Identity{ProducerID: 9, ProducerEpoch: 0, BaseSequence: i}, "x")
			batches = append(batches, slices.Clone(b))
			r := n.nodes[1].Append(AcksAll,
				[]ProducePartition{{ID: partitionA, Batch: b}}).Wait(t.Context(), time.Minute)[0]
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		n.crash(1, true)
		n.elect(2, 2)
		for i := 2; i < 7; i++ {
			r := n.nodes[2].Append(AcksAll,
				[]ProducePartition{{ID: partitionA,
					Batch: slices.Clone(batches[i])}}).Wait(t.Context(), time.Minute)[0]
			if r.Err != nil || !r.Appended.Duplicate || r.Appended.BaseOffset != int64(i) {
				t.Errorf("repeated batch %d: %+v, %v", i, r.Appended, r.Err)
			}
		}
	})
}

// TestQuirk7ConsumersReadFromFollowers checks that a follower serves records below its high
// watermark, with the leader's epoch. It must not answer that an offset is out of range if it has
// only not copied it yet.
func TestQuirk7ConsumersReadFromFollowers(t *testing.T) {
	inCluster(t, 2, nil, func(t *testing.T, n *nodes) {
		n.meta.racks[1], n.meta.racks[2] = "east", "west"
		n.apply()
		n.mustProduce(1, "a", "b")
		n.settle(10 * time.Millisecond)
		fetchFrom := func(id int32, rack string, offset int64) FetchResult {
			req := fetch(0, offset, partitionA)
			req.AnyReplica, req.Rack = true, rack
			return n.nodes[id].Fetch(t.Context(), req)[0]
		}
		if r := fetchFrom(1, "west", 0); r.Err != nil || r.PreferredReplica != 2 ||
			r.Data.Length != 0 {
			t.Errorf("preferred replica of a consumer in the west: %d, %v", r.PreferredReplica,
				r.Err)
		}
		for _, rack := range []string{"east", "", "north"} {
			if r := fetchFrom(1, rack, 0); r.PreferredReplica != metadata.NoBroker ||
				!slices.Equal(values(t, r), []string{"a", "b"}) {
				t.Errorf("rack %q: preferred replica %d", rack, r.PreferredReplica)
			}
		}
		if r := fetchFrom(2, "west", 1); !slices.Equal(values(t, r), []string{"a", "b"}) ||
			r.HighWater != 2 {
			t.Errorf("the follower returned %+v", r)
		}
		if r := fetchFrom(2, "west", 3); !errors.Is(r.Err, ErrOffsetNotAvailable) {
			t.Errorf("above its log end: %v", r.Err)
		}
		for _, known := range []struct {
			offset int64
			epoch  int32 // leader epoch of the record before offset
		}{{3, 1}, {2, 2}} { // the follower cannot decide whether the logs diverge at this offset
			req := fetch(0, known.offset, partitionA)
			req.AnyReplica, req.Partitions[0].LastEpoch = true, known.epoch
			if r := n.nodes[2].Fetch(t.Context(), req)[0]; !errors.Is(r.Err,
				ErrOffsetNotAvailable) || r.Diverging != nil {
				t.Errorf("after %+v: %v, diverges at %+v", known, r.Err, r.Diverging)
			}
		}
		if r := n.nodes[2].Fetch(t.Context(), fetch(0, 0, partitionA))[0]; !errors.Is(r.Err,
			ErrNotLeader) {
			t.Errorf("a consumer that accepts only the leader: %v", r.Err)
		}
	})
}

// TestCatchUpIsThrottled checks that the catch-up rate limits a replica outside the ISR, and does
// not limit replicas in sync.
func TestCatchUpIsThrottled(t *testing.T) {
	inCluster(t, 3, func(topic *metadata.Topic) { topic.Partitions[0].ISR = []int32{1, 2} },
		func(t *testing.T, n *nodes) {
			n.nodes[3].disconnected.Store(true)
			n.settle(time.Second)
			n.nodes[1].catchUp.setRate(followerPartitionBytesMax)
			large := strings.Repeat("x", 100_000)
			for range 60 {
				n.mustProduce(1, large)
			}
			n.equal(1, 2)
			begin := time.Now()
			n.nodes[3].disconnected.Store(false)
			for range 100 {
				n.settle(200 * time.Millisecond)
				if n.log(3).LogEnd() == n.log(1).LogEnd() {
					break
				}
			}
			n.equal(1, 3)
			if took := time.Since(begin); took < 4*time.Second || took > 15*time.Second {
				t.Errorf("6 MB at 1 MiB a second took %v", took)
			}
		})
}
