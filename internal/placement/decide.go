package placement

import (
	"fmt"
	"maps"
	"slices"
)

// Options are what a decision takes into account besides what is.
type Options struct {
	// AllowUnclean: the topic would rather lose records than wait (Kafka's
	// unclean.leader.election.enable).
	AllowUnclean bool
	// PreferLeader: move leadership back to the first replica. The caller asks for it from time to
	// time, when brokers have been quiet: each move costs every client a refresh.
	PreferLeader bool
	// ReplicaIncarnation names what this decision assigns: no decision about the partition had the name
	// before. See Partition.Assignments.
	ReplicaIncarnation string
	// AcceptedDataLoss is somebody's consent to go on with the records that a certain disk holds: what
	// Consent returns for it, or, of an in-sync replica whose disk was replaced, the new disk's
	// directory id alone. "" is none.
	AcceptedDataLoss string
}

// DataLossConsent is how somebody agrees to go on with what one disk holds, whatever it lacks. It counts
// once: the election that it allows makes another leader epoch.
func DataLossConsent(directory string, leaderEpoch int32) string {
	return fmt.Sprintf("%s@%d", directory, leaderEpoch)
}

// Decision is a partition as it should be, and what there is to say about it.
type Decision struct {
	Partition
	// Unclean: the leader was elected now without proof that it has every acknowledged record: all
	// in-sync replicas came back from an unclean stop, or somebody or the topic agreed to lose
	// some.
	Unclean bool
	// Of a partition without a leader: the in-sync replicas it waits for, and those that live with
	// another disk, whose records are gone.
	Awaited, Lost []int32
}

// Decide returns who should lead a partition, in which epoch, and who is in sync, given what is
// known of brokers: all that the operator, or the store of `heartwood dev`, may decide about it. It
// is a pure function, and settled: asked again with what it answered, it answers the same. brokers
// has those that were seen; one that is missing is gone.
//
// In this order:
//  1. Where it is to be: the brokers of Target hold replicas besides those that did, until all of
//     them are in sync; then they alone do. Whoever becomes a replica does so by a new assignment.
//  2. Who is in sync: one that stopped in order and came back with its disk still is, in its new
//     incarnation. One that is gone, came back uncleanly or with another disk, or leaves, no more
//     is, if somebody is who stays. So the ISR never loses its last member: it is the memory of
//     where the records are.
//  3. Who leads: the leader, while it is in sync, in its incarnation, and does not leave without a
//     successor; else the most settled replica, and of these the first, that is in sync, lives and
//     stays. Failing that see lastResort.
//
// The caller writes the result by compare-and-swap against what it was given, or under one lock. A
// partition whose Topic is gone is not decided about, but retired: see Retire.
func Decide(p Partition, brokers map[int32]BrokerState, wishes Options) Decision {
	e := election{Partition: p.clone(), before: p, brokers: brokers, wishes: wishes}
	e.extend()
	e.begin()
	e.sift()
	e.contract()
	leader, epoch := e.choose()
	e.contract() // the last resort may be all that was to be
	e.install(leader, epoch)
	return e.decision()
}

// Retire takes the leader from a partition whose topic is gone. Where the records are, and under
// which epochs, stays known.
func Retire(p Partition) Partition {
	p = p.clone()
	if p.Leader != NoLeader {
		p.Leader = NoLeader
		p.LeaderEpoch++
	}
	return p
}

// election is one Decide under way.
type election struct {
	Partition           // as it will be
	before    Partition // as it was
	brokers   map[int32]BrokerState
	wishes    Options
	unproven  bool
}

// begin comes after extend; it makes every living replica of a new partition a member: there are no
// records yet that one could lack. Both must be empty for that: an ISR that is empty after an
// election would mean that nobody has the records. Without a broker that may lead, the partition
// stays new.
func (e *election) begin() {
	if e.LeaderEpoch != 0 || len(e.ISR) != 0 {
		return
	}
	for _, id := range e.Replicas {
		if e.ReplicaIncarnations[id] == "" {
			e.assign(id)
		}
	}
	for _, id := range e.Replicas {
		if b := e.brokers[id]; b.Liveness == Up && !b.Leaving {
			e.ISR = append(e.ISR, InSyncReplica{Broker: id, Epoch: b.Epoch, Directory: b.Directory})
		}
	}
}

// extend adds the target's brokers to the replicas. A member that is no replica, as when somebody
// wrote other replicas over it, stays one until the others have its records.
func (e *election) extend() {
	wanted := e.Target
	if len(wanted) == 0 {
		wanted = slices.Clone(e.Replicas)
	}
	for _, id := range slices.Concat(ids(e.ISR), wanted) {
		if !slices.Contains(e.Replicas, id) {
			e.Replicas = append(e.Replicas, id)
			e.assign(id)
		}
	}
	e.Target = wanted
	if slices.Equal(wanted, e.Replicas) {
		e.Target = nil
	}
}

