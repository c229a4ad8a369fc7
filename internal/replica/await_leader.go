package replica

import (
	"context"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

const (
	// leaderWaitMax limits how long a produce request waits for this broker to become the leader.
	// It is longer than the metadata of two brokers usually differs, and shorter than the backoff
	// of franz-go after NOT_LEADER_OR_FOLLOWER.
	leaderWaitMax = 200 * time.Millisecond
	// formerLeaderPeriod is how long clients may still have metadata in which this broker leads
	// after another broker became the leader. Clients that write more often learn of it earlier.
	formerLeaderPeriod = 10 * time.Second
	// expiredWaitPeriod is how long requests are refused without a wait after a wait has expired. A
	// client with old metadata has several requests in flight, for different partitions, and a
	// connection handles them one after the other.
	expiredWaitPeriod = time.Second
)

// AwaitLeader waits, for at most 200 ms, until this broker leads those of the partitions that it is
// about to lead. Produce requests call it before Append. A client that learned of a new leader from
// another broker may reach the new leader before the metadata does. Without the wait, the client
// would receive NOT_LEADER_OR_FOLLOWER and send its records again after a backoff, which is longer
// than the wait (ADR 0306).
//
// A request contains no leader epoch. So AwaitLeader infers from the state of the partition whether
// the client's metadata may be newer than this broker's (see mayLeadSoon). It returns early if ctx
// ends.
func (s *Set) AwaitLeader(ctx context.Context, partitions []ProducePartition) {
	var expected []PartitionID
	for i := range partitions {
		if s.mayLeadSoon(partitions[i].ID) {
			expected = append(expected, partitions[i].ID)
		}
	}
	if len(expected) == 0 {
		return
	}
	op := &delayedLeader{set: s, partitions: expected, done: make(chan struct{})}
	wait(ctx, s.produces.Wait(op, leaderWaitMax, expected...), nil, op.done)
	if op.expired && ctx.Err() == nil {
		s.refusedUntil.extend(expiredWaitPeriod)
	}
}

// mayLeadSoon reports whether a client that sends records here may know of a later leader epoch, in
// which this broker leads. This is so if this broker follows and the client is unlikely to have old
// metadata. It does not matter whether the broker is in the ISR: at the end of a reassignment, a
// new replica joins the ISR and is elected within milliseconds.
func (s *Set) mayLeadSoon(id PartitionID) bool {
	p := s.view.Load().partitions[id]
	if p == nil {
		return false
	}
	return p.role.Load().mayFollow() &&
		time.Now().UnixNano() >= max(p.refusedUntil.Load(), s.refusedUntil.Load())
}

// deadline is a time, in Unix nanoseconds, until which produce requests for partitions that this
// broker does not lead fail without a wait.
type deadline struct{ atomic.Int64 }

func (d *deadline) extend(by time.Duration) { d.Store(time.Now().Add(by).UnixNano()) }

// KnownLeader returns the leader of a partition, or metadata.NoBroker, and its leader epoch, in the
// latest image that Apply has begun to apply. Apply changes roles and releases logs before requests
// use that image. The result ok is false if the image has no partition with this id in the topic
// with the given id.
func (s *Set) KnownLeader(id PartitionID, topic metadata.ID) (leader, epoch int32, ok bool) {
	img := s.latest.Load()
	if img == nil {
		return metadata.NoBroker, -1, false
	}
	t := img.Topic(id.Topic)
	if t == nil || t.ID != topic || id.Index < 0 || int(id.Index) >= len(t.Partitions) {
		return metadata.NoBroker, -1, false
	}
	p := t.Partitions[id.Index]
	return p.Leader, p.LeaderEpoch, true
}

// delayedLeader is a produce request that waits until this broker leads its partitions.
type delayedLeader struct {
	set        *Set
	partitions []PartitionID
	expired    bool // written before done is closed
	done       chan struct{}
}

// TryComplete implements timer.Operation.
func (d *delayedLeader) TryComplete() bool {
	for _, id := range d.partitions {
		if d.set.mayLeadSoon(id) {
			return false
		}
	}
	close(d.done)
	return true
}

// Expire implements timer.Operation.
func (d *delayedLeader) Expire() {
	d.expired = true
	close(d.done)
}
