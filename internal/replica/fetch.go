package replica

import (
	"context"
	"errors"
	"fmt"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
	"heartwood.dev/heartwood/internal/metadata"
)

// FetchPartition is what a consumer or a follower wants of one partition.
type FetchPartition struct {
	ID          PartitionID
	Topic       metadata.ID // zero: whatever topic has the name
	Offset      int64
	BytesMax    int   // of this partition; a first batch may exceed it
	LeaderEpoch int32 // what the client thinks it is; -1: unknown
	LastEpoch   int32 // of the record before Offset, as the client has it; -1: unknown

	// Of followers only.
	HighWater              int64 // as the follower knows it
	DurableEnd             int64 // the follower vouches for what lies below; at most Offset
	TombstoneClean         int64 // its tombstones below are lonely: logstore.Log.LonelyTo
	ReplicasTombstoneClean int64 // as far as it knows, those of all replicas are lonely below
	LogStart               int64 // where its log begins
	// Assignment is the time as a replica for which its log was made; "": from before there were
	// names.
	ReplicaIncarnation string
}

// AnyReplicaIncarnation is the ReplicaIncarnation of a follower of an earlier version, which does
// not say.
const AnyReplicaIncarnation = "*"

// FetchRequest is a consumer's fetch, or, with Replica, a follower's.
type FetchRequest struct {
	Partitions    []FetchPartition
	BytesMin      int           // of all partitions together: with less there the fetch waits
	BytesMax      int           // of all partitions together; a first batch may exceed it
	Wait          time.Duration // at most; <= 0: not at all
	ReadCommitted bool          // read_committed: up to the last stable offset

	Rack       string // where the consumer is; "": it does not say
	AnyReplica bool   // the consumer takes answers from followers too (KIP-392)
	Replica    *metadata.InSync

	// These are FetchInSession's. Forgotten is what of the session is not wanted any more, TopicIDs
	// tells that topics are named by their ids.
	Session   SessionID
	Forgotten []PartitionKey
	TopicIDs  bool
	// Hurry, where it is not nil, has something to receive when the asker had rather have an answer
	// now than wait.
	Interrupt <-chan struct{}
}

// FetchResult is the answer for one partition. Data is nil on an error, with a diverging epoch, and
// for a follower that has all there is; otherwise it must be released. The offsets are -1 where
// this broker cannot know them: it does not have the partition, or its log closed.
type FetchResult struct {
	ID        PartitionID
	Topic     metadata.ID // as it was asked for
	Data      *logstore.Slice
	Err       error
	LogStart  int64
	HighWater int64
	Stable    int64
	LogEnd    int64 // for followers that are out of range; else -1
	// Diverging tells that the asker's log is not this one's, and where the epoch before ends; nil:
	// it is, or it did not ask.
	Diverging *EpochEnd
	// PreferredReplica is where the consumer had better read, as it is in its rack;
	// metadata.NoBroker: here.
	PreferredReplica       int32
	ReplicasTombstoneClean int64 // the tombstones of all replicas are lonely below; for followers
	OffsetsChanged         bool  // a follower learns something from this
}

// EpochEnd is a leader epoch, and where it ends in a log.
type EpochEnd struct {
	Epoch int32
	End   int64
}

// Fetch reads; while less than BytesMin bytes are there and nothing failed, it waits in the
// purgatory, at most Wait. Results are in the order of the partitions; the first batch of the first
// partition that has data comes whole, whatever its size.
//
// It waits once: what is there after the wait is the answer, also when it is less than hoped for.
// So no miscount, here or in a client, can make a request go round in circles.
func (s *Set) Fetch(ctx context.Context, req FetchRequest) []FetchResult {
	results, positions := make([]FetchResult, len(req.Partitions)),
		make([]position, len(req.Partitions))
	enough := s.read(&req, results, positions)
	if enough || req.Wait <= 0 || len(req.Partitions) == 0 {
		return handOver(req, results, positions)
	}
	op := &delayedFetch{req: req, positions: positions, done: make(chan struct{})}
	keys := make([]PartitionID, len(req.Partitions))
	for i, result := range results {
		keys[i] = result.ID
		if result.Data != nil {
			result.Data.Release()
		}
	}
	purgatory := s.fetches
	if req.Replica != nil {
		purgatory = s.pulls
	}
	wait(ctx, purgatory.Wait(op, req.Wait, keys...), req.Interrupt, op.done)
	s.read(&req, results, positions)
	return handOver(req, results, positions)
}

