package isr

import (
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// RetryDelay is how long Propose waits after a conflict, so that an image can show its cause, or
// after an update without an answer. The delay grows with each further conflict, up to
// retryDelayMax.
const (
	RetryDelay    = time.Second
	retryDelayMax = 4 * time.Second
)

// pendingMax is the longest time for which an update that ended without an answer can still arrive.
// No store or network delays a request for so long after its sender has abandoned it.
const pendingMax = 30 * time.Second

// imageDelay is the maximum delay between a recorded update and an image that contains it.
const imageDelay = 2 * time.Second

// update is a change of the ISR from one set to another.
type update struct {
	from []int32
	to   []metadata.InSync
	sent time.Time
}

// pendingUpdate is an ISR that may already be recorded, or may be recorded later.
type pendingUpdate struct {
	to    []metadata.InSync
	since time.Time
}

// Extent contains the start and end offsets of the leader's log, and its high watermark.
type Extent struct {
	Start         int64
	HighWatermark int64
	End           int64
}

// Outcome is the result of an update.
type Outcome int

// These are the outcomes of an update.
const (
	Recorded Outcome = iota // the new set is recorded as the ISR
	// the recorded ISR is not the set that the update assumed, so nothing has changed
	Conflict
	Unknown // no answer was received: the update may be recorded, now or later
)

// Propose returns the ISR update that the leader must send now. from is the set that the update
// assumes to be recorded, and to is the proposed ISR. ok is false if no update is necessary, or if
// the update must wait. own is the leader's broker epoch, or -1 if the leader must not propose.
// After each update the caller must call Settle or Withdraw.
//
// Each member in the update has a broker epoch in which it has fetched everything below the high
// watermark. A broker that restarted without its last records has a new epoch and must not be
// mistaken for its earlier process (KIP-903). So an update waits until every remaining member has
// fetched. A follower that still has records that the leader has deleted must not join: a client
// may already have received the response that no in-sync replica has these records
// (Set.AwaitLogStart). Nor must a follower that has ceased to fetch the partition, although it has
// the whole log: its log may have stopped.
//
// While updates are pending, or images continue to contradict the recorded ISR, the leader sends an
// update even if it does not change the ISR. Each attempt assumes a different one of the ISRs that
// may be recorded. The first attempt that succeeds resolves the uncertainty. An update may also
// change only a member's broker epoch, because a member that is recorded with a fenced epoch cannot
// be elected.
func (s *State) Propose(own int64, log Extent, now time.Time) (from []int32, to []metadata.InSync,
	ok bool) {
	if own < 0 || s.inFlight != nil || now.Before(s.retryAt) {
		return nil, nil, false
	}
	to = []metadata.InSync{{Broker: s.self, Epoch: own, ReplicaIncarnation: s.incarnation}}
	renewed := false // true if a member gets another broker epoch
	for id, f := range s.followers {
		complete := f.isAlive() && f.fetchEpoch == f.liveEpoch && f.durableEnd >= log.HighWatermark
		caughtUp := s.isCaughtUp(f, log.End, now)
		member := s.IsRecorded(id)
		mayJoin := f.fetches() && f.durableEnd >= s.epochStart && f.logStart >= log.Start
		switch {
		case member && f.isAlive() && f.fetchEpoch != f.liveEpoch && caughtUp &&
			!s.isFenced(id, f):
			// Wait: the member has not fetched in its live epoch yet, or the image is stale.
			return nil, nil, false
		case complete && caughtUp && (member || mayJoin):
			to = append(to, metadata.InSync{Broker: id, Epoch: f.fetchEpoch,
				ReplicaIncarnation: f.incarnation})
			renewed = renewed || member && s.isFenced(id, f)
		}
	}
	slices.SortFunc(to, func(a, b metadata.InSync) int { return int(a.Broker) - int(b.Broker) })
	contradicted := (s.lastUpdateConflicted || now.After(s.metadataStaleUntil)) &&
		!slices.Equal(s.inMetadata, s.recorded)
	if len(s.pendingUpdates) == 0 && !contradicted && !renewed &&
		slices.Equal(idsOf(to), s.recorded) {
		return nil, nil, false
	}
	s.inFlight = &update{from: s.assumed(contradicted), to: to, sent: now}
	return s.inFlight.from, to, true
}

// assumed returns the set that the next update assumes to be recorded. The first attempt assumes
// the leader's own set, or the image's ISR if images contradict the leader. After each conflict, it
// assumes the next of the sets that may be recorded.
func (s *State) assumed(contradicted bool) []int32 {
	sets := [][]int32{s.recorded}
	for _, p := range s.pendingUpdates {
		sets = append(sets, idsOf(p.to))
	}
	if contradicted {
		sets = slices.Insert(sets, 0, s.inMetadata)
	} else {
		sets = append(sets, s.inMetadata)
	}
	if contradicted && s.lastUpdateConflicted && s.conflicts > 0 {
		return sets[(s.conflicts-1)%len(sets)] // the attempt before the conflict assumed s.recorded
	}
	return sets[s.conflicts%len(sets)]
}

// Withdraw discards the proposed update, which was not sent.
func (s *State) Withdraw() { s.inFlight = nil }

// Settle processes the outcome of the update in flight. partitionEpoch is the partition epoch after
// an update that was recorded.
//
// A recorded update replaces every set that was recorded before. An earlier update that arrives
// later fails, because the version of the resource has changed. Only an update that changed nothing
// may have left the version unchanged. After such an update, Settle drops pending updates only if
// they were older than pendingMax when it was sent.
//
// Settle ignores a replica that an image has removed since the update was proposed: the replica was
// removed from the recorded ISR after the update (see ApplyImage).
func (s *State) Settle(outcome Outcome, partitionEpoch int64, now time.Time) {
	u := *s.inFlight
	s.inFlight = nil
	u.to = slices.DeleteFunc(slices.Clone(u.to), s.wasRemoved)
	switch ids := idsOf(u.to); outcome {
	case Recorded:
		s.recorded, s.partitionEpoch, s.conflicts = ids, partitionEpoch, 0
		s.metadataStaleUntil, s.lastUpdateConflicted = now.Add(imageDelay), false
		clear(s.recordedEpochs)
		for _, m := range u.to {
			s.recordedEpochs[m.Broker] = m.Epoch
		}
		if !slices.Equal(u.from, ids) {
			s.pendingUpdates = nil
		}
		s.pendingUpdates = slices.DeleteFunc(s.pendingUpdates,
			func(p pendingUpdate) bool { return u.sent.Sub(p.since) > pendingMax })
		if len(s.pendingUpdates) > 0 {
			s.retryAt = now.Add(RetryDelay)
		}
	case Unknown:
		s.pendingUpdates = slices.DeleteFunc(s.pendingUpdates,
			func(p pendingUpdate) bool { return slices.Equal(idsOf(p.to), ids) })
		s.pendingUpdates = append(s.pendingUpdates, pendingUpdate{u.to, now})
		s.retryAt = now.Add(RetryDelay)
	case Conflict:
		s.conflicts++
		assumedMetadata := slices.Equal(u.from, s.inMetadata)
		if s.conflicts > 1 || assumedMetadata {
			s.retryAt = now.Add(min(time.Duration(s.conflicts)*RetryDelay, retryDelayMax))
		}
		s.lastUpdateConflicted = true
		if len(s.pendingUpdates) == 0 && assumedMetadata {
			// The update that assumed the image's ISR failed, so the image is stale.
			s.metadataStaleUntil, s.lastUpdateConflicted = now.Add(imageDelay), false
		}
	}
	s.acceptRemovals(now)
}

// wasRemoved reports whether the last image does not list a member as a replica, or lists it with
// another incarnation id.
func (s *State) wasRemoved(m metadata.InSync) bool {
	f := s.followers[m.Broker]
	return m.Broker != s.self && (f == nil || f.incarnation != m.ReplicaIncarnation)
}
