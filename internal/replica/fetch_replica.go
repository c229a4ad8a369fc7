package replica

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// asker is a follower that fetches, and in a session when it asks there for anything.
type asker struct {
	metadata.InSync
	asks *lastAsk // nil: there is no session
}

// readReplica answers a follower for one partition: with records up to the log end, of which it is
// told the high watermark. What it asks for says what it has, and may move the high watermark. With
// an error or a diverging epoch there is no position.
//
// The order matters. Only once the logs are known to be one up to the follower's end does that end
// count for anything.
func (s *Set) readReplica(want FetchPartition, from asker, wholeFirst bool) (FetchResult,
	position) {
	result := unread(want.ID)
	p, r, err := s.leader(want.ID, want.LeaderEpoch)
	if err == nil {
		err = p.isOf(want.Topic)
	}
	if err == nil && !slices.Contains(r.replicas, from.Broker) {
		err = fmt.Errorf("%w: broker %d", ErrStaleReplica, from.Broker)
	}
	if err != nil {
		result.Err = err
		return result, position{}
	}
	result.Diverging, err = p.diverging(r, want, want.HighWater)
	if start, end := p.log.LogStart(),
		p.log.LogEnd(); err == nil && result.Diverging == nil &&
		(want.Offset < start || want.Offset > end) {
		err = fmt.Errorf("%w: %d is not in [%d, %d]", logstore.ErrOffsetOutOfRange, want.Offset,
			start, end)
	}
	if err != nil || result.Diverging != nil {
		result.Err = err
		result.offsetsOf(p.log)
		return result, position{}
	}
	from.ReplicaIncarnation = want.ReplicaIncarnation
	if !s.heard(p, r, from, &want) {
		result.Err = fmt.Errorf("%w: broker %d in incarnation %d by assignment %q", ErrStaleReplica,
			from.Broker, from.Epoch, from.ReplicaIncarnation)
		return result, position{}
	}
	bytesMax, held := s.share(r, from.Broker, want.BytesMax)
	// most of a fetch: what there is to say of it, without a look into the log
	if end := p.log.LogEnd(); want.Offset == end {
		result.LogStart, result.HighWater, result.Stable = p.log.LogStart(), p.log.HighWatermark(),
			p.log.LastStable()
		result.tell(p, r, &want)
		return result, position{partition: p, role: r, limit: end, held: held}
	}
	data, err := p.log.ReadReplica(want.Offset, bytesMax, wholeFirst && !held)
	if result.take(p, r, data, err) != nil {
		if errors.Is(err, logstore.ErrOffsetOutOfRange) { // it was in range a moment ago
			result.LogEnd = p.log.LogEnd()
		}
		return result, position{}
	}
	s.spend(r, from.Broker, data.Length)
	result.tell(p, r, &want)
	// The end as of now, and not of before the read: what came in between would wake nobody.
	at := position{partition: p, role: r, limit: want.Offset, bytes: data.Length,
		more: data.More && !held, held: held}
	return result, at
}

// tell fills in what a follower is told besides records, and whether that is news to it. A high
// watermark beyond its end is none: it comes with the records.
func (f *FetchResult) tell(p *partition, r *role, want *FetchPartition) {
	f.ReplicasTombstoneClean = lonelyInAll(p, r)
	f.OffsetsChanged = want.HighWater < min(f.HighWater, want.Offset) ||
		want.LogStart < f.LogStart ||
		want.ReplicasTombstoneClean != f.ReplicasTombstoneClean
}

// heard takes in what a follower's fetch says of it.
func (s *Set) heard(p *partition, r *role, from asker, want *FetchPartition) bool {
	moved, review, ok := r.reign.fetched(from, want, time.Now())
	if moved {
		s.advanced(p, r)
	}
	if review {
		s.reviews.want(p.id)
	}
	return ok
}

// share is how much a follower may have now. One in sync has all it asks for: producers wait for
// it. One that is not catches up at the rate that the broker allows; held tells that nothing is
// left of it at this moment.
func (s *Set) share(r *role, follower int32, bytesMax int) (bytes int, held bool) {
	if s.catchUp.Burst() == 0 || r.reign.isInSync(follower) {
		return bytesMax, false
	}
	tokens := int(s.catchUp.Tokens())
	if tokens <= 0 {
		return 0, true
	}
	return min(bytesMax, tokens), false
}

// spend charges what a follower out of sync got. A first batch may be more than there was: the debt
// is waited out.
func (s *Set) spend(r *role, follower int32, bytes int) {
	if bytes > 0 && s.catchUp.Burst() > 0 && !r.reign.isInSync(follower) {
		for left := bytes; left > 0; left -= s.catchUp.Burst() {
			s.catchUp.ReserveN(time.Now(), min(left, s.catchUp.Burst()))
		}
	}
}