// handOver counts what goes out to consumers; what was read before a wait did not.
func handOver(req FetchRequest, results []FetchResult, positions []position) []FetchResult {
	if req.Replica != nil {
		return results
	}
	for _, at := range positions {
		if at.bytes > 0 {
			at.partition.fetchedBytes.Add(float64(at.bytes))
		}
	}
	return results
}

// position is where a fetch stands in one partition, after it read what there was.
type position struct {
	partition *partition
	role      *role
	want      FetchPartition
	limit     int64 // of what it could read then
	bytes     int   // that it read
	more      bool  // there was more, out of its reach
	held      bool  // it may not have more now: its share of the bandwidth is used up
}

// read reads every partition once, within the request's budget, into results and positions, which
// have a place for each. enough is true if the answer must not wait: a partition failed, BytesMin
// are there, there is more than one answer can hold, as an answer holds batches of one segment at
// most, or the asker has to hear of something else.
func (s *Set) read(req *FetchRequest, results []FetchResult, positions []position) (enough bool) {
	total := 0
	for i, want := range req.Partitions {
		if left := req.BytesMax - total; want.BytesMax > left {
			want.BytesMax = max(left, 0)
		}
		results[i], positions[i] = s.readOne(req, want, nil, total == 0)
		if positions[i].partition == nil {
			enough = true
			continue
		}
		positions[i].want = req.Partitions[i] // not cut by what the others took
		total += positions[i].bytes
		enough = enough || positions[i].more || results[i].OffsetsChanged && positions[i].role.brisk
	}
	return enough || total >= min(req.BytesMin, req.BytesMax)
}

// readOne reads one partition once; asks is the session's of a follower.
func (s *Set) readOne(req *FetchRequest, want FetchPartition, asks *lastAsk,
	wholeFirst bool) (result FetchResult, at position) {
	switch {
	case want.ID.Topic == "":
		result = unread(want.ID)
		result.Err = fmt.Errorf("%w: nobody knows %s", ErrInconsistentTopicID, want.Topic)
	case req.Replica != nil:
		result, at = s.readReplica(want, asker{*req.Replica, asks}, wholeFirst)
	default:
		result, at = s.readPartition(want, req, wholeFirst)
	}
	result.Topic = want.Topic
	return result, at
}

// unread is a result without anything.
func unread(id PartitionID) FetchResult {
	return FetchResult{ID: id, LogStart: -1, HighWater: -1, Stable: -1, LogEnd: -1,
		PreferredReplica: metadata.NoBroker}
}

