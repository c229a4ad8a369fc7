package isr

import (
	"maps"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/metadata"
)

// State is the leader's view of one partition's replicas in one leader epoch.
type State struct {
	self int32
	// incarnation is the leader's own replica incarnation id in the metadata image.
	incarnation string
	epochStart  int64 // first offset of this leader epoch
	logEnd      int64 // log end offset of the leader, as last passed to SetLogEnd
	// lagMax is how long a follower that is not caught up stays in the ISR.
	lagMax    time.Duration
	followers map[int32]*follower
	// recorded is the recorded ISR as far as the leader knows it. It is sorted, always contains the
	// leader, and omits replicas whose recorded broker epoch is known to be fenced. The slice is
	// replaced, and never modified.
	recorded []int32
	// recordedEpochs maps members of recorded to a lower bound of their recorded broker epoch. If a
	// member has no entry, its recorded epoch is unknown.
	recordedEpochs map[int32]int64
	// partitionEpoch is the lowest partition epoch at which the ISR in recorded can have been
	// recorded.
	partitionEpoch int64
	// inMetadata is the ISR in the last metadata image, and metadataEpoch is the partition epoch in
	// that image. The ISR is only a hint, because images may be stale.
	inMetadata    []int32
	metadataEpoch int64
	// metadataStaleUntil is the time until which an image is regarded as stale if its ISR differs from
	// the recorded ISR.
	metadataStaleUntil time.Time
	// lastUpdateConflicted is set if the last update conflicted. Then recorded is probably wrong, and
	// inMetadata may be right.
	lastUpdateConflicted bool
	inFlight             *update // nil if no update is in flight
	// pendingUpdates contains the updates that ended without an answer. Each of them may already be
	// recorded, or may be recorded later, unless another update was recorded after it.
	pendingUpdates []pendingUpdate
	// conflicts is the number of conflicts since the last update that succeeded, or since the last
	// image that changed.
	conflicts int
	// retryAt is the earliest time of the next proposal after a conflict, or while updates are
	// pending. An image clears retryAt if it describes this partition differently from the previous
	// image. Other images do not clear it, because a broker failure causes hundreds of images that
	// change only other partitions.
	retryAt time.Time
}

// Replica describes one replica according to a metadata image.
type Replica struct {
	Broker int32
	// LiveEpoch is the current epoch of the replica's broker. If it is -1, the broker is down or in
	// controlled shutdown, and the replica must not be in sync.
	LiveEpoch   int64
	Incarnation string // replica incarnation id
	// RecordedEpoch is the broker epoch with which the replica is in the ISR. It is -1 if the replica
	// is not in the ISR, or if the epoch is unknown.
	RecordedEpoch int64
	// FencedBelow is the lowest broker epoch that is not fenced; 0 if none is fenced. The processes
	// with lower epochs have exited, and no later process has taken their place in the image's ISR.
	FencedBelow int64
}

// New returns the state at the start of a leader epoch. It contains no replicas; the first call of
// ApplyImage adds them. New assumes that the ISR's members are caught up at that time, because they
// have every acknowledged record. So each member has lagMax for its first fetch.
func New(self int32, epochStart int64, lagMax time.Duration) *State {
	return &State{self: self, epochStart: epochStart, logEnd: epochStart, lagMax: lagMax,
		followers: map[int32]*follower{}, recordedEpochs: map[int32]int64{}}
}

// SetLagMax changes how long a follower that is not caught up stays in the ISR.
func (s *State) SetLagMax(lagMax time.Duration) { s.lagMax = lagMax }

// LagMax returns how long a follower that is not caught up stays in the ISR.
func (s *State) LagMax() time.Duration { return s.lagMax }

// CaughtUpAt returns the last time at which a follower is known to have had the leader's whole log.
// It returns the zero time if no such time is known.
func (s *State) CaughtUpAt(broker int32) time.Time {
	if f := s.followers[broker]; f != nil {
		return f.caughtUpAt
	}
	return time.Time{}
}

// Self returns the leader's broker id.
func (s *State) Self() int32 { return s.self }

// EpochStart returns the first offset of the leader epoch.
func (s *State) EpochStart() int64 { return s.epochStart }

// Recorded returns the recorded ISR as far as the leader knows it, sorted. The caller must not
// modify it.
func (s *State) Recorded() []int32 { return s.recorded }

