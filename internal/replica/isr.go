package replica

import (
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// isr is what the leader of a partition knows, in one leader epoch, of the replicas and of who is
// in sync. It is plain: no lock, clock or I/O; whoever holds it passes the time in.
// docs/replication.md says why its rules are safe.
//
// Invariant: every set that may be the in-sync replicas on record, now or once what is under way
// has arrived, is a subset of maximal(). So a high watermark that is at most the least end of
// maximal() is had by whoever can be elected (KIP-497).
type isr struct {
	self int32
	// assignment is by which the leader is a replica, says the image.
	assignment string
	start      int64 // where this leader epoch begins in the log
	end        int64 // where the leader's log ended when it was last told of
	// a follower that has not had all of the log for so long is not in sync
	lagMax  time.Duration
	members map[int32]*follower
	// committed is the set on record as well as we know, sorted, without those of whom we know that
	// their incarnation on record has ended. The leader is always in it.
	committed []int32
	// recorded is in which incarnation each of committed is on record at the least; one that is
	// missing may be in any.
	recorded map[int32]int64
	// seen is what the last image said. It is a hint and no more: images are of a while ago.
	seen []int32
	// trusted is until when an image that says something else than committed is taken for old.
	trusted time.Time
	// surprised: a change was refused since, so committed is not on record, it seems, and what the
	// image says may well be.
	surprised bool
	// proposal is the change that is under way; nil: none is.
	proposal *proposal
	// doubts are changes whose attempt ended without an answer: each may be on record, or may still
	// get there, as long as nothing else has been put on record after it.
	doubts []doubt
	// attempts in a row that were refused since the last one that was not, or the last image with
	// news
	refused int
	// heldUntil keeps from proposing again at once what was just refused. An image lifts it that
	// says something else of this partition than the one before: most come for others' sake,
	// hundreds of them after a broker died.
	heldUntil time.Time
}

// follower is what the leader knows of one replica, itself left out.
type follower struct {
	living int64 // the incarnation that lives and may be in sync; -1: none, or it leaves
	epoch  int64 // the incarnation that fetched last in this leader epoch; -1: none has
	end    int64 // what it vouches for: everything below is in its log; -1: unknown
	// caughtUp is the last moment at which it is known to have had all of the leader's log.
	caughtUp time.Time
	// fetched is when it fetched last, and leaderEnd where the leader's log ended then: once it has
	// that, it was caught up then.
	fetched   time.Time
	leaderEnd int64
	lonely    int64 // its tombstones below are lonely, as it said; 0: unknown
	logStart  int64 // where its log begins, as it said; 0: unknown
	// assignment is by which it is a replica, says the image; "": it has no name, and any will do.
	assignment string
	// asks tells when the follower last asked for anything, in a session that has this partition:
	// nothing new was said of it then. nil: it names the partition each time.
	asks *lastAsk
	// ended is the incarnation whose process seems to have ended, and that has not fetched since;
	// -1: none.
	ended int64
	// over: incarnations below it have ended for good, where they are on record as in sync. Unlike
	// ended it is no hint; see metadata.Ended.
	over int64
}

// lives tells whether the follower's incarnation on record is alive and stays, as far as anybody
// knows.
func (f *follower) lives() bool { return f.living >= 0 && f.ended != f.living }

// proposal is a change of the ISR under way.
type proposal struct {
	from []int32
	to   []metadata.InSync
}

// doubt is a set that may be on record, or get there.
type doubt struct {
	to    []metadata.InSync
	since time.Time
}

// doubtMax is how long after its end an attempt may still arrive: longer than any store, or the
// network to it, holds on to a request that its sender has given up.
const doubtMax = 30 * time.Second

// imageDelay is how long after a change of ours an image may well be one of before.
const imageDelay = 2 * time.Second

// retryHold is how long a refused change waits for an image that explains it; refused again and
// again, up to heldMax.
const (
	retryHold = time.Second
	heldMax   = 4 * time.Second
)

// replicaState is what an image says of one replica.
type replicaState struct {
	broker     int32
	living     int64  // see follower.living
	assignment string // see follower.assignment
	recorded   int64  // in which incarnation it is in sync on record; -1: in none, or nobody says
	over       int64  // see follower.over
}

// newISR begins a leader epoch: whoever is in sync counts as caught up now, for it has everything
// acknowledged, and gets the time to fetch; of the others nothing is known.
func newISR(self int32, start int64, lagMax time.Duration) *isr {
	return &isr{self: self, start: start, end: start, lagMax: lagMax,
		members: map[int32]*follower{}, recorded: map[int32]int64{}}
}

// image takes in what an image of this leader epoch says: the replicas, and the set that was on
// record when it was made.
//
// Only the first one's set is believed. A later one may be older than a change of ours, or a change
// of the operator's that another has undone; if it keeps contradicting, a compare-and-swap finds
// out (propose). But images come in order, and one that has taken a replica away has taken it from
// the set on record, too; so has one that shows it by another assignment, for it was taken away in
// between. (A name that vanishes is none: a broker or an operator of an earlier version has written
// the resource.) And an incarnation that has ended for good counts no more, whether it is on record
// or not: it cannot be elected.
func (i *isr) image(replicas []replicaState, recorded []int32, now time.Time) {
	first := i.committed == nil
	seen := sortedSet(append([]int32{i.self}, recorded...))
	news := first || !slices.Equal(seen, i.seen)
	i.seen = seen
	if first {
		i.committed = i.seen
	}
	keep := map[int32]bool{i.self: true}
	for _, r := range replicas {
		f := i.members[r.broker]
		keep[r.broker] = f == nil || r.assignment == "" || r.assignment == f.assignment
	}
	i.forget(func(id int32) bool { return !keep[id] })
	for _, r := range replicas {
		if r.broker == i.self {
			i.assignment = r.assignment
			continue
		}
		f := i.members[r.broker]
		if f == nil {
			f = &follower{epoch: -1, end: -1, ended: -1}
			if first && slices.Contains(i.committed, r.broker) {
				f.caughtUp = now
			}
			i.members[r.broker] = f
			news = true
		}
		news = news || f.living != r.living
		f.living, f.assignment, f.over = r.living, r.assignment, max(f.over, r.over)
		if first && r.recorded >= 0 {
			i.recorded[r.broker] = r.recorded
		}
	}
	i.committed = slices.DeleteFunc(slices.Clone(i.committed), func(id int32) bool {
		epoch, known := i.recorded[id]
		return known && i.isOver(metadata.InSync{Broker: id, Epoch: epoch})
	})
	if news {
		i.heldUntil, i.refused = time.Time{}, 0
	}
}

// forget drops replicas, and from every set that may be on record.
func (i *isr) forget(gone func(id int32) bool) {
	maps.DeleteFunc(i.members, func(id int32, _ *follower) bool { return gone(id) })
	i.committed = slices.DeleteFunc(slices.Clone(i.committed), gone)
	for at := range i.doubts {
		i.doubts[at].to = slices.DeleteFunc(slices.Clone(i.doubts[at].to),
			func(m metadata.InSync) bool { return gone(m.Broker) })
	}
}

// isOver tells whether a member's incarnation has ended for good.
func (i *isr) isOver(m metadata.InSync) bool {
	f := i.members[m.Broker]
	return f != nil && m.Epoch < f.over
}

// maximal is every broker that is in a set which may be on record, or may get there, in an
// incarnation that can be elected.
func (i *isr) maximal() []int32 {
	if i.proposal == nil && len(i.doubts) == 0 {
		return i.committed
	}
	all := slices.Clone(i.committed)
	for _, d := range i.doubts {
		all = append(all, i.electable(d.to)...)
	}
	if i.proposal != nil {
		all = append(all, i.electable(i.proposal.to)...)
	}
	return sortedSet(all)
}

// electable are the sorted ids of members, without those whose incarnation has ended for good.
func (i *isr) electable(members []metadata.InSync) []int32 {
	return idsOf(slices.DeleteFunc(slices.Clone(members), i.isOver))
}

// fetched takes in that a follower asked for what comes behind end, and so has everything below;
// the leader's log ends at leaderEnd. Whoever calls has made sure that the follower's log does not
// diverge. It is false for an incarnation that is over, and for a log that was made for another
// assignment.
func (i *isr) fetched(from metadata.InSync, end, leaderEnd int64, now time.Time) bool {
	f := i.members[from.Broker]
	if f == nil || from.Epoch < f.epoch || !f.knows(from.ReplicaIncarnation) {
		return false
	}
	switch {
	case end >= leaderEnd:
		f.caughtUp = now
	case from.Epoch == f.epoch && end >= f.leaderEnd && f.fetched.After(f.caughtUp):
		f.caughtUp = f.fetched
	}
	f.epoch, f.end, f.fetched, f.leaderEnd, f.ended = from.Epoch, end, now, leaderEnd, -1
	return true
}

// grown takes in where the leader's log ends. Whoever had all of it until now, and had nothing to
// say of it, was caught up when it last asked for anything. (The end grows a moment before that is
// told of, and a follower may ask in between; it is so much less behind.)
func (i *isr) grown(leaderEnd int64) {
	if leaderEnd == i.end {
		return
	}
	for _, f := range i.members {
		f.asked(i.end)
	}
	i.end = leaderEnd
}

// asked counts a follower that had everything up to end as caught up when it last asked.
func (f *follower) asked(end int64) {
	if f.asks == nil || f.end < end {
		return
	}
	if at := f.asks.last(); at.After(f.caughtUp) {
		f.caughtUp = at
	}
}

// asksNoMore takes in that a follower's session has the partition no more: from now on it does not
// vouch by it.
func (i *isr) asksNoMore(broker int32, asks *lastAsk) {
	if f := i.members[broker]; f != nil && f.asks == asks {
		f.asked(i.end)
		f.asks = nil
	}
}

// processEnded takes in a sign that a broker's process has ended, which no image tells yet. It is a
// hint like any other: the follower is proposed to be dropped, and to be taken in again should it
// fetch. It is false if that changes nothing.
func (i *isr) processEnded(of metadata.InSync) bool {
	f := i.members[of.Broker]
	if f == nil || f.living != of.Epoch || f.ended == of.Epoch {
		return false
	}
	f.ended = of.Epoch
	return true
}

// knows tells whether a log was made for the assignment by which the follower is a replica.
func (f *follower) knows(assignment string) bool {
	return f.assignment == "" || assignment == f.assignment || assignment == AnyReplicaIncarnation
}

// inTime tells whether the follower has been caught up lately. One that has all of the log is,
// however long ago it said so.
func (i *isr) inTime(f *follower, leaderEnd int64, now time.Time) bool {
	return f.end >= leaderEnd || !f.caughtUp.IsZero() && now.Sub(f.caughtUp) <= i.lagMax
}

// highWatermark is how far the high watermark may go, -1 if that is not known yet: to the least end
// of all who may be in sync, ownEnd for the leader. It waits also for a follower that is about to
// join: else, under a steady load, the high watermark would always be ahead of what that one has,
// and it could never join.
func (i *isr) highWatermark(ownEnd, leaderEnd int64, now time.Time) int64 {
	least := ownEnd
	maximal := i.maximal()
	for id, f := range i.members {
		joins := f.lives() && f.living == f.epoch && f.end >= i.start && i.inTime(f, leaderEnd, now)
		if joins || slices.Contains(maximal, id) {
			least = min(least, f.end)
		}
	}
	for _, id := range maximal {
		if id != i.self && i.members[id] == nil {
			return -1 // proposed, and no replica any more: its outcome will come
		}
	}
	return least
}

// extent is how far the leader's log goes.
type extent struct {
	start int64
	hw    int64 // the high watermark
	end   int64
}

// propose returns the change that the leader should ask for now; ok is false if there is none, or
// one has to wait. own is this broker's incarnation, -1 if it must not propose. The outcome goes to
// settled.
//
// A member is named in the incarnation that has fetched everything below hw, never in another: one
// that came back without its last records lives in a new incarnation and must not be taken for what
// it was. So a change waits until all who stay have fetched. Nor does one join that still has
// records which this leader has deleted: who asked for that may have been told that nobody in sync
// does (AwaitLogStart).
//
// While there are doubts, or images keep contradicting, a change is asked for in any case, on top
// of each set that may be on record, in turn: one that succeeds ends them.
func (i *isr) propose(own int64, log extent, now time.Time) (from []int32, to []metadata.InSync,
	ok bool) {
	if own < 0 || i.proposal != nil || now.Before(i.heldUntil) {
		return nil, nil, false
	}
	to = []metadata.InSync{{Broker: i.self, Epoch: own, ReplicaIncarnation: i.assignment}}
	for id, f := range i.members {
		confirmed := f.lives() && f.epoch == f.living && f.end >= log.hw
		switch member := slices.Contains(i.committed, id); {
		case member && f.lives() && f.epoch != f.living && i.inTime(f, log.end, now):
			return nil, nil, false // it stays, and has not fetched yet, or the image is behind
		case confirmed && i.inTime(f, log.end, now) && (member || f.end >= i.start && f.logStart >= log.start):
			to = append(to, metadata.InSync{Broker: id, Epoch: f.epoch,
				ReplicaIncarnation: f.assignment})
		}
	}
	slices.SortFunc(to, func(a, b metadata.InSync) int { return int(a.Broker) - int(b.Broker) })
	contradicted := (i.surprised || now.After(i.trusted)) && !slices.Equal(i.seen, i.committed)
	if len(i.doubts) == 0 && !contradicted && slices.Equal(idsOf(to), i.committed) {
		return nil, nil, false
	}
	i.proposal = &proposal{from: i.assumed(contradicted), to: to}
	return i.proposal.from, to, true
}

// assumed is what a change is tried on top of: what we hold for committed, or the contradicting
// image does, and after a refusal the other sets that may be on record.
func (i *isr) assumed(contradicted bool) []int32 {
	sets := [][]int32{i.committed}
	for _, d := range i.doubts {
		sets = append(sets, i.electable(d.to))
	}
	if contradicted {
		sets = slices.Insert(sets, 0, i.seen)
	} else {
		sets = append(sets, i.seen)
	}
	if contradicted && i.surprised && i.refused > 0 {
		return sets[(i.refused-1)%len(sets)] // the first try was committed
	}
	return sets[i.refused%len(sets)]
}

// Outcomes of a proposal.
type outcome int

const (
	outcomeDone     outcome = iota
	outcomeConflict         // nothing was changed
	outcomeUnknown
)

// settled takes in how the proposal ended.
//
// What was done is on record now, on top of whatever arrived before; a late write of before finds
// another version of the resource, and fails. Only if nothing had to be changed the version may be
// the same: then doubts end with time.
func (i *isr) settled(o outcome, now time.Time) {
	p := i.proposal
	i.proposal = nil
	switch ids := idsOf(p.to); o {
	case outcomeDone:
		i.committed, i.refused, i.trusted, i.surprised = i.electable(p.to), 0, now.Add(imageDelay),
			false
		clear(i.recorded)
		for _, m := range p.to {
			i.recorded[m.Broker] = m.Epoch
		}
		if !slices.Equal(p.from, ids) {
			i.doubts = nil
		}
		i.doubts = slices.DeleteFunc(i.doubts,
			func(d doubt) bool { return now.Sub(d.since) > doubtMax })
		if len(i.doubts) > 0 {
			i.heldUntil = now.Add(retryHold)
		}
	case outcomeUnknown:
		i.doubts = slices.DeleteFunc(i.doubts,
			func(d doubt) bool { return slices.Equal(idsOf(d.to), ids) })
		i.doubts = append(i.doubts, doubt{p.to, now})
		i.heldUntil = now.Add(retryHold)
	case outcomeConflict:
		i.refused++
		if i.refused > 1 || slices.Equal(p.from, i.seen) {
			i.heldUntil = now.Add(min(time.Duration(i.refused)*retryHold, heldMax))
		}
		i.surprised = true
		if len(i.doubts) == 0 && slices.Equal(p.from, i.seen) {
			i.trusted, i.surprised = now.Add(imageDelay), false // the image was the old one
		}
	}
}

// lonely is below which offset the tombstones of all replicas are, own for this one: 0 while one
// has not said.
func (i *isr) lonely(own int64) int64 {
	for _, f := range i.members {
		own = min(own, f.lonely)
	}
	return own
}

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
