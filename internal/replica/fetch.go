package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
	"heartwood.dev/heartwood/internal/replica/session"
)

// FetchPartition is a consumer's or a follower's fetch request for one partition.
type FetchPartition struct {
	ID     PartitionID
	Topic  metadata.ID // topic id; zero if the request contains none
	Offset int64
	// BytesMax limits the bytes of this partition; the first batch of a response may exceed it.
	BytesMax    int
	LeaderEpoch int32 // latest leader epoch that the client knows; -1: unknown
	LastEpoch   int32 // leader epoch of the client's record before Offset; -1: unknown

	// Only followers set the other fields; see FollowerPartition.

	HighWater              int64
	DurableEnd             int64 // at most Offset
	TombstoneClean         int64
	ReplicasTombstoneClean int64
	LogStart               int64
	ReplicaIncarnation     string
}

// FetchRequest is a consumer's fetch request, or a follower's if Replica is set.
type FetchRequest struct {
	Partitions []FetchPartition
	BytesMin   int // minimum number of bytes, over all partitions, for which the fetch waits
	// BytesMax limits the bytes of all partitions together; the first batch may exceed it.
	BytesMax int
	Wait     time.Duration // maximum wait; if <= 0, the fetch does not wait

	ReadCommitted bool   // true if the fetch reads only up to the last stable offset
	Rack          string // rack of the consumer; "": unknown
	AnyReplica    bool   // true if the consumer also accepts responses of followers (KIP-392)
	Replica       *metadata.InSync

	// Suspended reports whether the consumer must not receive records now, because it has exceeded its
	// quota. If it is nil, the consumer may always receive records. Suspended is called before each
	// read. If it returns true, the results are the same as with a limit of 0 bytes for the response.
	Suspended func() bool

	// Only FetchInSession uses the next three fields. Forgotten lists the partitions that the fetch
	// removes from the session. TopicIDs is set if the fetch names topics by id.

	Session   session.ID
	Forgotten []session.Key
	TopicIDs  bool
	// Interrupt ends the wait when it becomes readable; it may be nil.
	Interrupt <-chan struct{}
}

// FetchResult is the result for one partition. Data is nil after an error, with a diverging epoch,
// and for a follower that has the whole log. If Data is not nil, the caller must release it. The
// offsets are -1 if this broker has no replica of the partition, or if the partition's log is
// closed.
type FetchResult struct {
	ID        PartitionID
	Topic     metadata.ID // topic id in the request
	Data      *logstore.Slice
	Err       error
	LogStart  int64
	HighWater int64
	Stable    int64 // last stable offset
	LogEnd    int64 // log end offset, for a follower whose offset is out of range; may be -1
	// Diverging is the point at which the client's log diverges from this broker's log. It is nil if
	// the logs do not diverge, or if the client did not send LastEpoch.
	Diverging *EpochEnd
	// PreferredReplica is a broker in the consumer's rack, from which the consumer should read. It is
	// metadata.NoBroker if the consumer should read from this broker.
	PreferredReplica int32

	// Only followers use the next two fields. ReplicasTombstoneClean is the replicated cleaning
	// progress. OffsetsChanged is set if an offset in this result differs from the follower's request.

	ReplicasTombstoneClean int64
	OffsetsChanged         bool
}

// EpochEnd is a leader epoch and its end offset in a log.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// Fetch reads the partitions. If they have less than BytesMin bytes and none failed, it waits in
// the purgatory, for at most Wait, and reads them again. The results are in the order of the
// request. The first batch of the first partition with data is returned whole, whatever its size.
//
// Fetch waits only once: the response contains the data that exist after the wait, even if they
// have less than BytesMin bytes. So Fetch cannot loop if bytes are counted wrongly, here or in a
// client.
func (s *Set) Fetch(ctx context.Context, req FetchRequest) []FetchResult {
	results, positions := make([]FetchResult, len(req.Partitions)),
		make([]position, len(req.Partitions))
	enough := s.read(&req, results, positions)
	if enough || req.Wait <= 0 || len(req.Partitions) == 0 {
		countFetched(req, positions)
		return results
	}
	op := &delayedFetch{req: req, positions: positions, done: make(chan struct{})}
	keys := make([]PartitionID, len(req.Partitions))
	for i, result := range results {
		keys[i] = result.ID
		if result.Data != nil {
			result.Data.Release()
		}
	}
	purgatory := s.consumerFetches
	if req.Replica != nil {
		purgatory = s.followerFetches
	}
	wait(ctx, purgatory.Wait(op, req.Wait, keys...), req.Interrupt, op.done)
	s.read(&req, results, positions)
	countFetched(req, positions)
	return results
}

