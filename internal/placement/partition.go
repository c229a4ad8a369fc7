package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// NoLeader is the leader of a partition that has none, as Kafka's Metadata API has it.
const NoLeader int32 = -1

// Partition is what is decided about a partition. It is a value: Decide and ChangeISR return
// another, and share no list with the one that they were given.
//
// Invariants of what they return: Replicas has no id twice; ISR is part of Replicas, no broker
// twice; Leader is NoLeader or one of ISR; ISR is empty only before the first election; Assignments
// has replicas only.
type Partition struct {
	Replicas []int32 // who hold a log; the preferred leader first
	// where the replicas are to be, the preferred leader first; nil: where they are
	Target []int32
	// ReplicaIncarnations names, of each replica, the time that it is one: taken off and put on again it
	// has another name, and what it kept of the time before counts for nothing (ADR 0185). One that
	// is missing became a replica before there were names.
	ReplicaIncarnations map[int32]string
	Leader              int32 // NoLeader: offline
	// LeaderEpoch grows by one whenever Leader, or the incarnation that leads, changes, also to
	// NoLeader: who led before, and lives on unseen, must not go on under a valid epoch.
	LeaderEpoch int32
	// UnprovenEpoch is the latest leader epoch whose leader was elected without proof that it has
	// every acknowledged record; 0: none was. Behind its beginning a log of before may hold what is
	// no more, also below a high watermark (ADR 0186).
	UnprovenEpoch int32
	ISR           []InSyncReplica // who has every acknowledged record; empty before the first election
	// LeaderDirectory is the disk that the leader was elected with, also after it went down; ""
	// when not known.
	LeaderDirectory string
	// FoundEpoch is the latest epoch that the leader's log knows, when it says that it is ahead of
	// LeaderEpoch; nil: it does not. The next election is above it.
	FoundEpoch *int32
}

// InSyncReplica is an in-sync replica: a broker in the incarnation in which it was in sync.
type InSyncReplica struct {
	Broker    int32
	Epoch     int64
	Directory string // of its disk; "" when not known, which proves nothing
}

// Fenced tells whether a member's incarnation has ended for good, and without an orderly stop: its
// broker is there in a later one, on the same disk. No two processes hold a disk at once, so it is
// not alive unseen; and no election takes it, or a later one in its place, for intact. So its
// leader may go on without it before that is on record (ADR 0213). Of another disk nothing is
// proven.
func (m InSyncReplica) Fenced(b BrokerState) bool {
	return b.Epoch > m.Epoch && b.CleanEpoch != m.Epoch && m.Directory != "" &&
		m.Directory == b.Directory
}

// Liveness is what is known of a broker's being up.
type Liveness int

const (
	// Down is that it stopped or was killed, or was never there.
	Down Liveness = iota
	// Unknown is that nobody can tell. It keeps what it has and is given nothing.
	Unknown
	// Up is that it lives.
	Up
)

// BrokerState is what an election looks at of a broker. The zero value is a broker that nobody has
// seen.
type BrokerState struct {
	Liveness Liveness
	Epoch    int64 // incarnation
	// the incarnation whose orderly stop left the disk as it is; -1: none. Incarnations are 0 or
	// more
	CleanEpoch int64
	Directory  string // of its disk; "" when it does not say
	Leaving    bool   // it shuts down in order, and is to lead nothing more
	// AddressStaleFor is how much longer clients may look for the broker where it was before; 0: they
	// find it. Of several that may lead the most settled does.
	AddressStaleFor time.Duration
}

// ErrConflict is wrapped by ChangeISR when the proposal is about another state of the partition, or
// of a member.
var ErrConflict = errors.New("in-sync replicas have changed meanwhile")

// Proposal is a leader's, to change the in-sync replicas (KIP-497, KIP-903).
type Proposal struct {
	LeaderEpoch int32
	From        []int32 // the ISR as the leader knows it, in any order
	To          []InSyncReplica
	// of the members, as the leader knows them; one that is missing has none
	ReplicaIncarnations map[int32]string
}

// ChangeISR returns the partition with the ISR that its leader proposes. It fails, with
// ErrConflict, when leader epoch or ISR are not those that the leader means, who may or may not
// count those that have ended, or a member is not the incarnation that lives, or is a replica by
// another assignment than the one that the leader heard it in, or one that joins leaves the
// cluster: it would be out again at once, and must not hold the leadership that it gives away. A
// member that leaves may stay, since what it has still counts.
func ChangeISR(p Partition, proposal Proposal, brokers map[int32]BrokerState) (Partition, error) {
	switch {
	case p.Leader == NoLeader || proposal.LeaderEpoch != p.LeaderEpoch:
		return p, fmt.Errorf("%w: leader epoch is %d, the proposal is of %d", ErrConflict,
			p.LeaderEpoch, proposal.LeaderEpoch)
	case !sameIDs(ids(p.ISR), proposal.From) && !sameIDs(ids(p.UnfencedISR(brokers)), proposal.From):
		return p, fmt.Errorf("%w: they are %v, the proposal is about %v", ErrConflict, ids(p.ISR),
			proposal.From)
	}
	next := make([]InSyncReplica, 0, len(proposal.To))
	for _, m := range proposal.To {
		standing := brokers[m.Broker]
		switch {
		case !slices.Contains(p.Replicas, m.Broker) || slices.Contains(ids(next), m.Broker):
			return p, fmt.Errorf("%w: broker %d holds no replica, or comes twice", ErrConflict,
				m.Broker)
		case proposal.ReplicaIncarnations[m.Broker] != p.ReplicaIncarnations[m.Broker]:
			return p, fmt.Errorf("%w: broker %d is a replica by another assignment", ErrConflict,
				m.Broker)
		case standing.Liveness != Up || standing.Epoch != m.Epoch:
			return p, fmt.Errorf("%w: broker %d does not live in incarnation %d", ErrConflict,
				m.Broker, m.Epoch)
		case standing.Leaving && !slices.Contains(proposal.From, m.Broker):
			return p, fmt.Errorf("%w: broker %d leaves", ErrConflict, m.Broker)
		}
		m.Directory = standing.Directory
		next = append(next, m)
	}
	if !slices.Contains(ids(next), p.Leader) {
		return p, fmt.Errorf("%w: the leader %d is not among %v", ErrConflict, p.Leader, ids(next))
	}
	p = p.clone()
	p.ISR = next
	return p, nil
}

// UnfencedISR are the in-sync replicas without those whose incarnation has ended for good. The leader
// leaves by an election only.
func (p Partition) UnfencedISR(brokers map[int32]BrokerState) []InSyncReplica {
	return slices.DeleteFunc(slices.Clone(p.ISR),
		func(m InSyncReplica) bool { return m.Broker != p.Leader && m.Fenced(brokers[m.Broker]) })
}

// clone copies the lists that decisions write into.
func (p Partition) clone() Partition {
	p.Replicas, p.Target, p.ISR = slices.Clone(p.Replicas), slices.Clone(p.Target),
		slices.Clone(p.ISR)
	p.ReplicaIncarnations = maps.Clone(p.ReplicaIncarnations)
	return p
}

// ids of members, in their order.
func ids(members []InSyncReplica) []int32 {
	all := make([]int32, len(members))
	for i, m := range members {
		all[i] = m.Broker
	}
	return all
}

// sameIDs compares as sets; neither holds an id twice.
func sameIDs(a, b []int32) bool {
	return len(a) == len(b) &&
		!slices.ContainsFunc(a, func(id int32) bool { return !slices.Contains(b, id) })
}
