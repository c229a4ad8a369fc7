package isr

import (
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// AnyIncarnation is the replica incarnation id that stands for a follower of an earlier version,
// which does not send one.
const AnyIncarnation = "*"

// Session is a follower's fetch session. State compares sessions for identity.
type Session interface {
	// LastFetch returns the time of the session's last fetch, whichever partitions it named.
	LastFetch() time.Time
}

// Fetch is what a follower's fetch request reports about its replica.
type Fetch struct {
	From metadata.InSync // broker, broker epoch and replica incarnation
	// DurableEnd is the end offset up to which the follower vouches for its log.
	DurableEnd     int64
	LogStart       int64
	TombstoneClean int64 // the follower's tombstone-clean offset
	// Session is the fetch session that contains the partition; nil: the follower names the
	// partition in each fetch.
	Session Session
}

// follower is what the leader knows of one other replica.
type follower struct {
	liveEpoch  int64 // the broker epoch that is alive and may be in sync; -1: none
	fetchEpoch int64 // the broker epoch of the last fetch in this leader epoch; -1: no fetch yet
	durableEnd int64 // everything below is in the follower's log; -1: unknown
	// caughtUpAt is the last time at which the follower is known to have had the leader's whole
	// log.
	caughtUpAt time.Time
	// lastFetch is the time of the last fetch, and leaderEndThen the leader's log end offset at
	// that time: once the follower has reached that offset, it was caught up at lastFetch.
	lastFetch      time.Time
	leaderEndThen  int64
	tombstoneClean int64  // its tombstone-clean offset; 0: unknown
	logStart       int64  // its log start offset; 0: unknown
	incarnation    string // its replica incarnation id; "": it has none, and any is accepted
	// session contains the time at which the follower last fetched anything. At that time the
	// follower still had the same part of this partition. nil: the follower names the partition in
	// each fetch.
	session Session
	// exitedEpoch is a broker epoch whose process has probably exited and that has not fetched
	// since; -1: none.
	exitedEpoch int64
	// Broker epochs below fencedBelow are fenced. Unlike an exitedEpoch, a fenced epoch has
	// certainly ended; see metadata.Ended.
	fencedBelow int64
}

// isAlive reports whether the follower's broker is alive and not in controlled shutdown, as far as
// the leader knows.
func (f *follower) isAlive() bool { return f.liveEpoch >= 0 && f.exitedEpoch != f.liveEpoch }

// matches reports whether a log that was created for a replica incarnation belongs to this
// follower.
func (f *follower) matches(incarnation string) bool {
	return f.incarnation == "" || incarnation == f.incarnation || incarnation == AnyIncarnation
}

// Fetched processes a follower's fetch. The caller has checked that the follower's log does not
// diverge below fetch.DurableEnd. leaderEnd is the leader's log end offset.
//
// ok is false, and nothing changes, for an unknown replica, a broker epoch older than the last one,
// and a log of another replica incarnation. first reports whether this is the broker epoch's first
// fetch in the leader epoch.
func (s *State) Fetched(fetch Fetch, leaderEnd int64, now time.Time) (first, ok bool) {
	f := s.followers[fetch.From.Broker]
	if f == nil || fetch.From.Epoch < f.fetchEpoch || !f.matches(fetch.From.ReplicaIncarnation) {
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
	return !sameEpoch, true
}

// SetLogEnd records the leader's log end offset. A follower that had the whole log until now, and
// omitted the partition from its session's fetches since, was caught up at the session's last
// fetch. (The log grows shortly before the caller reports it, and a follower may fetch in between;
// its lag is underestimated by that time.)
func (s *State) SetLogEnd(leaderEnd int64) {
	if leaderEnd == s.logEnd {
		return
	}
	for _, f := range s.followers {
		f.creditSession(s.logEnd)
	}
	s.logEnd = leaderEnd
}

// creditSession sets caughtUpAt to the time of the session's last fetch, if the follower had the
// whole log before leaderEnd.
func (f *follower) creditSession(leaderEnd int64) {
	if f.session == nil || f.durableEnd < leaderEnd {
		return
	}
	if at := f.session.LastFetch(); at.After(f.caughtUpAt) {
		f.caughtUpAt = at
	}
}

// SessionClosed processes that a follower's session no longer contains the partition: later fetches
// of the session are no fetches of the partition.
func (s *State) SessionClosed(broker int32, session Session) {
	if f := s.followers[broker]; f != nil && f.session == session {
		f.creditSession(s.logEnd)
		f.session = nil
	}
}

// ProcessExited processes a sign that a broker's process has exited, before an image shows it. The
// sign is a hint: Propose removes the follower from the ISR, and adds it again should it fetch.
// ProcessExited reports whether the sign is new.
func (s *State) ProcessExited(member metadata.InSync) bool {
	f := s.followers[member.Broker]
	if f == nil || f.liveEpoch != member.Epoch || f.exitedEpoch == member.Epoch {
		return false
	}
	f.exitedEpoch = member.Epoch
	return true
}

// isCaughtUp reports whether the follower was caught up at some time within the last lagMax. A
// follower that has the whole log is caught up, however long ago it last fetched.
func (s *State) isCaughtUp(f *follower, leaderEnd int64, now time.Time) bool {
	return f.durableEnd >= leaderEnd || !f.caughtUpAt.IsZero() && now.Sub(f.caughtUpAt) <= s.lagMax
}
