package placement

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// NoLeader is the value of Partition.Leader if there is no leader, as in Kafka's Metadata API.
const NoLeader int32 = -1

// Partition contains the part of a partition's state on which this package decides. It is
// immutable: Decide and ChangeISR return another Partition, which shares no slices or maps with
// their argument.
//
// Invariants of a returned Partition: the ids in Replicas are distinct. ISR is a subset of
// Replicas, with distinct brokers. Leader is NoLeader or a member of ISR. ISR is empty only before
// the first election. The keys of ReplicaIncarnations are the ids in Replicas.
type Partition struct {
	Replicas []int32 // brokers that have a log of the partition, the preferred leader first
	// Target is the assignment after the current reassignment, the preferred leader first; nil if no
	// reassignment is in progress.
	Target []int32
	// ReplicaIncarnations contains the replicas' incarnation ids, by broker id. A broker that is
	// removed from Replicas and added again gets another id, and discards the log of its earlier
	// incarnation (ADR 0185). The map is nil before the first decision.
	ReplicaIncarnations map[int32]string
	Leader              int32 // NoLeader if the partition is offline
	// LeaderEpoch grows whenever Leader changes, even to NoLeader, and whenever the leader's broker
	// epoch changes. So a previous leader that is still running has an outdated leader epoch.
	LeaderEpoch int32
	// UnprovenEpoch is the latest leader epoch that began with an unclean election; 0 if there was
	// none. A replica whose latest leader epoch is earlier may have records above the start offset of
	// UnprovenEpoch. Such records are no longer part of the partition, even if they are below a high
	// watermark (ADR 0186).
	UnprovenEpoch int32
	// ISR contains the in-sync replicas. They have every acknowledged record. ISR is empty before the
	// first election.
	ISR []InSyncReplica
	// LeaderDirectory is the directory id of the disk of the latest leader; "" if unknown. It is kept
	// when the leader goes down.
	LeaderDirectory string
	// FoundEpoch is the latest leader epoch in the leader's log, if the leader has reported that it is
	// later than LeaderEpoch; nil otherwise. The next election starts an even later leader epoch.
	FoundEpoch *int32
}

// InSyncReplica is a member of the ISR: a broker, and the broker epoch in which the broker is in
// sync.
type InSyncReplica struct {
	Broker    int32
	Epoch     int64
	Directory string // directory id of the broker's disk; "" if unknown
}

// lostDirectory is the directory id of a member that has lost its log. No disk has this id, and no
// broker has epoch 0. So versions that do not know LostLog regard the disk as replaced.
const lostDirectory = "lost"

// LostLog reports whether the member has lost its log; see LoseLog.
func (m InSyncReplica) LostLog() bool { return m.Epoch == 0 && m.Directory == lostDirectory }

// LoseLog returns the partition after a report that a replica has lost records: its log is missing,
// damaged or outdated (ADR 0315). The caller must write the result by compare-and-swap. incarnation
// is the lost log's incarnation id. If this is not the replica's recorded id, LoseLog changes
// nothing: the loss is already known, or the log belongs to another replica. A new partition is not
// changed either, because it has no records. Otherwise the replica gets the incarnation id next,
// which must be new and unique. So the replica discards the rest of its log before it becomes a
// follower, and a repeated report has no effect.
//
// If the replica leads, the partition loses its leader. The replica is removed from the ISR,
// because the other members have every acknowledged record. If there is no other member, the
// replica remains a member, and the records are lost: only an unclean election can elect it
// (LostLog).
func LoseLog(p Partition, broker int32, incarnation, next string) Partition {
	if id, known := p.ReplicaIncarnations[broker]; !known || id != incarnation || len(p.ISR) == 0 {
		return p
	}
	p = p.clone()
	p.ReplicaIncarnations[broker] = next
	if p.Leader == broker {
		p.Leader = NoLeader
		p.LeaderEpoch++
	}
	if len(p.ISR) == 1 && p.ISR[0].Broker == broker {
		p.ISR[0] = InSyncReplica{Broker: broker, Directory: lostDirectory}
		return p
	}
	p.ISR = slices.DeleteFunc(p.ISR, func(m InSyncReplica) bool { return m.Broker == broker })
	return p
}

