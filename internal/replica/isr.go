package replica

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// isr is what the leader of a partition knows, in one leader epoch, of the replicas and of who is in sync. It is plain: no lock, clock
// or I/O; whoever holds it passes the time in. docs/replication.md says why its rules are safe.
//
// Invariant: every set that may be the in-sync replicas on record, now or once what is under way has arrived, is a subset of maximal().
// So a high watermark that is at most the least end of maximal() is had by whoever can be elected (KIP-497).
type isr struct {
	self    int32
	start   int64         // where this leader epoch begins in the log
	lagMax  time.Duration // a follower that has not had all of the log for so long is not in sync
	members map[int32]*follower
	// committed is the set on record as well as we know, sorted. The leader is always in it.
	committed []int32
	// before are the sets that were on record in this epoch before committed, and that an image may still tell of: a change of ours
	// is known before the image that has it, and images are of a while ago.
	before [][]int32
	seen   []int32 // what the last image said
	// proposal is a change whose outcome is not known; nil: there is none.
	proposal *proposal
	refused  int // changes in a row that were refused since the last image
	// heldUntil keeps from proposing again at once what was just refused; an image lifts it.
	heldUntil time.Time
}

// follower is what the leader knows of one replica, itself left out.
type follower struct {
	living int64 // the incarnation that lives and may be in sync; -1: none, or it leaves
	epoch  int64 // the incarnation that fetched last in this leader epoch; -1: none has
	end    int64 // what it vouches for: everything below is in its log; -1: unknown
	// caughtUp is the last moment at which it is known to have had all of the leader's log.
	caughtUp time.Time
	// fetched is when it fetched last, and leaderEnd where the leader's log ended then: once it has that, it was caught up then.
	fetched   time.Time
	leaderEnd int64
	cleaned   int64 // cleaned below, as it said; 0: unknown
}

// proposal is a change of the ISR on its way.
type proposal struct {
	to []metadata.InSync
	// unknown: an attempt ended without an answer, and may still arrive. Until one of a later attempt does, or an image tells, both
	// sets may be on record.
	unknown bool
	tries   int // attempts that ended without success since it became unknown
}

// retryHold is how long a refused change waits for an image that explains it.
const retryHold = time.Second

// replicaState is what an image says of one replica.
type replicaState struct {
	broker int32
	living int64 // see follower.living
}

// newISR begins a leader epoch: whoever is in sync counts as caught up now, for it has everything acknowledged, and gets the time to
// fetch; of the others nothing is known.
func newISR(self int32, start int64, lagMax time.Duration) *isr {
	return &isr{self: self, start: start, lagMax: lagMax, members: map[int32]*follower{}}
}

// image takes in what an image of this leader epoch says: the replicas, and the set on record when it was made.
func (i *isr) image(replicas []replicaState, recorded []int32, now time.Time) {
	first := i.committed == nil
	i.settle(sortedSet(append([]int32{i.self}, recorded...)))
	keep := map[int32]bool{}
	for _, r := range replicas {
		if r.broker == i.self {
			continue
		}
		keep[r.broker] = true
		f := i.members[r.broker]
		if f == nil {
			f = &follower{epoch: -1, end: -1}
			if first && slices.Contains(i.committed, r.broker) {
				f.caughtUp = now
			}
			i.members[r.broker] = f
		}
		f.living = r.living
	}
	for id := range i.members {
		if !keep[id] {
			delete(i.members, id)
		}
	}
	i.heldUntil, i.refused = time.Time{}, 0
}

// settle compares the set that an image has with what we take to be on record.
//
// Images come in the order in which they were made, but late. One that shows a set from before committed is old news; one with a set
// that we never saw was made after committed, for a change of ours would not have succeeded on top of it, and is somebody else's
// doing: the operator dropped a member. A set equal to committed does not settle a proposal: it may still arrive.
func (i *isr) settle(recorded []int32) {
	i.seen = recorded
	switch {
	case i.committed == nil:
		i.committed = recorded
	case slices.Equal(recorded, i.committed):
		i.before = nil
	case slices.ContainsFunc(i.before, func(set []int32) bool { return slices.Equal(set, recorded) }):
	case i.proposal != nil && slices.Equal(recorded, i.proposal.ids()):
		i.commit(recorded)
		i.proposal = nil
	default:
		i.commit(recorded)
		if i.proposal != nil && i.proposal.unknown {
			i.proposal = nil // what it would replace is not on record any more, so it cannot arrive
		}
	}
}

// commit makes a set the one on record.
func (i *isr) commit(set []int32) {
	if !slices.Equal(set, i.committed) {
		i.before = append(i.before, i.committed)
	}
	i.committed = set
}

// maximal is every broker that is in a set which may be on record, or may get there.
func (i *isr) maximal() []int32 {
	if i.proposal == nil {
		return i.committed
	}
	return sortedSet(append(slices.Clone(i.committed), i.proposal.ids()...))
}

