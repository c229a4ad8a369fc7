package replica

import (
	"context"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// leaderWaitMax limits how long a produce request waits for this broker to become the leader. It is
// longer than the metadata of two brokers usually differ, and shorter than the backoff of franz-go
// after NOT_LEADER_OR_FOLLOWER.
const leaderWaitMax = 200 * time.Millisecond

// AwaitLeader waits, for at most 200 ms, until this broker leads those of the partitions that it is
// about to lead. Produce requests call it before Append. A client that learned of a new leader from
// another broker may reach the new leader before the metadata does. It would get
// NOT_LEADER_OR_FOLLOWER and send its records again after a backoff, which is longer than the wait
// (ADR 0306).
//
// A request names no leader epoch, so AwaitLeader infers from the roles whether the client's
// metadata is newer than this broker's (see role.mayLeadSoon). It returns early if ctx ends.
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
}

func (s *Set) mayLeadSoon(id PartitionID) bool {
	p := s.view.Load().partitions[id]
	return p != nil && p.role.Load().mayLeadSoon()
}

// KnownLeader returns the leader of a partition and its leader epoch. They are those of this
// broker's role, which may be newer than the image that Apply was called with before. The result ok
// is false if this broker has no replica of the partition, or if the partition has no leader.
func (s *Set) KnownLeader(id PartitionID) (leader, epoch int32, ok bool) {
	p := s.view.Load().partitions[id]
	if p == nil {
		return metadata.NoBroker, -1, false
	}
	r := p.role.Load()
	return r.leader, r.epoch, r.leader != metadata.NoBroker
}

// delayedLeader is a produce request that waits until this broker leads its partitions.
type delayedLeader struct {
	set        *Set
	partitions []PartitionID
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
func (d *delayedLeader) Expire() { close(d.done) }
