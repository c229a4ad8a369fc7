package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// Options are the inputs of a decision besides the state of the partition and the brokers.
type Options struct {
	// AllowUnclean allows unclean elections (Kafka's unclean.leader.election.enable).
	AllowUnclean bool
	// PreferLeader moves leadership back to the first replica. The caller sets it after the brokers
	// have been stable for a while, as each move costs every client a metadata refresh.
	PreferLeader bool
	// ReplicaIncarnation is the incarnation id of replicas that this decision adds. It must be
	// unique. See Partition.ReplicaIncarnations.
	ReplicaIncarnation string
	// AcceptedDataLoss is a user's consent to continue with the records of one disk. It is the
	// value of DataLossConsent or, for an in-sync replica whose disk was replaced, the directory id
	// of the new disk alone. It is empty if no user has consented.
	AcceptedDataLoss string
}

// DataLossConsent returns the consent to continue with the records of one disk, whichever records
// the disk lacks. The consent is valid for one election: it contains the leader epoch, and the
// election begins another one.
func DataLossConsent(directory string, leaderEpoch int32) string {
	return fmt.Sprintf("%s@%d", directory, leaderEpoch)
}

// Decision is the decided state of a partition.
type Decision struct {
	Partition
	// Unclean reports that the leader was elected by this decision without proof that it has every
	// acknowledged record: all in-sync replicas returned from an unclean stop, or the topic or a
	// user accepted the loss.
	Unclean bool
	// Awaited and Lost are set for a partition without a leader. Awaited are the in-sync replicas
	// that the partition waits for. Lost are the in-sync replicas that returned with another disk,
	// so that their records are lost.
	Awaited, Lost []int32
}

// Decide elects the leader of a partition, and decides its leader epoch, ISR and replicas, from the
// states of the brokers. The operator and the store of `heartwood dev` change nothing else in a
// partition. Decide is pure and idempotent: applied to its own result, it changes nothing. A broker
// that is missing from brokers is down.
//
// In this order:
//  1. Replicas: the brokers of Target are added to the replicas until all of them are in sync; then
//     the others are removed. A broker that becomes a replica gets a new incarnation id.
//  2. ISR: a member that stopped gracefully and returned with its disk stays, with its new broker
//     epoch. A member that is down, returned from an unclean stop or with another disk, or is
//     leaving, is removed if another member remains. So the ISR never loses its last member, which
//     records where the records are.
//  3. Leader: the present leader, while it is in sync in its broker epoch and is not leaving with a
//     possible successor. Otherwise the first in-sync replica that is up and not leaving, of those
//     with the least stale address. Without one, see electUnclean.
//
// The caller writes the result by compare-and-swap against its input, or under one lock. A
// partition whose Topic does not exist is retired instead: see Retire.
func Decide(p Partition, brokers map[int32]BrokerState, options Options) Decision {
	e := election{Partition: p.clone(), before: p, brokers: brokers, options: options}
	e.addTargetReplicas()
	e.initializeISR()
	e.updateISR()
	e.completeReassignment()
	leader, epoch := e.chooseLeader()
	e.completeReassignment() // an unclean leader may be the whole target
	e.recordLeader(leader, epoch)
	return e.decision()
}

// Retire returns a partition without a leader, for a partition whose topic does not exist. The
// replicas that have the records, and the leader epoch, are kept.
func Retire(p Partition) Partition {
	p = p.clone()
	if p.Leader != NoLeader {
		p.Leader = NoLeader
		p.LeaderEpoch++
	}
	return p
}

// election is the state of one call of Decide.
type election struct {
	Partition           // the result so far
	before    Partition // the input
	brokers   map[int32]BrokerState
	options   Options
	unclean   bool
}

// addTargetReplicas adds the brokers of the target to the replicas. A member of the ISR that is not
// a replica, as after a user has overwritten the replicas, remains one until the others have its
// records.
func (e *election) addTargetReplicas() {
	target := e.Target
	if len(target) == 0 {
		target = slices.Clone(e.Replicas)
	}
	for _, id := range slices.Concat(ids(e.ISR), target) {
		if !slices.Contains(e.Replicas, id) {
			e.Replicas = append(e.Replicas, id)
			e.beginIncarnation(id)
		}
	}
	e.Target = target
	if slices.Equal(target, e.Replicas) {
		e.Target = nil
	}
}

