package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// NoLeader is the value of Leader for a partition without a leader, as in Kafka's Metadata API.
const NoLeader int32 = -1

// Partition is the part of a partition's state that this package decides. It is a value: Decide and
// ChangeISR return another Partition, which shares no list with their argument.
//
// Invariants of the returned Partition: Replicas names no id twice. ISR is a subset of Replicas and
// names no broker twice. Leader is NoLeader or in ISR. ISR is empty only before the first election.
// ReplicaIncarnations has entries of Replicas only.
type Partition struct {
	Replicas []int32 // brokers that hold a log, the preferred leader first
	// Target is the assignment that a reassignment leads to, the preferred leader first; nil if
	// there is no reassignment.
	Target []int32
	// ReplicaIncarnations are the incarnation ids of the replicas. A broker that is removed from
	// Replicas and added again gets another id, and the log it kept from before is discarded (ADR
	// 0185). A replica without an entry was added by a version without incarnation ids.
	ReplicaIncarnations map[int32]string
	Leader              int32 // NoLeader if the partition is offline
	// LeaderEpoch grows by one whenever Leader or the leader's broker epoch changes, also to
	// NoLeader. A previous leader that is still running unobserved then has an outdated epoch.
	LeaderEpoch int32
	// UnprovenEpoch is the latest leader epoch that began with an unclean election; 0 if there was
	// none. Logs of earlier epochs may hold records beyond the start offset of UnprovenEpoch that
	// are no longer part of the partition, even below a high watermark (ADR 0186).
	UnprovenEpoch int32
	// ISR are the in-sync replicas, which have every acknowledged record; empty before the first
	// election.
	ISR []InSyncReplica
	// LeaderDirectory is the disk of the latest leader, also after it went down; "" if unknown.
	LeaderDirectory string
	// FoundEpoch is the latest leader epoch in the leader's log, if the leader reports that its log
	// is ahead of LeaderEpoch; nil otherwise. The next election uses a later epoch.
	FoundEpoch *int32
}

// InSyncReplica is a member of the ISR: a broker with the broker epoch in which it was in sync.
type InSyncReplica struct {
	Broker    int32
	Epoch     int64
	Directory string // directory id of the broker's disk; "" if unknown
}

// Fenced reports whether the process of a member's broker epoch has exited, and not gracefully: the
// broker is present with a later epoch on the same disk. Two processes never use a disk at the same
// time, so the earlier one is not running unobserved; and no election treats it or a later epoch as
// intact. So the leader may continue without the member before the change is recorded (ADR 0213).
// A later epoch on another disk does not prove that the process has exited.
func (m InSyncReplica) Fenced(b BrokerState) bool {
	return b.Epoch > m.Epoch && b.CleanEpoch != m.Epoch && m.Directory != "" &&
		m.Directory == b.Directory
}

// Liveness is the knowledge of whether a broker is running.
type Liveness int

const (
	// Down is a broker that has stopped, was killed, or never existed.
	Down Liveness = iota
	// Unknown is a broker that is proven neither up nor down. It keeps its leaderships and its
	// places in ISRs, and gets no new ones.
	Unknown
	// Up is a broker that is running.
	Up
)

// BrokerState is what an election knows about a broker. The zero value is a broker that was never
// observed.
type BrokerState struct {
	Liveness Liveness
	Epoch    int64 // broker epoch
	// CleanEpoch is the broker epoch whose graceful stop left the disk in its present state; -1 if
	// there is none. Broker epochs are 0 or more.
	CleanEpoch int64
	Directory  string // the broker's disk; "" if the broker does not name it
	Leaving    bool   // the broker is in controlled shutdown and must not become a leader
	// AddressStaleFor is how much longer clients may use the broker's previous address; 0 if they
	// have the current one. Of several eligible replicas, the one with the least is elected.
	AddressStaleFor time.Duration
}

// ErrConflict is wrapped by ChangeISR if the proposal is based on another state of the partition or
// of a member.
var ErrConflict = errors.New("the ISR has changed")

