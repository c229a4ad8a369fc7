package replica

import (
	"context"
	"sync/atomic"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

const (
	// leaderWaitMax limits how long a produce request waits for this broker to become the leader. It
	// is longer than the usual time between the receipt of an image by two brokers, and shorter than
	// franz-go's backoff after NOT_LEADER_OR_FOLLOWER.
	leaderWaitMax = 200 * time.Millisecond
	// formerLeaderPeriod is how long after the election of another leader clients may still have
	// metadata that name this broker. Clients that write often learn of the new leader earlier.
	formerLeaderPeriod = 10 * time.Second
	// expiredWaitPeriod is how long requests are refused without a wait after a wait has expired. A
	// client with old metadata has several requests in flight, for different partitions, and a
	// connection handles them one after the other.
	expiredWaitPeriod = time.Second
)

// AwaitLeader waits until this broker leads the partitions that it is about to lead, for at most
// leaderWaitMax. Produce requests call AwaitLeader before Append. A client that learned of a new
// leader from another broker may reach the new leader before the metadata do. Without the wait, the
// client would receive NOT_LEADER_OR_FOLLOWER and send its records again after a backoff, which is
// longer than the wait (ADR 0306).
//
// A produce request contains no leader epoch. So AwaitLeader infers from the partition's state
// whether the client's metadata may be newer than this broker's (see mayLeadSoon). AwaitLeader
// returns early if ctx ends.
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

// mayLeadSoon reports whether a client that sends records to this broker may know of a later leader
// epoch, in which this broker leads. It returns true if this broker follows the partition, and the
// client is unlikely to have old metadata. Whether the broker is in the ISR does not matter: at the
// end of a reassignment, a new replica joins the ISR and is elected within milliseconds.
func (s *Set) mayLeadSoon(id PartitionID) bool {
	p := s.view.Load().partitions[id]
	if p == nil {
		return false
	}
	return p.role.Load().mayFollow() &&
		time.Now().UnixNano() >= max(p.refusedUntil.Load(), s.refusedUntil.Load())
}

// deadline is a time in Unix nanoseconds. Before that time, produce requests for partitions that
// this broker does not lead fail without a wait.
type deadline struct{ atomic.Int64 }

func (d *deadline) extend(by time.Duration) { d.Store(time.Now().Add(by).UnixNano()) }

// KnownLeader returns a partition's leader, or metadata.NoBroker, and its leader epoch, from the
// latest image that Apply has begun to apply. Apply stores that image before it changes roles and
// releases logs. ok is false if the image has no partition with this id in the topic with the given
// id.
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
	expired    bool // set before done is closed
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