// beginIncarnation gives a broker that becomes a replica its incarnation id.
func (e *election) beginIncarnation(id int32) {
	if e.options.ReplicaIncarnation == "" {
		return // a caller without incarnation ids
	}
	if e.ReplicaIncarnations == nil {
		e.ReplicaIncarnations = map[int32]string{}
	}
	e.ReplicaIncarnations[id] = e.options.ReplicaIncarnation
}

// initializeISR sets the ISR of a new partition to all replicas whose brokers are up and not
// leaving: the partition has no records that a replica could lack. A partition is new if both
// leader epoch and ISR are empty; an empty ISR after an election would mean that no replica has the
// records. Without a broker that may lead, the partition remains new.
func (e *election) initializeISR() {
	if e.LeaderEpoch != 0 || len(e.ISR) != 0 {
		return
	}
	for _, id := range e.Replicas {
		if e.ReplicaIncarnations[id] == "" {
			e.beginIncarnation(id)
		}
	}
	for _, id := range e.Replicas {
		if b := e.brokers[id]; b.Liveness == Up && !b.Leaving {
			e.ISR = append(e.ISR, InSyncReplica{Broker: id, Epoch: b.Epoch,
				Directory: b.Directory})
		}
	}
}

// memberState is the state of a member of the ISR. A higher value proves more about the records
// that the member has.
type memberState int

const (
	// memberDown is a member that is down or cannot be observed. It may return with all records.
	memberDown memberState = iota
	// memberReplaced is a member that is up with another disk: its records are lost.
	memberReplaced
	// memberUnclean is a member that is up with its disk after an unclean stop. It may lack records
	// that were not synced.
	memberUnclean
	// memberUnknown is a member with the recorded broker epoch and unknown liveness.
	memberUnknown
	// memberIntact is a member that is up and has lost no record.
	memberIntact
)

// state returns the state of a member. A broker whose directory id is unknown is not considered to
// have another disk.
func (e *election) state(m InSyncReplica) memberState {
	b := e.brokers[m.Broker]
	switch {
	case b.Liveness == Down:
		return memberDown
	case b.Epoch == m.Epoch && b.Liveness == Unknown:
		return memberUnknown
	case b.Liveness == Unknown:
		return memberDown
	case b.Epoch == m.Epoch:
		return memberIntact
	case b.Directory != m.Directory && b.Directory != "" && m.Directory != "":
		return memberReplaced
	case b.CleanEpoch == m.Epoch:
		return memberIntact
	default:
		return memberUnclean
	}
}

// updateISR gives intact members their present broker epoch and removes the others; see Decide. As
// long as no intact member remains, it removes none: a member of unknown liveness may turn out to
// be down, and when all brokers stop gracefully, all must be members at the next start.
func (e *election) updateISR() {
	remains := false
	for i, m := range e.ISR {
		if b := e.brokers[m.Broker]; e.state(m) == memberIntact {
			// If the broker does not report its directory id, the recorded id stays. Otherwise the
			// next replacement of the disk would not be detected.
			e.ISR[i] = InSyncReplica{Broker: m.Broker, Epoch: b.Epoch,
				Directory: cmp.Or(b.Directory, m.Directory)}
			remains = remains || !b.Leaving
		}
	}
	e.ISR = slices.DeleteFunc(e.ISR, func(m InSyncReplica) bool {
		switch e.state(m) {
		case memberIntact:
			return remains && e.brokers[m.Broker].Leaving
		case memberUnknown:
			return false
		default:
			return remains
		}
	})
}