// fetched takes in that a follower asked for what comes behind end, and so has everything below; the leader's log ends at leaderEnd.
// Whoever calls has made sure that the follower's log does not diverge. It is false for an incarnation that is over.
func (i *isr) fetched(from metadata.InSync, end, leaderEnd int64, now time.Time) bool {
	f := i.members[from.Broker]
	if f == nil || from.Epoch < f.epoch {
		return false
	}
	switch {
	case end >= leaderEnd:
		f.caughtUp = now
	case from.Epoch == f.epoch && end >= f.leaderEnd && f.fetched.After(f.caughtUp):
		f.caughtUp = f.fetched
	}
	f.epoch, f.end, f.fetched, f.leaderEnd = from.Epoch, end, now, leaderEnd
	return true
}

// inTime tells whether the follower has been caught up lately. One that has all of the log is, however long ago it said so.
func (i *isr) inTime(f *follower, leaderEnd int64, now time.Time) bool {
	return f.end >= leaderEnd || !f.caughtUp.IsZero() && now.Sub(f.caughtUp) <= i.lagMax
}

// highWatermark is how far the high watermark may go, -1 if that is not known yet: to the least end of all who may be in sync, ownEnd
// for the leader. It waits also for a follower that is about to join: else, under a steady load, the high watermark would always be
// ahead of what that one has, and it could never join.
func (i *isr) highWatermark(ownEnd, leaderEnd int64, now time.Time) int64 {
	least := ownEnd
	maximal := i.maximal()
	for id, f := range i.members {
		joins := f.living >= 0 && f.living == f.epoch && f.end >= i.start && i.inTime(f, leaderEnd, now)
		if joins || slices.Contains(maximal, id) {
			least = min(least, f.end)
		}
	}
	for _, id := range maximal {
		if id != i.self && i.members[id] == nil {
			return -1 // in sync, and no replica: an image that contradicts itself
		}
	}
	return least
}

// propose returns the change that the leader should ask for now; ok is false if there is none, or one has to wait. hw is the high
// watermark. The outcome goes to settled.
//
// A member is named in the incarnation that has fetched everything below hw, never in another: one that came back without its last
// records lives in a new incarnation and must not be taken for what it was. So a change waits until all who stay have fetched.
func (i *isr) propose(own int64, hw, leaderEnd int64, now time.Time) (from []int32, to []metadata.InSync, ok bool) {
	if own < 0 || now.Before(i.heldUntil) {
		return nil, nil, false
	}
	if p := i.proposal; p != nil {
		if !p.unknown {
			return nil, nil, false // under way
		}
		return i.assumed(), p.to, true
	}
	to = []metadata.InSync{{Broker: i.self, Epoch: own}}
	for id, f := range i.members {
		confirmed := f.living >= 0 && f.epoch == f.living && f.end >= hw
		switch member := slices.Contains(i.committed, id); {
		case member && f.living >= 0 && f.epoch != f.living && i.inTime(f, leaderEnd, now):
			return nil, nil, false // it stays, and has not fetched yet, or the image is behind
		case confirmed && i.inTime(f, leaderEnd, now) && (member || f.end >= i.start):
			to = append(to, metadata.InSync{Broker: id, Epoch: f.epoch})
		}
	}
	slices.SortFunc(to, func(a, b metadata.InSync) int { return int(a.Broker) - int(b.Broker) })
	if slices.Equal(idsOf(to), i.committed) {
		return nil, nil, false
	}
	i.proposal = &proposal{to: to}
	if i.refused%2 == 1 && i.seen != nil {
		return i.seen, to, true // committed is not on record, it seems
	}
	return i.committed, to, true
}

// assumed is what a change of unknown outcome is tried on top of: each set that may be on record, in turn. A change that is on record
// already is thus confirmed by one that changes nothing.
func (i *isr) assumed() []int32 {
	switch i.proposal.tries % 3 {
	case 0:
		return i.committed
	case 1:
		return i.proposal.ids()
	}
	return i.seen
}

// Outcomes of a proposal.
type outcome int

const (
	outcomeDone     outcome = iota
	outcomeConflict         // nothing was changed by this attempt
	outcomeUnknown
)

// settled takes in how an attempt ended.
func (i *isr) settled(to []metadata.InSync, o outcome, now time.Time) {
	switch {
	case o == outcomeDone:
		i.commit(idsOf(to))
		i.proposal, i.refused = nil, 0
	case i.proposal == nil:
		// An image told first.
	case o == outcomeUnknown:
		i.proposal.unknown = true
		i.heldUntil = now.Add(retryHold)
	case i.proposal.unknown:
		i.proposal.tries++ // the attempt of before may have arrived, or may yet
		i.heldUntil = now.Add(retryHold)
	default:
		i.proposal = nil
		i.refused++
		i.heldUntil = now.Add(retryHold)
	}
}

// cleaned is below which offset all replicas have cleaned their logs, own for this one: 0 while one has not said.
func (i *isr) cleaned(own int64) int64 {
	for _, f := range i.members {
		own = min(own, f.cleaned)
	}
	return own
}

func (p *proposal) ids() []int32 { return idsOf(p.to) }

// idsOf returns the sorted broker ids.
func idsOf(members []metadata.InSync) []int32 {
	ids := make([]int32, len(members))
	for i, m := range members {
		ids[i] = m.Broker
	}
	return sortedSet(ids)
}

// sortedSet sorts ids, which are the caller's to give away, and drops doubles.
func sortedSet(ids []int32) []int32 {
	slices.Sort(ids)
	return slices.Compact(ids)
}
