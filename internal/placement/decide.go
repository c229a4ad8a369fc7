package placement

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Options contains the inputs of Decide other than the states of the partition and of the brokers.
type Options struct {
	// AllowUnclean allows unclean elections (Kafka's unclean.leader.election.enable).
	AllowUnclean bool
	// PreferLeader makes Decide move leadership back to the preferred leader, which is the first
	// replica. The caller should set it only after the preferred leader has been stable for some time,
	// because each move makes every client refresh its metadata.
	PreferLeader bool
	// ReplicaIncarnation is the incarnation id for replicas that this decision adds. It must be a new,
	// unique id. See Partition.ReplicaIncarnations.
	ReplicaIncarnation string
	// AcceptedDataLoss is a user's consent to continue with the records on one disk, even if the disk
	// lacks acknowledged records. It is either a DataLossConsent, or only a directory id if the disk
	// with this id has replaced the disk of an in-sync replica. It is empty if no user has consented.
	AcceptedDataLoss string
}

// DataLossConsent returns the consent to continue with the records of one disk, even if the disk
// lacks acknowledged records. id is the disk's directory id. If the disk does not exist yet,
// because it will replace a lost volume, id is the UID of the lost volume's PersistentVolumeClaim.
// The consent contains the leader epoch, and each election starts a new leader epoch. So the
// consent is valid for one election only, even if several volumes of a claim are lost in
// succession.
func DataLossConsent(id string, leaderEpoch int32) string {
	return fmt.Sprintf("%s@%d", id, leaderEpoch)
}

// ConsentedID returns the id in a DataLossConsent with the given leader epoch. It returns "" if the
// text contains another leader epoch, or none.
func ConsentedID(consent string, leaderEpoch int32) string {
	id, epoch, _ := strings.Cut(consent, "@")
	if epoch != strconv.Itoa(int(leaderEpoch)) {
		return ""
	}
	return id
}

// Decision is the result of Decide: the new state of a partition.
type Decision struct {
	Partition
	// Unclean is true if this decision elected a leader that is not known to have every acknowledged
	// record. Either all in-sync replicas have returned from an unclean stop, or the topic or a user
	// has accepted the loss of records.
	Unclean bool
	// Awaited and Lost are set only if the partition has no leader. Awaited contains the in-sync
	// replicas for which the partition is waiting. Lost contains the in-sync replicas whose records
	// are lost, because they returned with another disk or without their log.
	Awaited, Lost []int32
}

// Decide elects a partition's leader, and decides the partition's leader epoch, ISR and replicas.
// It decides on the basis of the brokers' states; a broker that is missing in brokers is down.
// Decide is pure and idempotent: if it is applied to its own result, it changes nothing. The
// operator and the metadata store of `heartwood dev` change these fields only with Decide or
// Retire. It decides in this order:
//  1. Replicas: the brokers of Target are added to the replicas. Once all brokers of Target are in
//     sync, the other replicas are removed. A broker that becomes a replica gets a new incarnation
//     id.
//  2. ISR: a member that stopped gracefully and has returned with its disk remains, with its new
//     broker epoch. A member is removed if it is down, is leaving, or has returned from an unclean
//     stop or with another disk. But members are removed only if an intact member remains. So the
//     ISR never becomes empty: it always identifies a replica that has the records.
//  3. Leader: the present leader remains while it is in sync in its broker epoch, unless it is
//     leaving and has a possible successor. Otherwise an in-sync replica that is up and not leaving
//     is elected. Replicas whose address is least stale are preferred, and among these the first
//     one. If there is no such replica, electUnclean decides.
//
// The caller must write the result by compare-and-swap with the input, or hold one lock from
// reading the input to writing the result. For a partition whose topic does not exist, the caller
// uses Retire instead.
func Decide(p Partition, brokers map[int32]BrokerState, options Options) Decision {
	e := election{Partition: p.clone(), before: p, brokers: brokers, options: options}
	e.addTargetReplicas()
	e.initializeISR()
	e.updateISR()
	e.completeReassignment()
	leader, epoch := e.chooseLeader()
	// An unclean election may have elected the target's only broker.
	e.completeReassignment()
	e.recordLeader(leader, epoch)
	return e.decision()
}

// Retire removes the leader of a partition whose topic does not exist, and returns the partition.
// If the partition had a leader, the leader epoch grows. Replicas and ISR are kept, because they
// identify the brokers that have the records.
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
	before    Partition // the argument of Decide
	brokers   map[int32]BrokerState
	options   Options
	unclean   bool
}

// addTargetReplicas adds the brokers of the target to the replicas. It also adds ISR members that
// are not replicas, for example because a user has overwritten the replicas. They must remain
// replicas until others have their records.
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