// assign gives a broker that becomes a replica its assignment.
func (e *election) assign(id int32) {
	if e.wishes.ReplicaIncarnation == "" {
		return // as before there were any
	}
	if e.ReplicaIncarnations == nil {
		e.ReplicaIncarnations = map[int32]string{}
	}
	e.ReplicaIncarnations[id] = e.wishes.ReplicaIncarnation
}

// standing is how a member is.
type standing int

const (
	away     standing = iota // not there, or nobody can tell: it may come back with all its records
	replaced                 // there with another disk: its records are gone
	// there with its disk, which may lack what was not synced before an unclean stop
	unclean
	doubted // there for all we know
	intact  // there, with all it had
)

// standing tells how a member is. An unknown directory is no proof of another disk.
func (e *election) standing(m InSyncReplica) standing {
	b := e.brokers[m.Broker]
	switch {
	case b.Liveness == Down:
		return away
	case b.Epoch == m.Epoch && b.Liveness == Unknown:
		return doubted
	case b.Liveness == Unknown:
		return away
	case b.Epoch == m.Epoch:
		return intact
	case b.Directory != m.Directory && b.Directory != "" && m.Directory != "":
		return replaced
	case b.CleanEpoch == m.Epoch:
		return intact
	default:
		return unclean
	}
}

// sift raises those members that are intact to their present incarnation, and drops those that are
// not: see Decide. While none that stays is intact nobody is dropped: one that is only doubted may
// turn out to be gone, and when all stop in order, all are to be there at the next start.
func (e *election) sift() {
	stays := false
	for i, m := range e.ISR {
		if b := e.brokers[m.Broker]; e.standing(m) == intact {
			e.ISR[i] = InSyncReplica{Broker: m.Broker, Epoch: b.Epoch,
				Directory: either(b.Directory, m.Directory)}
			stays = stays || !b.Leaving
		}
	}
	e.ISR = slices.DeleteFunc(e.ISR, func(m InSyncReplica) bool {
		switch e.standing(m) {
		case intact:
			return stays && e.brokers[m.Broker].Leaving
		case doubted:
			return false
		default:
			return stays
		}
	})
}