// Fenced reports whether it is certain that the process with the member's broker epoch has exited,
// and not gracefully. The proof is that the broker has a later epoch on the same disk: two
// processes never use a disk at the same time. A later epoch on another disk does not prove that
// the process has exited. No later election regards a member that is recorded with this broker
// epoch as intact. An earlier election may have done so, because b can be newer than the recorded
// member that the caller knows. So the leader immediately removes the member with an ISR change
// (ADR 0253).
func (m InSyncReplica) Fenced(b BrokerState) bool {
	return b.Epoch > m.Epoch && b.CleanEpoch != m.Epoch && m.Directory != "" &&
		m.Directory == b.Directory
}

// Liveness is what the caller knows about whether a broker is running.
type Liveness int

const (
	// Down means that the broker has stopped, was killed, or never existed.
	Down Liveness = iota
	// Unknown means that the broker is known to be neither up nor down. Such a broker remains the
	// leader of its partitions and a member of its ISRs, but is not elected and not added to ISRs.
	Unknown
	// Up means that the broker is running.
	Up
)

// BrokerState is what an election considers about a broker. The zero value represents a broker that
// has never been observed.
type BrokerState struct {
	Liveness Liveness
	Epoch    int64 // broker epoch of the running or last observed process
	// CleanEpoch is the broker epoch of the broker's previous process, if that process stopped
	// gracefully; otherwise -1. Broker epochs are never negative.
	CleanEpoch int64
	// BootEpoch is the broker epoch of the first process on the disk since the broker's machine has
	// booted. So the disk has everything that this process and later ones have written, even if they
	// were killed. It is 0 if that is unknown.
	BootEpoch int64
	Directory string // directory id of the broker's disk; "" if unknown
	Leaving   bool   // true if the broker is in controlled shutdown and must not become a leader
	// AddressStaleFor is how much longer clients may still use the broker's previous address; 0 if all
	// clients have the current address. Among eligible replicas, an election chooses one with the
	// smallest value.
	AddressStaleFor time.Duration
}

// ErrConflict is returned by ChangeISR if a proposal is based on an outdated state of the partition
// or of a member.
var ErrConflict = errors.New("the ISR has changed")

// Proposal is a leader's request to change the ISR (KIP-497, KIP-903).
type Proposal struct {
	LeaderEpoch int32
	From        []int32 // ISR that the leader knows and wants to change, in any order
	To          []InSyncReplica
	// ReplicaIncarnations contains the incarnation ids of the members in To, as the leader knows them.
	ReplicaIncarnations map[int32]string
}

// ChangeISR returns the partition with the ISR that its leader proposes. It returns ErrConflict if
// one of these applies:
//   - The leader epoch differs from the proposal's, or the ISR differs from proposal.From. From may
//     include or omit fenced members.
//   - A proposed member is not a replica, is not up in the proposed broker epoch, or has another
//     replica incarnation id.
//   - A proposed new member is in controlled shutdown, because it would be removed at once. A
//     present member in controlled shutdown may remain, because it still has every acknowledged
//     record.
//   - The leader is not among the proposed members.
func ChangeISR(p Partition, proposal Proposal, brokers map[int32]BrokerState) (Partition, error) {
	switch {
	case p.Leader == NoLeader || proposal.LeaderEpoch != p.LeaderEpoch:
		return p, fmt.Errorf("%w: the leader epoch is %d, but the proposal is based on %d", ErrConflict,
			p.LeaderEpoch, proposal.LeaderEpoch)
	case !sameIDs(ids(p.ISR), proposal.From) && !sameIDs(ids(p.UnfencedISR(brokers)), proposal.From):
		return p, fmt.Errorf("%w: the ISR is %v, but the proposal is based on %v", ErrConflict,
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

// UnfencedISR returns the ISR without fenced members. It always includes the leader, because only
// an election may remove the leader from the ISR.
func (p Partition) UnfencedISR(brokers map[int32]BrokerState) []InSyncReplica {
	return slices.DeleteFunc(slices.Clone(p.ISR),
		func(m InSyncReplica) bool { return m.Broker != p.Leader && m.Fenced(brokers[m.Broker]) })
}

// clone returns a copy that shares with p no slices or maps except those that are never modified.
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

// sameIDs reports whether a and b contain the same ids in any order. The ids in each must be
// distinct.
func sameIDs(a, b []int32) bool {
	return len(a) == len(b) &&
		!slices.ContainsFunc(a, func(id int32) bool { return !slices.Contains(b, id) })
}
