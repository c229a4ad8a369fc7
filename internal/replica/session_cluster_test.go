package replica

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// manyPartitions gives the topic more partitions, alike.
func manyPartitions(count int) func(*metadata.Topic) {
	return func(topic *metadata.Topic) {
		for len(topic.Partitions) < count {
			p := *topic.Partitions[0]
			p.Index = int32(len(topic.Partitions))
			topic.Partitions = append(topic.Partitions, &p)
		}
	}
}

// TestIdlePartitionsAreNotNamed: a record costs its own partition, and idle ones cost nothing,
// however many there are.
func TestIdlePartitionsAreNotNamed(t *testing.T) {
	inCluster(t, 3, manyPartitions(40), func(t *testing.T, n *nodes) {
		n.settle(5 * time.Second)
		before := n.nodes[2].named.Load()
		const records = 20
		for range records {
			n.mustProduce(1, "x")
		}
		n.settle(5 * time.Second)
		// its end, its high watermark
		if named := n.nodes[2].named.Load() - before; named > 3*records {
			t.Errorf("%d partitions were named for %d records of one", named, records)
		}
		before = n.nodes[2].named.Load()
		n.settle(time.Minute)
		if named := n.nodes[2].named.Load() - before; named != 0 {
			t.Errorf("%d partitions were named in an idle minute", named)
		}
	})
}

// TestIdleFollowersStayInSync, for however long nobody writes; one that is gone goes in time once
// somebody does.
func TestIdleFollowersStayInSync(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Hour)
		n.nodes[3].cut.Store(true) // it was caught up at its last fetch: a moment ago
		begin := time.Now()
		n.mustProduce(1, "b")
		if took := time.Since(begin); took < lagMaxDefault-time.Second || took > lagMaxDefault+
			3*time.Second {
			t.Errorf("a follower that was there a moment ago is out of sync after %v", took)
		}
		if isr := n.isr(); !slices.Equal(isr, []int32{1, 2}) {
			t.Errorf("in sync: %v", isr)
		}
		n.nodes[3].cut.Store(false)
		n.settle(10 * time.Second)
		if isr := n.isr(); !slices.Equal(isr, []int32{1, 2, 3}) {
			t.Errorf("in sync: %v", isr)
		}
		n.nodes[3].cut.Store(true)
		n.settle(time.Hour) // nobody writes, so it misses nothing
		begin = time.Now()
		n.mustProduce(1, "c")
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("a follower that has been away for an hour is waited for: %v", took)
		}
	})
}

// TestAFalseSignOfAnEndIsTakenBackByAnIdleFollower: it names nothing, and is heard all the same.
func TestAFalseSignOfAnEndIsTakenBackByAnIdleFollower(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Minute)
		n.nodes[1].processEnded(metadata.InSync{Broker: 3, Epoch: n.meta.epochs[3]})
		n.settle(3 * time.Second)
		if isr := n.isr(); !slices.Equal(isr, []int32{1, 2, 3}) {
			t.Errorf("in sync: %v", isr)
		}
	})
}

// TestANewLeaderEpochIsFollowedAtOnce, and by the connection that there is.
func TestANewLeaderEpochIsFollowedAtOnce(t *testing.T) {
	inCluster(t, 3, manyPartitions(3), func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second + 100*time.Millisecond)
		dials := n.nodes[2].dials.Load()
		n.elect(1, 1, 2, 3)
		begin := time.Now()
		n.mustProduce(1, "b")
		if took := time.Since(begin); took > 10*time.Millisecond {
			t.Errorf("acknowledged after %v", took)
		}
		if more := n.nodes[2].dials.Load() - dials; more != 0 {
			t.Errorf("%d connections were made", more)
		}
	})
}

// TestALostSessionIsMadeAnew at once, without another connection.
func TestALostSessionIsMadeAnew(t *testing.T) {
	inCluster(t, 3, manyPartitions(3), func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		dials := n.nodes[2].dials.Load()
		for range 5 {
			leader := n.nodes[1].Set
			leader.sessions.table.each(func(in *session) { leader.endSession(in) })
			begin := time.Now()
			n.mustProduce(1, "b")
			if took := time.Since(begin); took > 10*time.Millisecond {
				t.Errorf("acknowledged after %v", took)
			}
		}
		if more := n.nodes[2].dials.Load() - dials; more != 0 {
			t.Errorf("%d connections were made", more)
		}
		n.equal(1, 2, 3)
	})
}

// TestAPartitionThatFailsDoesNotCountAsCaughtUp: a follower that asks for others, and for it no
// more, says nothing of it.
func TestAPartitionThatIsForgottenDoesNotCountAsCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, req := caughtUp(t, 2)
		for i := range req.Partitions {
			req.Partitions[i].HighWater = 1
		}
		topic := req.Partitions[0].Topic
		req = inSession(t, s, req)
		req.Forgotten = []PartitionKey{{Topic: topic, Index: 1}}
		for range 60 { // a minute of fetches that name nothing
			next(t, s, &req)
			time.Sleep(time.Second)
		}
		for i, want := range []time.Duration{time.Second, time.Minute} {
			p, r, err := s.leader(id("a", int32(i)), -1)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := p.log.Append(batch(t, "x"), time.Now()); err != nil {
				t.Fatal(err)
			}
			r.reign.advance(time.Now())
			if ago := time.Since(r.reign.mu.isr.members[2].caughtUp); ago != want {
				t.Errorf("partition %d: caught up %v ago, want %v", i, ago, want)
			}
		}
	})
}