// contract ends a reassignment once all of the target are in sync and stay.
func (e *election) contract() {
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

// preference is the order in which replicas are asked to lead.
func (e *election) preference() []int32 {
	return slices.Concat(e.Target, e.Replicas)
}

// member finds a broker's entry.
func (e *election) member(id int32) (m InSyncReplica, ok bool) {
	at := slices.IndexFunc(e.ISR, func(m InSyncReplica) bool { return m.Broker == id })
	if at < 0 {
		return InSyncReplica{}, false
	}
	return e.ISR[at], true
}

// mayLead tells whether a broker is in sync, lives and stays.
func (e *election) mayLead(id int32) bool {
	m, ok := e.member(id)
	return ok && e.standing(m) == intact && !e.brokers[id].Leaving
}

// candidate is the place in the order of preference of who leads if another than the leader is to;
// -1: nobody may. A new partition has no clients that could look for it in the wrong place.
func (e *election) candidate(order []int32) int {
	first := slices.IndexFunc(order, e.mayLead)
	if first < 0 || e.LeaderEpoch == 0 || first == 0 && e.wishes.PreferLeader {
		return first
	}
	best := first
	for at := first + 1; at < len(order); at++ {
		if e.mayLead(order[at]) &&
			e.brokers[order[at]].AddressStaleFor < e.brokers[order[best]].AddressStaleFor {
			best = at
		}
	}
	return best
}

// choose returns who leads, and the incarnation it leads in.
func (e *election) choose() (leader int32, epoch int64) {
	at := e.candidate(e.preference())
	present, in := e.member(e.Leader)
	holds := in && e.standing(present) >= doubted
	switch {
	case holds && at < 0: // perhaps it leaves, but nobody could follow
		return e.Leader, present.Epoch
	case holds && !e.brokers[e.Leader].Leaving && !(e.wishes.PreferLeader && at == 0 && e.standing(present) == intact):
		return e.Leader, present.Epoch
	case at >= 0:
		id := e.preference()[at]
		return id, e.brokers[id].Epoch
	}
	return e.lastResort()
}

// lastResort looks for a leader when no member may lead. What it elects is alone in sync: what the
// others have beyond it is not the log any more.
//
// A member that came back from an unclean stop with its own disk may lack what it had not synced;
// it leads once all other members are there, too, and no better off, since each had every
// acknowledged record. Of several the one that led goes first: it has most. While another is away,
// or leaves, that one may come back intact, and is waited for. Who will not wait says so, for the
// topic or for one disk.
func (e *election) lastResort() (leader int32, epoch int64) {
	for _, may := range []func(id int32) bool{e.accepted, e.returned(true), e.returned(false),
		e.salvage, e.uncleanly} {
		at := slices.IndexFunc(e.preference(), func(id int32) bool {
			return e.brokers[id].Liveness == Up && !e.brokers[id].Leaving && may(id)
		})
		if at < 0 {
			continue
		}
		id := e.preference()[at]
		b := e.brokers[id]
		e.ISR = []InSyncReplica{{Broker: id, Epoch: b.Epoch, Directory: b.Directory}}
		e.unproven = true
		return id, b.Epoch
	}
	return NoLeader, 0
}

// accepted tells whether somebody agreed to go on with what a living broker's disk holds.
func (e *election) accepted(id int32) bool {
	directory := e.brokers[id].Directory
	if directory == "" || e.wishes.AcceptedDataLoss == "" {
		return false
	}
	if m, ok := e.member(id); ok && e.standing(m) == replaced &&
		e.wishes.AcceptedDataLoss == directory {
		// The consent names the new disk, so it does not hold for the next one that is lost. It
		// takes the place of the old disk, and of that alone: other members have the records still.
		return !slices.ContainsFunc(e.ISR,
			func(m InSyncReplica) bool { return e.standing(m) != replaced })
	}
	return e.wishes.AcceptedDataLoss == DataLossConsent(directory, e.before.LeaderEpoch)
}

// returned tells of a member whether it is all that came back of the log: see lastResort.
func (e *election) returned(led bool) func(id int32) bool {
	return func(id int32) bool {
		m, ok := e.member(id)
		if !ok || e.standing(m) != unclean {
			return false
		}
		for _, other := range e.ISR {
			if how := e.standing(other); how != unclean && how != replaced {
				return false
			}
		}
		return !led || e.brokers[id].Directory == e.LeaderDirectory
	}
}

// salvage is uncleanly for a member that crashed. It may lack what it had not synced; who is no
// member lacks what was acknowledged since it was one.
func (e *election) salvage(id int32) bool {
	m, ok := e.member(id)
	return ok && e.standing(m) == unclean && e.uncleanly(id)
}

// uncleanly tells whether a topic would have a broker lead that lacks records; an empty disk only
// when there is no other. Members that are only doubted, or leave, are waited for all the same:
// that is over in a moment.
func (e *election) uncleanly(id int32) bool {
	if !e.wishes.AllowUnclean || slices.ContainsFunc(e.ISR,
		func(m InSyncReplica) bool { return e.standing(m) >= doubted }) {
		return false
	}
	m, ok := e.member(id)
	if !ok || e.standing(m) != replaced {
		return true
	}
	return !slices.ContainsFunc(e.Replicas, func(other int32) bool {
		m, ok := e.member(other)
		b := e.brokers[other]
		return b.Liveness == Up && !b.Leaving && (!ok || e.standing(m) != replaced)
	})
}

// install makes a broker the leader, of a new epoch if that is news: another broker, another
// incarnation, or one whose log knows later epochs, as when the metadata were lost and made again.
// Those are never given out twice.
func (e *election) install(leader int32, epoch int64) {
	led, was := InSyncReplica{}, false
	for _, m := range e.before.ISR {
		if m.Broker == e.before.Leader {
			led, was = m, true
		}
	}
	ahead := e.FoundEpoch != nil && *e.FoundEpoch >= e.LeaderEpoch
	if leader == NoLeader {
		e.Leader = NoLeader
		if e.before.Leader != NoLeader {
			e.LeaderEpoch++
		}
		if e.LeaderEpoch == 0 {
			e.ISR = nil // still new
		}
		return
	}
	if leader == e.before.Leader && was && led.Epoch == epoch && !ahead {
		return
	}
	e.Leader = leader
	if e.FoundEpoch != nil {
		e.LeaderEpoch, e.FoundEpoch = max(e.LeaderEpoch, *e.FoundEpoch), nil
	}
	e.LeaderEpoch++
	if e.unproven || ahead {
		e.UnprovenEpoch = e.LeaderEpoch
	}
	e.LeaderDirectory = either(e.brokers[leader].Directory, e.LeaderDirectory)
}

// decision says what came out, and what an offline partition waits for.
func (e *election) decision() Decision {
	d := Decision{Partition: e.Partition, Unclean: e.unproven}
	if e.Leader != NoLeader {
		return d
	}
	for _, m := range e.ISR {
		switch e.standing(m) {
		case replaced:
			d.Lost = append(d.Lost, m.Broker)
		case unclean:
		default:
			d.Awaited = append(d.Awaited, m.Broker)
		}
	}
	return d
}

// either is the first that is known: a broker that does not tell its disk leaves what is known,
// else its next loss would go unseen.
func either(directory, otherwise string) string {
	if directory != "" {
		return directory
	}
	return otherwise
}