// readPartition reads one partition for a consumer, at most want.BytesMax bytes, but its first
// batch always if wholeFirst is set. When there is something else to say than records, there is no
// position.
func (s *Set) readPartition(want FetchPartition, req *FetchRequest, wholeFirst bool) (FetchResult,
	position) {
	result := unread(want.ID)
	p, r, err := s.reader(want, req)
	if err != nil {
		result.Err = err
		return result, position{}
	}
	if result.PreferredReplica = s.nearer(r, req.Rack,
		want.Offset); result.PreferredReplica != metadata.NoBroker {
		result.offsetsOf(p.log)
		result.Data = &logstore.Slice{}
		return result, position{}
	}
	if r.reign == nil && (want.Offset > p.log.LogEnd() || want.LastEpoch > p.log.LeaderEpoch()) {
		// which says nothing about where logs part
		result.Err = fmt.Errorf("%w: this follower is not that far yet", ErrOffsetNotAvailable)
		result.offsetsOf(p.log)
		return result, position{}
	}
	if diverging, err := p.diverging(r, want, want.Offset); diverging != nil || err != nil {
		result.Diverging, result.Err = diverging, err
		result.offsetsOf(p.log)
		return result, position{}
	}
	limit := p.limit(req.ReadCommitted)
	read := p.log.Read
	if req.ReadCommitted {
		read = p.log.ReadCommitted
	}
	data, err := read(p.readable(want.Offset, limit), limit, want.BytesMax, wholeFirst)
	if result.take(p, r, data, err) != nil {
		if errors.Is(err, logstore.ErrOffsetOutOfRange) && r.reign == nil &&
			want.Offset > p.log.LogEnd() {
			result.Err = fmt.Errorf("%w: %w", ErrOffsetNotAvailable, err) // the leader may have it
		}
		return result, position{}
	}
	return result, position{partition: p, role: r, limit: limit, bytes: data.Length,
		more: data.More}
}

// reader finds a partition that the consumer may read here: one that this broker leads, or, if it
// takes that, follows.
func (s *Set) reader(want FetchPartition, req *FetchRequest) (*partition, *role, error) {
	view := s.view.Load()
	p := view.partitions[want.ID]
	if p == nil {
		return nil, nil, view.missing(want.ID)
	}
	if err := p.isOf(want.Topic); err != nil {
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

// nearer returns a replica in the consumer's rack that has what it wants, metadata.NoBroker if this
// one will do.
func (s *Set) nearer(r *role, rack string, offset int64) int32 {
	if rack == "" || r.reign == nil || !r.brisk {
		return metadata.NoBroker
	}
	img := s.view.Load().image
	if own, up := img.Broker(s.node); !up || own.Rack == rack {
		return metadata.NoBroker
	}
	for _, id := range r.replicas {
		if broker, up := img.Broker(id); up && broker.Rack == rack && r.reign.holds(id, offset) {
			return id
		}
	}
	return metadata.NoBroker
}

// diverging tells where the asker's log and this one part, if they do before its offset (KIP-320,
// KIP-595); nil: they do not, or it did not say what epoch its last record has. settled is below
// which offset all that the asker has was below a high watermark. It fails for an epoch that this
// log does not know.
//
// Where this log was copied from a cleaned one it does not know exactly where epochs begin
// (Log.AppendReplicated). But what was below a high watermark is here, or was superseded: unless
// records were lost since, nothing parts there.
func (p *partition) diverging(r *role, want FetchPartition, settled int64) (*EpochEnd, error) {
	if want.LastEpoch < 0 {
		return nil, nil
	}
	if want.Offset <= min(settled, p.log.LogEnd()) && !r.lostSince(want.LastEpoch) &&
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

// take fills in what was read of a partition, or why nothing was.
func (f *FetchResult) take(p *partition, r *role, data *logstore.Slice, err error) error {
	switch {
	case errors.Is(err, logstore.ErrClosed):
		f.Err = closedError(p, r)
	case err != nil:
		f.Err = err
		f.offsetsOf(p.log)
	default:
		f.Data = data
		f.LogStart, f.HighWater, f.Stable = data.LogStart, data.HighWater, data.Stable
	}
	return err
}

func (f *FetchResult) offsetsOf(log *logstore.Log) {
	f.LogStart, f.HighWater, f.Stable, f.LogEnd = log.LogStart(), log.HighWatermark(),
		log.LastStable(), log.LogEnd()
}

// limit is the end of what a consumer may read.
func (p *partition) limit(committed bool) int64 {
	if committed {
		return p.log.LastStable()
	}
	return p.log.HighWatermark()
}

// readable is the offset to read at: an offset between limit and log end is not out of range, as
// the consumer may have it from a former leader or from read_uncommitted; there is only nothing to
// read yet.
func (p *partition) readable(offset, limit int64) int64 {
	if offset > limit && offset <= p.log.LogEnd() {
		return limit
	}
	return offset
}