// completeReassignment removes the other replicas once the whole target is in sync and not leaving.
func (e *election) completeReassignment() {
	if e.Target == nil {
		return
	}
	for _, id := range e.Target {
		if !e.mayLead(id) {
			return
		}
	}
	e.Replicas, e.Target = e.Target, nil
	e.ISR = slices.DeleteFunc(e.ISR,
		func(m InSyncReplica) bool { return !slices.Contains(e.Replicas, m.Broker) })
	maps.DeleteFunc(e.ReplicaIncarnations,
		func(id int32, _ string) bool { return !slices.Contains(e.Replicas, id) })
}

// preference returns the replicas in the order in which they are considered as leaders.
func (e *election) preference() []int32 {
	return slices.Concat(e.Target, e.Replicas)
}

// member returns a broker's entry in the ISR.
func (e *election) member(id int32) (m InSyncReplica, ok bool) {
	at := slices.IndexFunc(e.ISR, func(m InSyncReplica) bool { return m.Broker == id })
	if at < 0 {
		return InSyncReplica{}, false
	}
	return e.ISR[at], true
}

// mayLead reports whether a broker is an intact member and not leaving.
func (e *election) mayLead(id int32) bool {
	m, ok := e.member(id)
	return ok && e.state(m) == memberIntact && !e.brokers[id].Leaving
}

// candidate returns the replica that a clean election would choose as leader, as an index into the
// replicas in the order of preference; -1 if there is none. Stale addresses do not matter for a new
// partition, which has no clients.
func (e *election) candidate(order []int32) int {
	first := slices.IndexFunc(order, e.mayLead)
	if first < 0 || e.LeaderEpoch == 0 || first == 0 && e.options.PreferLeader {
		return first
	}
	best := first
	for at := first + 1; at < len(order); at++ {
		if e.mayLead(order[at]) && e.brokers[order[at]].AddressStaleFor <
			e.brokers[order[best]].AddressStaleFor {
			best = at
		}
	}
	return best
}

// chooseLeader returns the leader and its broker epoch.
func (e *election) chooseLeader() (leader int32, epoch int64) {
	at := e.candidate(e.preference())
	present, isMember := e.member(e.Leader)
	holds := isMember && e.state(present) >= memberUnknown
	toPreferred := e.options.PreferLeader && at == 0 && e.state(present) == memberIntact
	switch {
	case holds && at < 0: // the leader may be leaving, but it has no successor
		return e.Leader, present.Epoch
	case holds && !e.brokers[e.Leader].Leaving && !toPreferred:
		return e.Leader, present.Epoch
	case at >= 0:
		id := e.preference()[at]
		return id, e.brokers[id].Epoch
	}
	return e.electUnclean()
}

// electUnclean elects a leader when no member may lead cleanly. The elected broker becomes the only
// member of the ISR: records that other replicas have beyond its log are no longer part of the log.
//
// A member that returned from an unclean stop with its own disk may lack records that it had not
// synced. It is elected once all other members are up as well and have no more records than this
// member: each member had every acknowledged record. Of several such members the last leader is
// preferred, as it has the most records. While another member is down or leaving, it may return
// intact, and the partition waits for it. A topic (AllowUnclean) or a user (AcceptedDataLoss) can
// choose not to wait.
func (e *election) electUnclean() (leader int32, epoch int64) {
	for _, eligible := range []func(id int32) bool{e.dataLossAccepted, e.allUnclean(true),
		e.allUnclean(false), e.allowedMember, e.allowed} {
		at := slices.IndexFunc(e.preference(), func(id int32) bool {
			return e.brokers[id].Liveness == Up && !e.brokers[id].Leaving && eligible(id)
		})
		if at < 0 {
			continue
		}
		id := e.preference()[at]
		b := e.brokers[id]
		e.ISR = []InSyncReplica{{Broker: id, Epoch: b.Epoch, Directory: b.Directory}}
		e.unclean = true
		return id, b.Epoch
	}
	return NoLeader, 0
}