// IsRecorded reports whether a broker is in the recorded ISR.
func (s *State) IsRecorded(broker int32) bool { return slices.Contains(s.recorded, broker) }

// ApplyImage processes a metadata image of this leader epoch: its replicas, and the ISR that was
// recorded when the image was made.
//
// The first image sets the recorded ISR. A later image may be older than one of the leader's own
// updates. It is certainly newer only if its partition epoch is above that of the leader's last
// update; then the leader accepts the removal of members (see acceptRemovals). If images continue
// to contradict the leader, a compare-and-swap resolves the contradiction (see Propose). One fact
// holds even if an image is stale, because images arrive in order: a replica that the image no
// longer lists, or lists with another incarnation id, was removed from the partition, and at the
// same time from the recorded ISR.
//
// A fenced member stays in the maximal ISR until its removal is recorded. It can no longer be
// elected, but it may have been elected before its process exited. The image does not show such an
// election if the image's entry for the partition is older than its entry for the broker (ADR
// 0253). In that case this leader is deposed, and the removal fails.
func (s *State) ApplyImage(replicas []Replica, isr []int32, partitionEpoch int64,
	now time.Time) {
	first := s.recorded == nil
	inMetadata := sortedSet(append([]int32{s.self}, isr...))
	changed := first || !slices.Equal(inMetadata, s.inMetadata)
	s.inMetadata, s.metadataEpoch = inMetadata, partitionEpoch
	if first {
		s.recorded, s.partitionEpoch = s.inMetadata, partitionEpoch
	}
	s.removeReplaced(replicas)
	s.acceptRemovals(now)
	for _, r := range replicas {
		if r.Broker == s.self {
			s.incarnation = r.Incarnation
			continue
		}
		f := s.followers[r.Broker]
		if f == nil {
			f = &follower{fetchEpoch: -1, durableEnd: -1, exitedEpoch: -1}
			if first && s.IsRecorded(r.Broker) {
				f.caughtUpAt = now
			}
			s.followers[r.Broker] = f
			changed = true
		}
		changed = changed || f.liveEpoch != r.LiveEpoch || f.fencedBelow < r.FencedBelow
		f.liveEpoch, f.incarnation = r.LiveEpoch, r.Incarnation
		f.fencedBelow = max(f.fencedBelow, r.FencedBelow)
		if first && r.RecordedEpoch >= 0 {
			s.recordedEpochs[r.Broker] = r.RecordedEpoch
		}
	}
	if changed {
		s.retryAt, s.conflicts = time.Time{}, 0
	}
}

// acceptRemovals adopts the last image's ISR as the recorded ISR if the image is newer than the
// leader's last update and only removes members. If a broker fails, the operator removes it from
// the ISRs in the writes that elect other leaders, so the leader does not have to write again. A
// broker removes itself when its log has stopped.
//
// This is safe because only the leader adds members in its leader epoch. So the recorded ISR is a
// subset of the image's ISR, unless one of the leader's updates has since added a member. The last
// recorded update has not, because the image's partition epoch is higher. An update in flight, or
// an update that ended without an answer, may have added members; these stay in the maximal ISR.
func (s *State) acceptRemovals(now time.Time) {
	if s.metadataEpoch <= s.partitionEpoch ||
		slices.ContainsFunc(s.inMetadata, func(id int32) bool { return !s.IsRecorded(id) }) {
		return
	}
	for _, id := range s.recorded {
		if f := s.followers[id]; f != nil && !slices.Contains(s.inMetadata, id) {
			f.removedAt = now
		}
	}
	s.recorded, s.partitionEpoch = s.inMetadata, s.metadataEpoch
	s.conflicts, s.lastUpdateConflicted, s.retryAt = 0, false, time.Time{}
	maps.DeleteFunc(s.recordedEpochs, func(id int32, _ int64) bool { return !s.IsRecorded(id) })
}

// removeReplaced removes the replicas that an image does not list, or lists with another
// incarnation id. It removes them from the followers, from the recorded ISR and from all pending
// updates.
func (s *State) removeReplaced(replicas []Replica) {
	keep := map[int32]bool{s.self: true}
	for _, r := range replicas {
		f := s.followers[r.Broker]
		keep[r.Broker] = f == nil || r.Incarnation == f.incarnation
	}
	maps.DeleteFunc(s.followers, func(id int32, _ *follower) bool { return !keep[id] })
	s.recorded = slices.DeleteFunc(slices.Clone(s.recorded),
		func(id int32) bool { return !keep[id] })
	for i := range s.pendingUpdates {
		s.pendingUpdates[i].to = slices.DeleteFunc(slices.Clone(s.pendingUpdates[i].to),
			func(m metadata.InSync) bool { return !keep[m.Broker] })
	}
}

