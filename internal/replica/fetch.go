package replica

import (
	"context"
	"errors"
	"time"

	"heartwood.dev/heartwood/internal/logstore"
)

// FetchPartition is what a consumer wants of one partition.
type FetchPartition struct {
	ID          PartitionID
	Offset      int64
	BytesMax    int   // of this partition; a first batch may exceed it
	LeaderEpoch int32 // what the client thinks it is; -1: unknown
}

// FetchRequest is a consumer's fetch.
type FetchRequest struct {
	Partitions []FetchPartition
	BytesMin   int           // of all partitions together: with less there the fetch waits
	BytesMax   int           // of all partitions together; a first batch may exceed it
	Wait       time.Duration // at most; <= 0: not at all
	Committed  bool          // read_committed: up to the last stable offset
}

// FetchResult is the answer for one partition. Data is nil on an error; otherwise it must be released. The offsets are -1
// where this broker cannot know them: it does not lead the partition, or its log closed.
type FetchResult struct {
	ID        PartitionID
	Data      *logstore.Slice
	Err       error
	LogStart  int64
	HighWater int64
	Stable    int64
}

// Fetch reads; while less than BytesMin bytes are there and nothing failed, it waits in the purgatory, at most Wait. Results
// are in the order of the partitions; the first batch of the first partition that has data comes whole, whatever its size.
//
// It waits once: what is there after the wait is the answer, also when it is less than hoped for. So no miscount, here or in a
// client, can make a request go round in circles.
func (s *Set) Fetch(ctx context.Context, req FetchRequest) []FetchResult {
	results, positions, enough := s.read(req)
	if enough || req.Wait <= 0 || len(req.Partitions) == 0 {
		return handOver(results, positions)
	}
	op := &delayedFetch{req: req, positions: positions, done: make(chan struct{})}
	keys := make([]PartitionID, len(req.Partitions))
	for i, result := range results {
		keys[i] = result.ID
		result.Data.Release()
	}
	wait(ctx, s.fetches.Wait(op, req.Wait, keys...), op.done)
	results, positions, _ = s.read(req)
	return handOver(results, positions)
}

// handOver counts what goes out; what was read before a wait did not.
func handOver(results []FetchResult, positions []position) []FetchResult {
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
}

// read reads every partition once, within the request's budget. enough is true if the answer must not wait: a partition failed,
// BytesMin are there, or there is more than one answer can hold, as an answer holds batches of one segment at most.
func (s *Set) read(req FetchRequest) (results []FetchResult, positions []position, enough bool) {
	results = make([]FetchResult, len(req.Partitions))
	positions = make([]position, len(req.Partitions))
	total := 0
	for i, want := range req.Partitions {
		if left := req.BytesMax - total; want.BytesMax > left {
			want.BytesMax = max(left, 0)
		}
		results[i], positions[i] = s.readPartition(want, req.Committed, total == 0)
		if results[i].Err != nil {
			enough = true
			continue
		}
		positions[i].want = req.Partitions[i] // not cut by what the others took
		total += positions[i].bytes
		enough = enough || positions[i].more
	}
	return results, positions, enough || total >= min(req.BytesMin, req.BytesMax)
}

// readPartition reads one partition, at most want.BytesMax bytes, but its first batch always if wholeFirst is set. On an
// error there is no position.
func (s *Set) readPartition(want FetchPartition, committed, wholeFirst bool) (FetchResult, position) {
	result := FetchResult{ID: want.ID, LogStart: -1, HighWater: -1, Stable: -1}
	p, r, err := s.leader(want.ID, want.LeaderEpoch)
	if err != nil {
		result.Err = err
		return result, position{}
	}
	limit := p.limit(committed)
	read := p.log.Read
	if committed {
		read = p.log.ReadCommitted
	}
	data, err := read(p.readable(want.Offset, limit), limit, want.BytesMax, wholeFirst)
	switch {
	case errors.Is(err, logstore.ErrClosed):
		result.Err = closedError(p, r)
	case err != nil:
		result.Err = err
		result.LogStart, result.HighWater, result.Stable = p.log.LogStart(), p.log.HighWatermark(), p.log.LastStable()
	default:
		result.Data = data
		result.LogStart, result.HighWater, result.Stable = data.LogStart, data.HighWater, data.Stable
		return result, position{partition: p, role: r, limit: limit, bytes: data.Length, more: data.More}
	}
	return result, position{}
}

// limit is the end of what a consumer may read.
func (p *partition) limit(committed bool) int64 {
	if committed {
		return p.log.LastStable()
	}
	return p.log.HighWatermark()
}

// readable is the offset to read at: an offset between limit and log end is not out of range, as the consumer may have it from
// a former leader or from read_uncommitted; there is only nothing to read yet.
func (p *partition) readable(offset, limit int64) int64 {
	if offset > limit && offset <= p.log.LogEnd() {
		return limit
	}
	return offset
}

// delayedFetch is a fetch that waits for records. Its positions need no lock: the purgatory never calls TryComplete twice at
// a time.
type delayedFetch struct {
	req       FetchRequest
	positions []position
	done      chan struct{}
}

// TryComplete implements timer.Operation. Only what came after the first read counts as new: were there an offset range
// without any record left in it, the fetch would complete with nothing, and its client ask again, without end.
func (d *delayedFetch) TryComplete() bool {
	total, enough := 0, false
	for i := range d.positions {
		bytes, now := d.positions[i].available(d.req)
		total += bytes
		enough = enough || now
	}
	if !enough && total < min(d.req.BytesMin, d.req.BytesMax) {
		return false
	}
	close(d.done)
	return true
}

// Expire implements timer.Operation.
func (d *delayedFetch) Expire() { close(d.done) }

// available returns how many bytes a read would give now; now is true if the fetch must not wait for more, because it could not
// get more, or would get an error. What it learns it keeps: a fetch of a thousand partitions looks again at each append to any of
// them, and must then read the index of that one, not of all that have grown since it came.
func (a *position) available(req FetchRequest) (bytes int, now bool) {
	if a.partition.since(a.role) != nil {
		return 0, true
	}
	limit := a.partition.limit(req.Committed)
	if limit <= max(a.limit, a.want.Offset) {
		return a.bytes, false
	}
	if req.BytesMin <= 1 {
		return 1, false // anything is enough: nothing need be read to know
	}
	data, err := a.partition.log.Read(a.want.Offset, limit, a.want.BytesMax, true)
	if err != nil {
		return 0, true
	}
	defer data.Release()
	a.limit, a.bytes = limit, data.Length
	return data.Length, data.More
}
