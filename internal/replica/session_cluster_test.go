package replica

import (
	"testing"
	"testing/synctest"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
)

// manyPartitions adds identical partitions to the topic.
func manyPartitions(count int) func(*metadata.Topic) {
	return func(topic *metadata.Topic) {
		for len(topic.Partitions) < count {
			p := *topic.Partitions[0]
			p.Index = int32(len(topic.Partitions))
			topic.Partitions = append(topic.Partitions, &p)
		}
	}
}

// TestFetchesOmitIdlePartitions checks that, after an append, fetches name only the partition with
// the new record, however many idle partitions there are.
func TestFetchesOmitIdlePartitions(t *testing.T) {
	inCluster(t, 3, manyPartitions(40), func(t *testing.T, n *nodes) {
		n.settle(5 * time.Second)
		before := n.nodes[2].named.Load()
		const records = 20
		for range records {
			n.mustProduce(1, "x")
		}
		n.settle(5 * time.Second)
		// For each record the follower reports a new log end and a new high watermark.
		if named := n.nodes[2].named.Load() - before; named > 3*records {
			t.Errorf("%d partitions were named for %d records of one partition", named, records)
		}
		before = n.nodes[2].named.Load()
		n.settle(time.Minute)
		if named := n.nodes[2].named.Load() - before; named != 0 {
			t.Errorf("%d partitions were named in an idle minute", named)
		}
	})
}

// TestIdleFollowersStayInSync checks that followers stay in the ISR while nothing is produced, and
// that a disconnected follower leaves the ISR soon after a record is produced.
func TestIdleFollowersStayInSync(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Hour)
		n.nodes[3].disconnected.Store(true) // its last fetch was a moment ago
		begin := time.Now()
		n.mustProduce(1, "b")
		if took := time.Since(begin); took < lagMaxDefault-time.Second || took > lagMaxDefault+
			3*time.Second {
			t.Errorf("a follower that fetched a moment ago left the ISR after %v", took)
		}
		n.wantISR(1, 2)
		n.nodes[3].disconnected.Store(false)
		n.settle(10 * time.Second)
		n.wantISR(1, 2, 3)
		n.nodes[3].disconnected.Store(true)
		n.settle(time.Hour) // without new records the follower lacks none, and stays in the ISR
		begin = time.Now()
		n.mustProduce(1, "c")
		if took := time.Since(begin); took > 2*time.Second {
			t.Errorf("waited %v for a follower that has been away for an hour", took)
		}
	})
}

// TestFalseExitSignIsRevertedByIdleFollower checks that the fetches of an idle follower, although
// they name no partition, correct the leader's wrong assumption that the follower's process has
// exited.
func TestFalseExitSignIsRevertedByIdleFollower(t *testing.T) {
	inCluster(t, 3, nil, func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Minute)
		n.nodes[1].processExited(metadata.InSync{Broker: 3, Epoch: n.meta.epochs[3]})
		n.settle(3 * time.Second)
		n.wantISR(1, 2, 3)
	})
}

// TestFollowersFetchInNewLeaderEpochAtOnce checks that, after an election of the same leader,
// followers fetch in the new leader epoch at once, over the existing connection.
func TestFollowersFetchInNewLeaderEpochAtOnce(t *testing.T) {
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
			t.Errorf("%d new connections", more)
		}
	})
}

// TestEvictedSessionIsReplacedAtOnce checks that a follower whose session was evicted starts a new
// one at once, over the existing connection.
func TestEvictedSessionIsReplacedAtOnce(t *testing.T) {
	inCluster(t, 3, manyPartitions(3), func(t *testing.T, n *nodes) {
		n.mustProduce(1, "a")
		n.settle(time.Second)
		dials := n.nodes[2].dials.Load()
		for range 5 {
			leader := n.nodes[1].Set
			for _, in := range leader.sessions.cache.all() {
				leader.sessions.close(in)
			}
			begin := time.Now()
			n.mustProduce(1, "b")
			if took := time.Since(begin); took > 10*time.Millisecond {
				t.Errorf("acknowledged after %v", took)
			}
		}
		if more := n.nodes[2].dials.Load() - dials; more != 0 {
			t.Errorf("%d new connections", more)
		}
		n.equal(1, 2, 3)
	})
}

// TestForgottenPartitionIsNotCaughtUp checks that a follower that has removed partition 1 from its
// session, and continues to fetch in the session, counts as caught up only in partition 0.
func TestForgottenPartitionIsNotCaughtUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, req := caughtUp(t, 2)
		for i := range req.Partitions {
			req.Partitions[i].HighWater = 1
		}
		topic := req.Partitions[0].Topic
		req = inSession(t, s, req)
		req.Forgotten = []session.Key{{Topic: topic, Index: 1}}
		for range 60 { // a minute of fetches that name no partition
			nextFetch(t, s, &req)
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
			r.leaderState.advance(time.Now())
			if ago := time.Since(r.leaderState.mu.isr.CaughtUpAt(2)); ago != want {
				t.Errorf("partition %d: caught up %v ago, want %v", i, ago, want)
			}
		}
	})
}
