package replica

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// fetchingFollower is a follower that fetches from this broker.
type fetchingFollower struct {
	metadata.InSync
	// session is the last fetch of the follower's fetch session, or nil if the follower has no
	// session.
	session *lastFetch
}

// readForFollower reads one partition for a follower, up to the log end. The request reports the
// follower's log end, which may advance the high watermark. The position is empty if the result
// contains an error or a diverging epoch.
//
// The order of the steps matters: the follower's log end counts for the high watermark only after a
// check that the follower's log does not diverge below that end.
func (s *Set) readForFollower(want FetchPartition, from fetchingFollower,
	wholeFirst bool) (FetchResult, position) {
	result := emptyResult(want.ID)
	p, r, err := s.leader(want.ID, want.LeaderEpoch)
	if err == nil {
		err = p.checkTopic(want.Topic)
	}
	if err == nil && !slices.Contains(r.replicas, from.Broker) {
		err = fmt.Errorf("%w: broker %d", ErrStaleReplica, from.Broker)
	}
	if err != nil {
		result.Err = err
		return result, position{}
	}
	if p.leaderLost(r, &want) {
		s.noteLeaderLost(p, r, &want, from.Broker)
		result.Err = p.lossError()
		return result, position{}
	}
	result.Diverging, err = p.diverging(r, want, want.HighWater)
	if start, end := p.log.LogStart(), p.log.LogEnd(); err == nil && result.Diverging == nil &&
		(want.Offset < start || want.Offset > end) {
		err = fmt.Errorf("%w: %d is not in [%d, %d]", logstore.ErrOffsetOutOfRange, want.Offset,
			start, end)
	}
	if err != nil || result.Diverging != nil {
		result.Err = err
		result.setOffsets(p.log)
		return result, position{}
	}
	from.ReplicaIncarnation = want.ReplicaIncarnation
	if !s.followerFetched(p, r, from, &want) {
		result.Err = fmt.Errorf("%w: broker %d in broker epoch %d, replica incarnation %q",
			ErrStaleReplica, from.Broker, from.Epoch, from.ReplicaIncarnation)
		return result, position{}
	}
	throttle := s.throttleOf(r, from.Broker)
	bytesMax, throttled := throttle.allow(r, from.Broker, want.BytesMax)
	// Most fetches end here: the follower has all records, and the log is not read.
	if end := p.log.LogEnd(); want.Offset == end {
		result.LogStart, result.HighWater, result.Stable = p.log.LogStart(), p.log.HighWatermark(),
			p.log.LastStable()
		result.setFollowerOffsets(p, r, &want)
		return result, position{partition: p, role: r, limit: end, throttled: throttled}
	}
	data, err := p.log.ReadReplica(want.Offset, bytesMax, wholeFirst && !throttled)
	if result.setData(p, r, data, err) != nil {
		if errors.Is(err, logstore.ErrOffsetOutOfRange) { // the offset was in range at the check above
			result.LogEnd = p.log.LogEnd()
		}
		return result, position{}
	}
	throttle.charge(r, from.Broker, data.Length)
	result.setFollowerOffsets(p, r, &want)
	// limit is the follower's offset, and not the log end after the read. If the fetch waits, it must
	// find the records that were appended during the read, because the notification of these records
	// was already sent.
	state := position{partition: p, role: r, limit: want.Offset, bytes: data.Length,
		more: data.More && !throttled, throttled: throttled}
	return result, state
}

// setFollowerOffsets sets the offsets that a follower receives in addition to records, and sets
// OffsetsChanged if they differ from the offsets that the follower sent. A high watermark above the
// follower's log end does not count as a difference, because it is sent with the records.
func (f *FetchResult) setFollowerOffsets(p *partition, r *role, want *FetchPartition) {
	f.ReplicasTombstoneClean = updateCleaningProgress(p, r)
	f.OffsetsChanged = want.HighWater < min(f.HighWater, want.Offset) ||
		want.LogStart < f.LogStart || want.ReplicasTombstoneClean != f.ReplicasTombstoneClean
}

// MustRespond reports whether the response to a follower must contain the result.
func (f *FetchResult) MustRespond() bool {
	return f.OffsetsChanged || f.Err != nil || f.Diverging != nil ||
		f.Data != nil && f.Data.Length > 0
}

// followerFetched processes the state that a follower reports in its fetch. It reports whether it
// has accepted the fetch.
func (s *Set) followerFetched(p *partition, r *role, from fetchingFollower,
	want *FetchPartition) bool {
	advanced, evaluate, ok := r.leaderState.fetched(from, want, time.Now())
	if advanced {
		s.highWatermarkAdvanced(p, r)
	}
	if evaluate {
		s.isrUpdater.enqueue(p.id)
	}
	return ok
}