// countFetched adds the bytes that a consumer receives to the metric. It is called only after the
// last read, because the data of reads before a wait are not sent.
func countFetched(req FetchRequest, positions []position) {
	if req.Replica != nil {
		return
	}
	for _, state := range positions {
		if state.bytes > 0 {
			state.partition.fetchedBytes.Add(float64(state.bytes))
		}
	}
}

// position is the state of a fetch in one partition, as of its last read.
type position struct {
	partition *partition // nil if the read failed, or intentionally returned no records
	role      *role      // role of the partition at the time of the read
	request   FetchPartition
	limit     int64 // offset below which records could be read
	bytes     int   // number of bytes that were read
	more      bool  // true if more records existed than the response can contain
	throttled bool  // true if the catch-up limit permits no further bytes now
}

// read reads every partition once, within the request's byte limits, into results and positions.
// enough reports whether the response must be sent without a wait. That is the case if a partition
// failed, BytesMin bytes were read, the client must receive new offsets, or more records exist than
// one response can contain. A response contains batches of at most one segment per partition.
func (s *Set) read(req *FetchRequest, results []FetchResult, positions []position) (enough bool) {
	total, most := 0, req.bytesMax()
	for i, want := range req.Partitions {
		if left := most - total; want.BytesMax > left {
			want.BytesMax = max(left, 0)
		}
		results[i], positions[i] = s.readOne(req, want, nil, total == 0 && most > 0)
		state := &positions[i]
		if state.partition == nil {
			enough = true
			continue
		}
		// The state keeps the original request, because want.BytesMax was reduced by the bytes of other
		// partitions.
		state.request = req.Partitions[i]
		total += state.bytes
		enough = enough || state.more || results[i].OffsetsChanged && state.role.pushHighWatermark
	}
	return enough || total >= min(req.BytesMin, req.BytesMax)
}

// bytesMax returns the limit for the bytes of a read. If the limit is 0, not even the first batch
// is returned.
func (r *FetchRequest) bytesMax() int {
	if r.Suspended != nil && r.Suspended() {
		return 0
	}
	return max(r.BytesMax, 1)
}

// readOne reads one partition once. session is the last fetch of the follower's session, or nil if
// the follower has no session.
func (s *Set) readOne(req *FetchRequest, want FetchPartition, session *lastFetch,
	wholeFirst bool) (result FetchResult, state position) {
	switch {
	case want.ID.Topic == "":
		result = emptyResult(want.ID)
		result.Err = fmt.Errorf("%w: unknown id %s", ErrInconsistentTopicID, want.Topic)
	case req.Replica != nil:
		result, state = s.readForFollower(want, fetchingFollower{*req.Replica, session}, wholeFirst)
	default:
		result, state = s.readForConsumer(want, req, wholeFirst)
	}
	result.Topic = want.Topic
	return result, state
}

func emptyResult(id PartitionID) FetchResult {
	return FetchResult{ID: id, LogStart: -1, HighWater: -1, Stable: -1, LogEnd: -1,
		PreferredReplica: metadata.NoBroker}
}

// readForConsumer reads at most want.BytesMax bytes of one partition for a consumer. If wholeFirst
// is set, it reads the whole first batch even if the batch is larger. The position is empty if the
// result contains an error, a diverging epoch, or another replica from which to read.
func (s *Set) readForConsumer(want FetchPartition, req *FetchRequest,
	wholeFirst bool) (FetchResult, position) {
	result := emptyResult(want.ID)
	p, r, err := s.readable(want, req)
	if err != nil {
		result.Err = err
		return result, position{}
	}
	result.PreferredReplica = s.preferredReplica(r, req.Rack, want.Offset)
	if result.PreferredReplica != metadata.NoBroker {
		result.setOffsets(p.log)
		result.Data = &logstore.Slice{}
		return result, position{}
	}
	ahead := want.Offset > p.log.LogEnd() || want.LastEpoch > p.log.LeaderEpoch()
	if r.leaderState == nil && ahead { // a follower cannot decide whether the logs diverge
		result.Err = fmt.Errorf("%w: this follower has not copied the offset yet", ErrOffsetNotAvailable)
		result.setOffsets(p.log)
		return result, position{}
	}
	if diverging, err := p.diverging(r, want, want.Offset); diverging != nil || err != nil {
		result.Diverging, result.Err = diverging, err
		result.setOffsets(p.log)
		return result, position{}
	}
	limit := p.limit(req.ReadCommitted)
	read := p.log.Read
	if req.ReadCommitted {
		read = p.log.ReadCommitted
	}
	data, err := read(p.clampToLimit(want.Offset, limit), limit, want.BytesMax, wholeFirst)
	if result.setData(p, r, data, err) != nil {
		if errors.Is(err, logstore.ErrOffsetOutOfRange) && r.leaderState == nil &&
			want.Offset > p.log.LogEnd() {
			// The leader may have the records at this offset.
			result.Err = fmt.Errorf("%w: %w", ErrOffsetNotAvailable, err)
		}
		return result, position{}
	}
	return result, position{partition: p, role: r, limit: limit, bytes: data.Length,
		more: data.More}
}