// Proposal is a leader's request to change the ISR (KIP-497, KIP-903).
type Proposal struct {
	LeaderEpoch int32
	From        []int32 // the ISR as the leader knows it, in any order
	To          []InSyncReplica
	// ReplicaIncarnations are the members' incarnation ids as the leader knows them; a member
	// without an entry has none.
	ReplicaIncarnations map[int32]string
}

// ChangeISR returns the partition with the ISR that its leader proposes. It fails with ErrConflict
// if
//   - the leader epoch or the ISR differs from that of the proposal. The proposal may include or
//     omit fenced members;
//   - a member is not up with its broker epoch, or has another replica incarnation id;
//   - a joining member is in controlled shutdown: it would be removed at once, and must not receive
//     the leadership that it is about to hand over. A member that is leaving may stay, because it
//     still has every acknowledged record.
func ChangeISR(p Partition, proposal Proposal, brokers map[int32]BrokerState) (Partition, error) {
	switch {
	case p.Leader == NoLeader || proposal.LeaderEpoch != p.LeaderEpoch:
		return p, fmt.Errorf("%w: the leader epoch is %d, the proposal has %d", ErrConflict,
			p.LeaderEpoch, proposal.LeaderEpoch)
	case !sameIDs(ids(p.ISR), proposal.From) && !sameIDs(ids(p.UnfencedISR(brokers)), proposal.From):
		return p, fmt.Errorf("%w: the ISR is %v, the proposal is based on %v", ErrConflict,
			ids(p.ISR),
			proposal.From)
	}
	next := make([]InSyncReplica, 0, len(proposal.To))
	for _, m := range proposal.To {
		broker := brokers[m.Broker]
		switch {
		case !slices.Contains(p.Replicas, m.Broker) || slices.Contains(ids(next), m.Broker):
			return p, fmt.Errorf("%w: broker %d is not a replica or is named twice", ErrConflict,
				m.Broker)
		case proposal.ReplicaIncarnations[m.Broker] != p.ReplicaIncarnations[m.Broker]:
			return p, fmt.Errorf("%w: broker %d has another replica incarnation id", ErrConflict,
				m.Broker)
		case broker.Liveness != Up || broker.Epoch != m.Epoch:
			return p, fmt.Errorf("%w: broker %d is not up with broker epoch %d", ErrConflict,
				m.Broker, m.Epoch)
		case broker.Leaving && !slices.Contains(proposal.From, m.Broker):
			return p, fmt.Errorf("%w: broker %d is shutting down", ErrConflict, m.Broker)
		}
		m.Directory = broker.Directory
		next = append(next, m)
	}
	if !slices.Contains(ids(next), p.Leader) {
		return p, fmt.Errorf("%w: the leader %d is not among %v", ErrConflict, p.Leader, ids(next))
	}
	p = p.clone()
	p.ISR = next
	return p, nil
}

// UnfencedISR returns the ISR without fenced members. The leader is kept: only an election removes
// it.
func (p Partition) UnfencedISR(brokers map[int32]BrokerState) []InSyncReplica {
	return slices.DeleteFunc(slices.Clone(p.ISR),
		func(m InSyncReplica) bool { return m.Broker != p.Leader && m.Fenced(brokers[m.Broker]) })
}

// clone returns a copy that shares no list or map.
func (p Partition) clone() Partition {
	p.Replicas, p.Target, p.ISR = slices.Clone(p.Replicas), slices.Clone(p.Target),
		slices.Clone(p.ISR)
	p.ReplicaIncarnations = maps.Clone(p.ReplicaIncarnations)
	return p
}

// ids returns the broker ids of members, in the same order.
func ids(members []InSyncReplica) []int32 {
	all := make([]int32, len(members))
	for i, m := range members {
		all[i] = m.Broker
	}
	return all
}

// sameIDs reports whether a and b are equal as sets; neither names an id twice.
func sameIDs(a, b []int32) bool {
	return len(a) == len(b) &&
		!slices.ContainsFunc(a, func(id int32) bool { return !slices.Contains(b, id) })
}