// beginIncarnation sets the incarnation id for a broker that becomes a replica.
func (e *election) beginIncarnation(id int32) {
	if e.ReplicaIncarnations == nil {
		e.ReplicaIncarnations = map[int32]string{}
	}
	e.ReplicaIncarnations[id] = e.options.ReplicaIncarnation
}

// initializeISR sets the ISR of a new partition to all replicas whose brokers are up and not
// leaving. This is safe, because a new partition has no records that a replica could lack. A
// partition is new if its leader epoch is 0 and its ISR is empty. If no broker is up, the partition
// remains new.
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

// memberState is the state of an ISR member.
type memberState int

const (
	// memberDown means that the member is down or cannot be observed. It may return with all records.
	memberDown memberState = iota
	// memberReplaced means that the member is up with another disk, or has lost its log. Its records
	// are lost.
	memberReplaced
	// memberUnclean means that the member is up with its disk after an unclean stop. It may lack
	// records that had not been synced.
	memberUnclean
	// memberUnknown means that the member has the recorded broker epoch, but it is unknown whether its
	// broker is running.
	memberUnknown
	// memberIntact means that the member is up and has lost no record.
	memberIntact
)

// state returns the state of an ISR member. If the directory id of the broker or of the member is
// unknown, the disk is assumed to be the same.
func (e *election) state(m InSyncReplica) memberState {
	b := e.brokers[m.Broker]
	switch {
	case m.LostLog():
		return memberReplaced
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

// RecordsLost reports whether every member of an ISR is up with another disk or has lost its log.
// Then no member can return with the records, so a partition without a leader stays offline until
// an unclean election.
func RecordsLost(isr []InSyncReplica, brokers map[int32]BrokerState) bool {
	e := election{brokers: brokers}
	return len(isr) > 0 && !slices.ContainsFunc(isr,
		func(m InSyncReplica) bool { return e.state(m) != memberReplaced })
}

// updateISR updates the broker epochs of intact members and removes other members; see Decide. It
// removes members only if an intact member remains that is not leaving. A member of unknown
// liveness does not suffice, because it may be down. If all brokers stop gracefully, no intact
// member remains, so all of them are still members at the next start.
func (e *election) updateISR() {
	remains := false
	for i, m := range e.ISR {
		if b := e.brokers[m.Broker]; e.state(m) == memberIntact {
			// If the broker does not report its directory id, keep the stored id. Otherwise a later
			// replacement of the disk would not be detected.
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

// completeReassignment removes the replicas that are not in the target, provided that all brokers
// of the target can be elected cleanly.
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

// preference returns the replicas in the order in which an election considers them: first the
// replicas in the target, then all replicas. A broker may occur twice.
func (e *election) preference() []int32 {
	return slices.Concat(e.Target, e.Replicas)
}

// member returns a broker's entry in the ISR.
func (e *election) member(id int32) (m InSyncReplica, ok bool) {
	index := slices.IndexFunc(e.ISR, func(m InSyncReplica) bool { return m.Broker == id })
	if index < 0 {
		return InSyncReplica{}, false
	}
	return e.ISR[index], true
}

// mayLead reports whether a broker can be elected cleanly: it is an intact member of the ISR and
// not leaving.
func (e *election) mayLead(id int32) bool {
	m, ok := e.member(id)
	return ok && e.state(m) == memberIntact && !e.brokers[id].Leaving
}

// candidate returns the replica that a clean election would elect, as an index into order, or -1 if
// there is none. It prefers a replica whose address is least stale. It ignores stale addresses if
// the partition is new, because such a partition has no clients yet.
func (e *election) candidate(order []int32) int {
	first := slices.IndexFunc(order, e.mayLead)
	if first < 0 || e.LeaderEpoch == 0 || first == 0 && e.options.PreferLeader {
		return first
	}
	best := first
	for index := first + 1; index < len(order); index++ {
		if e.mayLead(order[index]) && e.brokers[order[index]].AddressStaleFor <
			e.brokers[order[best]].AddressStaleFor {
			best = index
		}
	}
	return best
}

// chooseLeader returns the leader and its broker epoch, or NoLeader and 0.
func (e *election) chooseLeader() (leader int32, epoch int64) {
	index := e.candidate(e.preference())
	present, isMember := e.member(e.Leader)
	holds := isMember && e.state(present) >= memberUnknown
	toPreferred := e.options.PreferLeader && index == 0 && e.state(present) == memberIntact
	switch {
	case holds && index < 0: // the leader may be leaving, but has no possible successor
		return e.Leader, present.Epoch
	case holds && !e.brokers[e.Leader].Leaving && !toPreferred:
		return e.Leader, present.Epoch
	case index >= 0:
		id := e.preference()[index]
		return id, e.brokers[id].Epoch
	}
	return e.electUnclean()
}

// electUnclean elects a leader if no member of the ISR can lead cleanly. The elected broker becomes
// the only member of the ISR. Records that only other replicas have are lost.
//
// A member that has returned from an unclean stop with its own disk may lack records that it had
// not synced. It is elected once every other member has also returned, either from an unclean stop
// or with another disk: then no member is known to have more records. A member whose machine has
// run without interruption is preferred (keptAll): its process was killed, so the machine has kept
// all that the process had written. Otherwise, and among several such members, the last leader is
// preferred, because its log probably has the most records. While another member is down or
// leaving, the partition waits for it, because it may return with all records. A topic
// (AllowUnclean) or a user (AcceptedDataLoss) can choose not to wait.
func (e *election) electUnclean() (leader int32, epoch int64) {
	for _, eligible := range []func(id int32) bool{e.dataLossAccepted,
		both(e.allUnclean, both(e.keptAll, e.ledLast)), both(e.allUnclean, e.keptAll),
		both(e.allUnclean, e.ledLast), e.allUnclean,
		both(e.allowedMember, e.keptAll), e.allowedMember, e.allowed} {
		index := slices.IndexFunc(e.preference(), func(id int32) bool {
			return e.brokers[id].Liveness == Up && !e.brokers[id].Leaving && eligible(id)
		})
		if index < 0 {
			continue
		}
		id := e.preference()[index]
		b := e.brokers[id]
		e.ISR = []InSyncReplica{{Broker: id, Epoch: b.Epoch, Directory: b.Directory}}
		e.unclean = true
		return id, b.Epoch
	}
	return NoLeader, 0
}

// dataLossAccepted reports whether a user has consented to continue with the records on a broker's
// disk.
func (e *election) dataLossAccepted(id int32) bool {
	directory := e.brokers[id].Directory
	if directory == "" || e.options.AcceptedDataLoss == "" {
		return false
	}
	if m, ok := e.member(id); ok && e.state(m) == memberReplaced && !m.LostLog() &&
		e.options.AcceptedDataLoss == directory {
		// AcceptedDataLoss contains the new disk's id, so it does not apply to a later replacement. The
		// user has accepted only the loss of this broker's old disk. A member whose disk has not been
		// replaced may still have the records, so the consent applies only if the disks of all members
		// have been replaced.
		return !slices.ContainsFunc(e.ISR,
			func(m InSyncReplica) bool { return e.state(m) != memberReplaced })
	}
	return e.options.AcceptedDataLoss == DataLossConsent(directory, e.before.LeaderEpoch)
}

// both returns a predicate that is true if both arguments are true.
func both(one, other func(id int32) bool) func(id int32) bool {
	return func(id int32) bool { return one(id) && other(id) }
}

// allUnclean reports whether a broker is a member that has returned from an unclean stop, provided
// that every other member has also returned, from an unclean stop or with another disk. See
// electUnclean.
func (e *election) allUnclean(id int32) bool {
	m, ok := e.member(id)
	return ok && e.state(m) == memberUnclean && !slices.ContainsFunc(e.ISR,
		func(other InSyncReplica) bool {
			state := e.state(other)
			return state != memberUnclean && state != memberReplaced
		})
}

// ledLast reports whether a broker has the last leader's disk.
func (e *election) ledLast(id int32) bool {
	return e.brokers[id].Directory == e.LeaderDirectory
}

// keptAll reports whether a broker's machine has run since the process that is a member of the ISR
// began. The machine may still have lost writes, for example if its volume was detached by force.
// So keptAll only orders the candidates of an unclean election (ADR 0351).
func (e *election) keptAll(id int32) bool {
	m, ok := e.member(id)
	boot := e.brokers[id].BootEpoch
	return ok && boot > 0 && boot <= m.Epoch
}

// allowedMember reports whether a broker is a member that has returned from an unclean stop, and
// that the topic allows to be elected. Such a member is preferred to other replicas: it lacks at
// most the records that it had not synced, whereas another replica lacks all records since it left
// the ISR.
func (e *election) allowedMember(id int32) bool {
	m, ok := e.member(id)
	return ok && e.state(m) == memberUnclean && e.allowed(id)
}

// allowed reports whether the topic allows the unclean election of a broker. A broker with a
// replaced disk can be elected only if no other replica is available. No broker can be elected
// while a member is intact (but leaving) or of unknown liveness: the partition waits, because these
// states last only briefly.
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

// recordLeader sets the leader in the result. It starts a new leader epoch if the leader is another
// broker or has another broker epoch. It also does so if the leader has found later leader epochs
// in its log (FoundEpoch), for example after the metadata were lost and created again. The new
// leader epoch is higher than all of these epochs, so that no epoch is used twice.
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
			e.ISR = nil // the partition remains new
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

// decision returns the result of Decide. For a partition without a leader, it includes the awaited
// and the lost replicas.
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
