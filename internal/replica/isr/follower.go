package isr

import (
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// Session is a follower's fetch session. State compares sessions by identity.
type Session interface {
	// LastFetch returns the time of the session's last fetch, even if that fetch did not name this
	// partition.
	LastFetch() time.Time
}

// Fetch contains the state of a replica that a follower reports in a fetch request.
type Fetch struct {
	From metadata.InSync // broker, broker epoch and replica incarnation id of the follower
	// DurableEnd is the follower's durable end offset.
	DurableEnd     int64
	LogStart       int64
	TombstoneClean int64 // tombstone-clean offset of the follower
	// Session is the fetch session that contains the partition; nil if the follower names the
	// partition in each fetch.
	Session Session
}

// follower contains what the leader knows about another replica.
type follower struct {
	liveEpoch  int64 // current epoch of the broker; see Replica.LiveEpoch
	fetchEpoch int64 // broker epoch of the last fetch in this leader epoch; -1 before the first fetch
	durableEnd int64 // durable end offset of the follower; -1: unknown
	// caughtUpAt is the last time at which the follower is known to have had the leader's whole log.
	caughtUpAt time.Time
	// lastFetch is the time of the last fetch, and leaderEndThen is the leader's log end offset at
	// that time. If the follower later has all records below leaderEndThen, it was caught up at
	// lastFetch.
	lastFetch      time.Time
	leaderEndThen  int64
	tombstoneClean int64  // tombstone-clean offset of the follower; 0: unknown
	logStart       int64  // log start offset of the follower; 0: unknown
	incarnation    string // replica incarnation id
	// session is the fetch session that contains the partition; nil if the follower names the
	// partition in each fetch. At session.LastFetch() the follower's log still had the end offset
	// durableEnd.
	session Session
	// sessionLeft is set after the partition was removed from the session, until the next fetch.
	sessionLeft bool
	// removedAt is the time at which the leader last accepted that another writer had removed the
	// follower; zero: never.
	removedAt time.Time
	// exitedEpoch is the broker epoch of a process that has probably exited, and that has not fetched
	// since; -1 if there is none.
	exitedEpoch int64
	// Broker epochs below fencedBelow are fenced; see Replica.FencedBelow. A process with a fenced
	// epoch has certainly exited, unlike the process with exitedEpoch.
	fencedBelow int64
}

// isAlive reports whether, as far as the leader knows, the follower's broker is alive and not in
// controlled shutdown.
func (f *follower) isAlive() bool { return f.liveEpoch >= 0 && f.exitedEpoch != f.liveEpoch }

// fetches reports whether the follower fetches the partition, as far as the leader knows. A
// follower whose log has stopped does not: it removes itself from the ISR (ADR 0350), and removes
// the partition from its session. So a fetch that arrived before the removal proves nothing.
func (f *follower) fetches() bool {
	last := f.lastFetch
	if f.session != nil {
		last = f.session.LastFetch()
	}
	return !f.sessionLeft && last.After(f.removedAt)
}

// Fetched processes a follower's fetch. The caller has checked that the follower's log does not
// diverge below fetch.DurableEnd. leaderEnd is the leader's log end offset.
//
// If ok is false, nothing has changed: the follower is not a known replica, has an older broker
// epoch than in its last fetch, or has a log of another replica incarnation. first reports whether
// this is the first fetch of this broker epoch in the leader epoch.
func (s *State) Fetched(fetch Fetch, leaderEnd int64, now time.Time) (first, ok bool) {
	f := s.followers[fetch.From.Broker]
	if f == nil || fetch.From.Epoch < f.fetchEpoch || fetch.From.ReplicaIncarnation != f.incarnation {
		return false, false
	}
	sameEpoch := fetch.From.Epoch == f.fetchEpoch
	switch {
	case fetch.DurableEnd >= leaderEnd:
		f.caughtUpAt = now
	case sameEpoch && fetch.DurableEnd >= f.leaderEndThen && f.lastFetch.After(f.caughtUpAt):
		f.caughtUpAt = f.lastFetch
	}
	f.fetchEpoch, f.durableEnd = fetch.From.Epoch, fetch.DurableEnd
	f.lastFetch, f.leaderEndThen, f.exitedEpoch = now, leaderEnd, -1
	f.tombstoneClean, f.logStart, f.session = fetch.TombstoneClean, fetch.LogStart, fetch.Session
	f.sessionLeft = false
	return !sameEpoch, true
}

// SetLogEnd stores the leader's log end offset. A follower that had the whole log until now may
// have omitted the partition from the later fetches of its session, so it was caught up at its
// session's last fetch. The caller calls SetLogEnd shortly after the log has grown. If a follower
// fetches in between, its lag is underestimated by that short time.
func (s *State) SetLogEnd(leaderEnd int64) {
	if leaderEnd == s.logEnd {
		return
	}
	for _, f := range s.followers {
		f.creditSession(s.logEnd)
	}
	s.logEnd = leaderEnd
}

// creditSession sets caughtUpAt to the time of the session's last fetch, if the follower had all
// records below leaderEnd at that time.
func (f *follower) creditSession(leaderEnd int64) {
	if f.session == nil || f.durableEnd < leaderEnd {
		return
	}
	if moment := f.session.LastFetch(); moment.After(f.caughtUpAt) {
		f.caughtUpAt = moment
	}
}

// SessionClosed must be called when a follower's session no longer contains the partition, because
// the session's later fetches do not concern the partition. The follower joins the ISR only after
// it has fetched the partition again.
func (s *State) SessionClosed(broker int32, session Session) {
	if f := s.followers[broker]; f != nil && f.session == session {
		f.creditSession(s.logEnd)
		f.session, f.sessionLeft = nil, true
	}
}

// ProcessExited processes a hint that a broker's process has exited, before an image shows the
// exit. Propose then removes the follower from the ISR; after its next fetch, Propose adds it
// again. ProcessExited reports whether the hint is new.
func (s *State) ProcessExited(member metadata.InSync) bool {
	f := s.followers[member.Broker]
	if f == nil || f.liveEpoch != member.Epoch || f.exitedEpoch == member.Epoch {
		return false
	}
	f.exitedEpoch = member.Epoch
	return true
}

// isCaughtUp reports whether the follower was caught up at some time within the last lagMax. A
// follower that has the whole log counts as caught up, however long ago it last fetched.
func (s *State) isCaughtUp(f *follower, leaderEnd int64, now time.Time) bool {
	return f.durableEnd >= leaderEnd || !f.caughtUpAt.IsZero() && now.Sub(f.caughtUpAt) <= s.lagMax
}