// dataLossAccepted reports whether a user has accepted to continue with the records of a broker's
// disk.
func (e *election) dataLossAccepted(id int32) bool {
	directory := e.brokers[id].Directory
	if directory == "" || e.options.AcceptedDataLoss == "" {
		return false
	}
	if m, ok := e.member(id); ok && e.state(m) == memberReplaced &&
		e.options.AcceptedDataLoss == directory {
		// AcceptedDataLoss names the new disk, so it does not apply to a later replacement. It
		// accepts the loss of this broker's old disk only: a member whose disk was not replaced may
		// still have the records.
		return !slices.ContainsFunc(e.ISR,
			func(m InSyncReplica) bool { return e.state(m) != memberReplaced })
	}
	return e.options.AcceptedDataLoss == DataLossConsent(directory, e.before.LeaderEpoch)
}

// allUnclean returns whether a broker is a member after an unclean stop and no other member can
// have more records; see electUnclean. With lastLeader it must be the last leader's disk.
func (e *election) allUnclean(lastLeader bool) func(id int32) bool {
	return func(id int32) bool {
		m, ok := e.member(id)
		if !ok || e.state(m) != memberUnclean {
			return false
		}
		for _, other := range e.ISR {
			if state := e.state(other); state != memberUnclean && state != memberReplaced {
				return false
			}
		}
		return !lastLeader || e.brokers[id].Directory == e.LeaderDirectory
	}
}

// allowedMember reports whether an unclean election of a member is allowed. A member lacks at most
// the records that it had not synced; another replica lacks every record since it left the ISR.
func (e *election) allowedMember(id int32) bool {
	m, ok := e.member(id)
	return ok && e.state(m) == memberUnclean && e.allowed(id)
}

// allowed reports whether the topic allows the unclean election of a broker. A replaced disk is
// elected only if there is no other replica. Members whose liveness is unknown or that are leaving
// are awaited nevertheless, because these states last only a moment.
func (e *election) allowed(id int32) bool {
	if !e.options.AllowUnclean || slices.ContainsFunc(e.ISR,
		func(m InSyncReplica) bool { return e.state(m) >= memberUnknown }) {
		return false
	}
	m, ok := e.member(id)
	if !ok || e.state(m) != memberReplaced {
		return true
	}
	return !slices.ContainsFunc(e.Replicas, func(other int32) bool {
		m, ok := e.member(other)
		b := e.brokers[other]
		return b.Liveness == Up && !b.Leaving && (!ok || e.state(m) != memberReplaced)
	})
}

// recordLeader records the leader, with another leader epoch if it has changed: another broker,
// another broker epoch, or a leader whose log has later leader epochs, as after the metadata was
// lost and created again. Those epochs are never used twice.
func (e *election) recordLeader(leader int32, epoch int64) {
	last, known := InSyncReplica{}, false
	for _, m := range e.before.ISR {
		if m.Broker == e.before.Leader {
			last, known = m, true
		}
	}
	ahead := e.FoundEpoch != nil && *e.FoundEpoch >= e.LeaderEpoch
	if leader == NoLeader {
		e.Leader = NoLeader
		if e.before.Leader != NoLeader {
			e.LeaderEpoch++
		}
		if e.LeaderEpoch == 0 {
			e.ISR = nil // the partition is still new
		}
		return
	}
	if leader == e.before.Leader && known && last.Epoch == epoch && !ahead {
		return
	}
	e.Leader = leader
	if e.FoundEpoch != nil {
		e.LeaderEpoch, e.FoundEpoch = max(e.LeaderEpoch, *e.FoundEpoch), nil
	}
	e.LeaderEpoch++
	if e.unclean || ahead {
		e.UnprovenEpoch = e.LeaderEpoch
	}
	e.LeaderDirectory = cmp.Or(e.brokers[leader].Directory, e.LeaderDirectory)
}

// decision returns the result, including the replicas that a partition without a leader waits for.
func (e *election) decision() Decision {
	d := Decision{Partition: e.Partition, Unclean: e.unclean}
	if e.Leader != NoLeader {
		return d
	}
	for _, m := range e.ISR {
		switch e.state(m) {
		case memberReplaced:
			d.Lost = append(d.Lost, m.Broker)
		case memberUnclean:
		default:
			d.Awaited = append(d.Awaited, m.Broker)
		}
	}
	return d
}