// readable returns a partition that this broker may serve to the consumer. The broker must lead the
// partition. It may also follow the partition if the consumer accepts responses of followers.
func (s *Set) readable(want FetchPartition, req *FetchRequest) (*partition, *role, error) {
	view := s.view.Load()
	p := view.partitions[want.ID]
	if p == nil {
		return nil, nil, view.missing(want.ID)
	}
	if err := p.checkTopic(want.Topic); err != nil {
		return nil, nil, err
	}
	r := p.role.Load()
	if req.AnyReplica && p.log != nil && r.follows(s.node) {
		err := r.checkEpoch(want.LeaderEpoch)
		return p, r, err
	}
	err := r.check(want.LeaderEpoch)
	return p, r, err
}

// preferredReplica returns a replica in the consumer's rack that can serve the consumer, or
// metadata.NoBroker if this broker should serve it.
func (s *Set) preferredReplica(r *role, rack string, offset int64) int32 {
	if rack == "" || r.leaderState == nil || !r.pushHighWatermark {
		return metadata.NoBroker
	}
	img := s.view.Load().image
	if own, up := img.Broker(s.node); !up || own.Rack == rack {
		return metadata.NoBroker
	}
	for _, id := range r.replicas {
		if broker, up := img.Broker(id); up && broker.Rack == rack &&
			r.leaderState.canServe(id, offset) {
			return id
		}
	}
	return metadata.NoBroker
}

// diverging returns the point below the client's offset at which the client's log diverges from
// this broker's log (KIP-320, KIP-595). It returns nil if the logs do not diverge, or if the client
// did not send the epoch of its last record. It fails if that epoch is later than every epoch in
// this log. Every record of the client below the offset committed was once below a high watermark.
//
// A log that was copied from a cleaned log does not contain the exact start offsets of its epochs
// (Log.AppendReplicated). But it contains every record that was below a high watermark, except
// superseded records. So the logs of a compacted topic do not diverge below that offset, unless
// acknowledged records were lost in an epoch after the client's last epoch.
func (p *partition) diverging(r *role, want FetchPartition, committed int64) (*EpochEnd, error) {
	if want.LastEpoch < 0 {
		return nil, nil
	}
	if want.Offset <= min(committed, p.log.LogEnd()) && !r.lostSince(want.LastEpoch) &&
		p.log.Settings().Compact {
		return nil, nil
	}
	found, end := p.log.EndOffsetFor(want.LastEpoch)
	switch {
	case end < 0:
		return nil, fmt.Errorf("%w: epoch %d is unknown, the latest is %d",
			logstore.ErrOffsetOutOfRange, want.LastEpoch, p.log.LeaderEpoch())
	case found < want.LastEpoch || end < want.Offset:
		return &EpochEnd{found, end}, nil
	}
	return nil, nil
}

// setData stores the data read from a partition, or the error of the read. It returns err.
func (f *FetchResult) setData(p *partition, r *role, data *logstore.Slice, err error) error {
	switch {
	case errors.Is(err, logstore.ErrClosed):
		f.Err = closedError(p, r)
	case err != nil:
		f.Err = err
		f.setOffsets(p.log)
	default:
		f.Data = data
		f.LogStart, f.HighWater, f.Stable = data.LogStart, data.HighWatermark, data.LastStable
	}
	return err
}

func (f *FetchResult) setOffsets(log *logstore.Log) {
	f.LogStart, f.HighWater, f.Stable, f.LogEnd = log.LogStart(), log.HighWatermark(),
		log.LastStable(), log.LogEnd()
}

// limit returns the offset below which a consumer can read.
func (p *partition) limit(readCommitted bool) int64 {
	if readCommitted {
		return p.log.LastStable()
	}
	return p.log.HighWatermark()
}

// clampToLimit returns the offset at which the log is read for a consumer. An offset between limit
// and the log end is not out of range: the consumer may have received it from a former leader, or
// under read_uncommitted. In this case the log is read at limit, where it has no records for the
// consumer yet.
func (p *partition) clampToLimit(offset, limit int64) int64 {
	if offset > limit && offset <= p.log.LogEnd() {
		return limit
	}
	return offset
}