// isFenced reports whether a follower is recorded in the ISR with a fenced broker epoch.
func (s *State) isFenced(id int32, f *follower) bool {
	epoch, known := s.recordedEpochs[id]
	return known && epoch < f.fencedBelow
}

// maximal returns the maximal ISR: all members of the sets that may be recorded now or later.
func (s *State) maximal() []int32 {
	if s.inFlight == nil && len(s.pendingUpdates) == 0 {
		return s.recorded
	}
	all := slices.Clone(s.recorded)
	for _, p := range s.pendingUpdates {
		all = append(all, idsOf(p.to)...)
	}
	if s.inFlight != nil {
		all = append(all, idsOf(s.inFlight.to)...)
	}
	return sortedSet(all)
}

// HighWatermark returns the offset up to which the high watermark may advance: the smallest durable
// end offset over the maximal ISR. It returns -1 if that offset is not known yet. ownEnd is the
// leader's durable end offset, and leaderEnd is its log end offset.
//
// The high watermark also waits for a follower that is about to join the ISR. Otherwise, under a
// steady load, the high watermark would always be ahead of that follower, and the follower could
// never join.
func (s *State) HighWatermark(ownEnd, leaderEnd int64, now time.Time) int64 {
	smallest := ownEnd
	maximal := s.maximal()
	for id, f := range s.followers {
		joining := f.fetches() && f.isAlive() && f.liveEpoch == f.fetchEpoch &&
			f.durableEnd >= s.epochStart && s.isCaughtUp(f, leaderEnd, now)
		if joining || slices.Contains(maximal, id) {
			smallest = min(smallest, f.durableEnd)
		}
	}
	for _, id := range maximal {
		if id != s.self && s.followers[id] == nil {
			// A proposed member is no longer a replica. Wait for the outcome of the update.
			return -1
		}
	}
	return smallest
}

// LowestLogStart returns the lowest log start offset over the maximal ISR. own is the leader's log
// start offset. A replica that joins the ISR later has no lower log start offset: see Propose.
func (s *State) LowestLogStart(own int64) int64 {
	maximal := s.maximal()
	for id, f := range s.followers {
		if slices.Contains(maximal, id) {
			own = min(own, f.logStart)
		}
	}
	return own
}

// TombstoneCleanOffset returns the smallest tombstone-clean offset over all replicas. own is the
// leader's tombstone-clean offset. The result is 0 while a replica has not reported its offset.
func (s *State) TombstoneCleanOffset(own int64) int64 {
	for _, f := range s.followers {
		own = min(own, f.tombstoneClean)
	}
	return own
}

// TombstonesWaitFor returns, in ascending order, the followers that prevent the removal of a
// tombstone at an offset, because their tombstone-clean offset is not above that offset, or is
// unknown.
func (s *State) TombstonesWaitFor(offset int64) (brokers []int32) {
	for id, f := range s.followers {
		if f.tombstoneClean <= offset {
			brokers = append(brokers, id)
		}
	}
	slices.Sort(brokers)
	return brokers
}

// CanServe reports whether a follower can serve a consumer at an offset: the follower is in the
// recorded ISR, its broker is alive, and its log extends to the offset.
func (s *State) CanServe(broker int32, offset int64) bool {
	f := s.followers[broker]
	return f != nil && f.liveEpoch >= 0 && f.durableEnd >= offset && s.IsRecorded(broker)
}

// Lags returns how many offsets each follower is behind the leader's log end. It omits followers
// that have not fetched in this leader epoch.
func (s *State) Lags(leaderEnd int64) map[int32]int64 {
	lags := make(map[int32]int64, len(s.followers))
	for id, f := range s.followers {
		if f.durableEnd >= 0 {
			lags[id] = max(0, leaderEnd-f.durableEnd)
		}
	}
	return lags
}

func idsOf(members []metadata.InSync) []int32 {
	ids := make([]int32, len(members))
	for i, m := range members {
		ids[i] = m.Broker
	}
	return sortedSet(ids)
}

// sortedSet sorts ids in place and removes duplicates.
func sortedSet(ids []int32) []int32 {
	slices.Sort(ids)
	return slices.Compact(ids)
}
